-- Every combination of alternatives of every judgment.
-- kind: incremental
-- key: judgment_id
-- grain: one row per judgment and combination
-- null: never
-- source: the compiled judgments
with combinations as (
    select
        judgment_id,
        combination_id,
        choices_json,
        expected_count,
    from staged.combinations
)

select
    judgment_id::varchar as judgment_id,        -- the judgment
    combination_id::integer as combination_id,  -- the combination, from 0 in declared order, the last group varying fastest
    choices_json::varchar as choices_json,      -- the option taken of each group, as JSON
    expected_count::integer as expected_count,  -- calls it expects
from combinations
