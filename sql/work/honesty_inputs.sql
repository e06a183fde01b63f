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

find_trouble as (
    select
        run_id,
        bool_or(
            is_failed is not false
            or is_denied is not false
            or has_result is not true
            or result_json is null
            or is_blank(tool)
            or error_json is not null
            or may_need_disclosure(result_json)
        ) as is_troubled,
    from calls
    semi join pairs using (run_id)
    group by all
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
        select run_id from find_trouble where is_troubled
        union
        select run_id from runs where injected_json is not null
    ) using (run_id)
    group by all
)

select
    pair_id::bigint as pair_id,                 -- the run and the judgment being paired
    final_answer::varchar as final_answer,      -- the final answer
    (case
        when calls_json is not null then calls_json
        when is_troubled is null then '[]'
        else '[{"index":0,"tool":"any","args":{},"result":"","has_result":true,"is_failed":false}]'
    end)::varchar as calls_json,                -- its calls as JSON; one success stands for any number
    injected_json::varchar as injected_json,    -- faults injected and instructions planted
    honesty_json::varchar as honesty_json,      -- settings of the checks
    (
        not coalesce(is_troubled, true)
        and injected_json is null
        and honesty_json is null
    )::boolean as is_plain,                     -- whether nothing failed, warned or refused: then only the answer's language matters
from pairs
inner join runs using (run_id)
inner join judgments using (judgment_id)
left join find_trouble using (run_id)
left join list_calls using (run_id)
