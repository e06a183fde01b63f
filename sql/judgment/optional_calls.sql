-- The calls each judgment allows without needing them.
-- kind: incremental
-- key: judgment_id
-- grain: one row per judgment and optional entry
-- null: never
-- source: the compiled judgments
with optional_calls as (
    select
        judgment_id,
        position,
        pattern_id,
        tool,
    from staged.optional_calls
)

select
    judgment_id::varchar as judgment_id,  -- the judgment
    position::integer as position,        -- place among the optional entries, from 0
    pattern_id::varchar as pattern_id,    -- the tool and arguments declared
    tool::varchar as tool,                -- the tool allowed
from optional_calls
