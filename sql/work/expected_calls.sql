-- The calls each case is expected to hold, for every combination of alternatives.
-- kind: ephemeral
-- grain: one row per case, combination and expected call
-- null: never
-- source: contracts v2, required calls
with cases as (
    select
        case_id,
        judgment_id,
        is_strict,
    from work.cases
),

expected_calls as (
    select
        judgment_id,
        combination_id,
        position,
        pattern_id,
        tool,
        is_checked,
    from judgment.expected_calls
),

patterns as (
    select
        pattern_id,
        args_count,
    from judgment.patterns
)

select
    case_id::bigint as case_id,                                 -- the case
    combination_id::integer as combination_id,                  -- the combination of alternatives, from 0
    position::integer as position,                              -- place among the expected calls, from 0
    tool::varchar as tool,                                      -- the tool expected
    pattern_id::varchar as pattern_id,                          -- the tool and arguments expected, as declared
    is_checked::boolean as is_checked,                          -- whether the arguments are checked
    args_count::integer as args_count,                          -- how many arguments are expected
    is_strict::boolean as is_strict,                            -- whether they are compared type and all
from cases
inner join expected_calls using (judgment_id)
inner join patterns using (pattern_id)
