-- The calls each combination expects, in order.
-- kind: incremental
-- key: judgment_id
-- grain: one row per judgment, combination and expected call
-- null: group_id outside alternatives
-- source: the compiled judgments
with expected_calls as (
    select
        judgment_id,
        combination_id,
        position,
        pattern_id,
        tool,
        group_id,
        is_checked,
    from staged.expected_calls
)

select
    judgment_id::varchar as judgment_id,        -- the judgment
    combination_id::integer as combination_id,  -- the combination, from 0
    position::integer as position,              -- place among the expected calls, from 0
    pattern_id::varchar as pattern_id,          -- the tool and arguments declared
    tool::varchar as tool,                      -- the tool expected
    group_id::varchar as group_id,              -- the group of alternatives it comes from
    is_checked::boolean as is_checked,          -- whether its arguments are checked
from expected_calls
