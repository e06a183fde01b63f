-- The calls of every pair, with arguments by number.
-- kind: ephemeral
-- grain: one row per pair and call
-- null: args_id where arguments were not recorded; is_failed where the outcome was not
-- source: evidence of the run
with pairs as (
    select
        pair_id,
        run_id,
    from work.pairs
),

calls as (
    select
        run_id,
        call_index,
        tool,
        args_json,
        args_status,
        is_failed,
    from evidence.calls
),

argument_texts as (
    select
        args_id,
        args_json,
        args_count,
    from work.argument_texts
),

join_pairs as (
    select
        pair_id,
        call_index,
        tool,
        args_json,
        args_status,
        is_failed,
    from pairs
    inner join calls using (run_id)
)

select
    pair_id::bigint as pair_id,                                 -- the run and the judgment being paired
    call_index::integer as call_index,                          -- place of the call in its run, from 0
    tool::varchar as tool,                                      -- the tool called
    args_id::bigint as args_id,                                 -- its arguments, by number
    coalesce(args_count, 0)::integer as args_count,             -- how many arguments it gave
    (args_status in ('ok', 'empty', 'text'))::boolean as is_matchable, -- whether its arguments may match an expectation that checks them
    is_failed::boolean as is_failed,                            -- whether it failed
from join_pairs
left join argument_texts using (args_json)
