-- The calls that the score looks at: all but the optional ones no required call needs.
-- kind: ephemeral
-- grain: one row per case, combination and call
-- null: args_id where arguments were not recorded; is_failed where the outcome was not
-- source: contracts v2, optional calls are taken in order and fill required calls first
with combinations as (
    select
        case_id,
        combination_id,
    from work.combinations
),

case_calls as (
    select
        case_id,
        call_index,
        tool,
        args_id,
        args_count,
        is_matchable,
        is_failed,
    from work.case_calls
),

optional_calls as (
    select
        case_id,
        call_index,
        tool_ordinal,
    from work.optional_calls
),

expected_calls as (
    select
        case_id,
        combination_id,
        tool,
    from work.expected_calls
),

count_required as (
    select
        case_id,
        combination_id,
        tool,
        count(*) as required_count,
    from expected_calls
    semi join optional_calls using (case_id)
    group by all
),

keep_needed as (
    select
        case_id,
        combination_id,
        call_index,
        tool,
        args_id,
        args_count,
        is_matchable,
        is_failed,
    from combinations
    inner join case_calls using (case_id)
    left join optional_calls using (case_id, call_index)
    left join count_required using (case_id, combination_id, tool)
    where tool_ordinal is null or tool_ordinal < coalesce(required_count, 0)
)

select
    case_id::bigint as case_id,                                 -- the case
    combination_id::integer as combination_id,                  -- the combination of alternatives, from 0
    call_index::integer as call_index,                          -- place of the call in its run, from 0
    (row_number() over (partition by case_id, combination_id order by call_index) - 1)::integer as position, -- place among the scored calls, from 0
    tool::varchar as tool,                                      -- the tool called
    args_id::bigint as args_id,                                 -- its arguments, by number
    args_count::integer as args_count,                          -- how many arguments it gave
    is_matchable::boolean as is_matchable,                      -- whether its arguments may match an expectation that checks them
    is_failed::boolean as is_failed,                            -- whether it failed
from keep_needed
