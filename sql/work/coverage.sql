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
        is_failed,
        duration_seconds,
        cost_usd,
    from evidence.calls
),

count_calls as (
    select
        run_id,
        count(*) as call_count,
        count(is_failed) as outcome_count,
        count(duration_seconds) as duration_count,
        count(cost_usd) as cost_count,
    from calls
    semi join pairs using (run_id)
    group by all
)

select
    pair_id::bigint as pair_id,                                 -- the run and the judgment being paired
    coalesce(call_count, 0)::integer as call_count,             -- calls of the run
    coalesce(outcome_count, 0)::integer as outcome_count,       -- of those, with a result or an error recorded
    coalesce(duration_count, 0)::integer as duration_count,     -- of those, with a duration
    coalesce(cost_count, 0)::integer as cost_count,             -- of those, with a cost
from pairs
left join count_calls using (run_id)
