-- How often each tool was expected and called.
-- kind: ephemeral
-- grain: one row per case, combination and tool that is expected or called
-- null: never
-- source: the multisets of tool names that most metrics compare
with expected_calls as (
    select
        case_id,
        combination_id,
        tool,
    from work.expected_calls
),

scored_calls as (
    select
        case_id,
        combination_id,
        position,
        tool,
        args_id,
        is_failed,
    from work.scored_calls
),

-- Calls without recorded arguments are not known to be alike: each gets a number of its own.
stack_calls as (
    select
        case_id,
        combination_id,
        tool,
        1 as expected,
        0 as called,
        0 as not_failed,
        0 as succeeded,
        null as args_key,
    from expected_calls
    union all
    select
        case_id,
        combination_id,
        tool,
        0 as expected,
        1 as called,
        if(is_failed is true, 0, 1) as not_failed,
        if(is_failed is false, 1, 0) as succeeded,
        coalesce(args_id, -1 - position) as args_key,
    from scored_calls
)

select
    case_id::bigint as case_id,                                 -- the case
    combination_id::integer as combination_id,                  -- the combination of alternatives, from 0
    tool::varchar as tool,                                      -- the tool
    sum(expected)::integer as expected_count,                   -- calls of it expected
    sum(called)::integer as called_count,                       -- scored calls of it
    sum(not_failed)::integer as not_failed_count,               -- scored calls of it that are not known to have failed
    sum(succeeded)::integer as succeeded_count,                 -- scored calls of it known to have succeeded
    len(list_distinct(list(args_key)))::integer as different_count, -- scored calls of it but for those that repeat the arguments of another
from stack_calls
group by all
