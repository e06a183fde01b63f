-- What the expected calls of each combination are to have left behind.
-- kind: incremental
-- key: judgment_id
-- grain: one row per judgment, combination, expected call and side effect
-- null: never
-- source: the compiled judgments
with side_effects as (
    select
        judgment_id,
        combination_id,
        position,
        kind,
        spec_json,
    from staged.side_effects
)

select
    judgment_id::varchar as judgment_id,        -- the judgment
    combination_id::integer as combination_id,  -- the combination, from 0
    position::integer as position,              -- the expected call, by its place, from 0
    kind::varchar as kind,                      -- file_exists, file_contains, http_status or sql_rows
    spec_json::varchar as spec_json,            -- what to look for, as declared, as canonical JSON
from side_effects
