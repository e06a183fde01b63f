-- How much of each run holds evidence.
-- kind: ephemeral
-- grain: one row per pair
-- unit: calls
-- null: never
-- source: Toolscore, evidence coverage
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
        result_json,
        has_result,
        error_json,
        is_failed,
        is_denied,
        duration_seconds,
        cost_usd,
    from evidence.calls
),

-- Figures are in call order, so that the last digit of a sum does not depend on the threads.
count_calls as (
    select
        run_id,
        count(*) as call_count,
        count(args_json) as args_count,
        count(*) filter (where is_blank(tool)) as nameless_count,
        count(is_failed) as outcome_count,
        count(*) filter (where is_failed) as failed_count,
        list_sort(
            list(struct_pack(call_index, duration_seconds, cost_usd))
            filter (where duration_seconds is not null or cost_usd is not null)
        ) as figures,
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

list_figures as (
    select
        run_id,
        call_count,
        args_count,
        nameless_count,
        outcome_count,
        failed_count,
        is_troubled,
        list_filter(
            list_transform(figures, lambda figure: figure.duration_seconds), lambda figure: figure is not null
        ) as durations,
        list_filter(
            list_transform(figures, lambda figure: figure.cost_usd), lambda figure: figure is not null
        ) as costs,
    from count_calls
)

select
    pair_id::bigint as pair_id,                                 -- the run and the judgment being paired
    coalesce(call_count, 0)::integer as call_count,             -- calls of the run
    coalesce(args_count, 0)::integer as args_count,             -- of those, with arguments recorded
    coalesce(nameless_count, 0)::integer as nameless_count,     -- of those, without the name of a tool
    coalesce(outcome_count, 0)::integer as outcome_count,       -- of those, with a result or an error recorded
    coalesce(failed_count, 0)::integer as failed_count,         -- of those, known to have failed
    coalesce(len(durations), 0)::integer as duration_count,     -- of those, with a duration
    coalesce(len(costs), 0)::integer as cost_count,             -- of those, with a cost
    coalesce(durations, [])::double[] as durations,             -- the durations recorded, in seconds
    coalesce(costs, [])::double[] as costs,                     -- the costs recorded, in US dollars
    coalesce(is_troubled, false)::boolean as is_troubled,       -- whether a call failed, warned or was refused, or may have
from pairs
left join list_figures using (run_id)
