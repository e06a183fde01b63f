-- Each distinct argument object among the calls to be graded, once.
-- kind: ephemeral
-- grain: one row per distinct argument text
-- null: never; calls whose arguments were not recorded have no row here
-- source: canonical JSON of the recorded arguments
with pairs as (
    select run_id from work.pairs
),

calls as (
    select
        run_id,
        args_json,
    from evidence.calls
),

collect_texts as (
    select distinct args_json
    from calls
    semi join pairs using (run_id)
    where args_json is not null
)

select
    (row_number() over ())::bigint as args_id,                 -- a number for this text, local to the chunk
    args_json::varchar as args_json,                           -- the arguments as canonical JSON
    json_keys(args_json)::varchar[] as arg_names,              -- the names of its arguments, sorted
    len(json_keys(args_json))::integer as args_count,          -- how many arguments it holds
from collect_texts
