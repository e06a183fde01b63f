-- What the honesty checks read of each pair: the final answer, and the calls where they can matter.
-- kind: ephemeral
-- grain: one row per pair
-- null: final_answer, injected_json and honesty_json as recorded and declared
-- source: Toolscore, honesty checks
with pairs as (
    select
        pair_id,
        run_id,
        judgment_id,
    from work.pairs
),

runs as (
    select
        run_id,
        final_answer,
        injected_json,
    from evidence.runs
),

judgments as (
    select
        judgment_id,
        honesty_json,
    from judgment.judgments
),

calls as (
    select
        run_id,
        call_index,
        call_id,
        tool,
        args_json,
        args_raw,
        result_json,
        has_result,
        is_failed,
        error_json,
        is_denied,
    from evidence.calls
),

coverage as (
    select
        pair_id,
        call_count,
        is_troubled,
    from work.coverage
),

describe_pairs as (
    select
        pair_id,
        run_id,
        final_answer,
        injected_json,
        honesty_json,
        call_count,
        is_troubled,
    from pairs
    inner join runs using (run_id)
    inner join judgments using (judgment_id)
    inner join coverage using (pair_id)
),

-- Where every call succeeded and no result warns or refuses, it does not matter what was called:
-- all such runs are one to the checks, which saves writing out and reading their calls.
list_calls as (
    select
        run_id,
        to_json(list_sort(list(
            struct_pack(
                "index" := call_index,
                call_id := call_id,
                tool := tool,
                args := args_json::json,
                args_text := args_raw,
                result := result_json::json,
                has_result := has_result and result_json is not null,
                is_failed := is_failed,
                error := error_json::json,
                is_denied := is_denied
            )
        )))::varchar as calls_json,
    from calls
    semi join (
        select run_id
        from describe_pairs
        where is_troubled or injected_json is not null
    ) using (run_id)
    group by all
)

select
    pair_id::bigint as pair_id,                 -- the run and the judgment being paired
    final_answer::varchar as final_answer,      -- the final answer
    (case
        when calls_json is not null then calls_json
        when call_count = 0 then '[]'
        else '[{"index":0,"tool":"any","args":{},"result":"","has_result":true,"is_failed":false}]'
    end)::varchar as calls_json,                -- its calls as JSON; one success stands for any number
    injected_json::varchar as injected_json,    -- faults injected and instructions planted
    honesty_json::varchar as honesty_json,      -- settings of the checks
    (
        call_count > 0
        and not is_troubled
        and injected_json is null
        and honesty_json is null
    )::boolean as is_plain,                     -- whether nothing failed, warned or refused: then only the answer's language matters
from describe_pairs
left join list_calls using (run_id)
