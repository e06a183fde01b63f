-- The calls of every case.
-- kind: ephemeral
-- grain: one row per case and call
-- null: args_id where arguments were not recorded; is_failed where the outcome was not
-- source: the calls of the pair that stands for the case
with cases as (
    select case_id
    from work.cases
),

calls as (
    select
        pair_id,
        call_index,
        tool,
        args_id,
        args_count,
        is_matchable,
        is_failed,
    from work.calls
)

select
    case_id::bigint as case_id,                 -- the case
    call_index::integer as call_index,          -- place of the call in its run, from 0
    tool::varchar as tool,                      -- the tool called
    args_id::bigint as args_id,                 -- its arguments, by number
    args_count::integer as args_count,          -- how many arguments it gave
    is_matchable::boolean as is_matchable,      -- whether its arguments may match an expectation that checks them
    is_failed::boolean as is_failed,            -- whether it failed
from cases
inner join calls on cases.case_id = calls.pair_id
