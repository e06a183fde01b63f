-- The summary of each variant of a comparison.
-- kind: table
-- grain: one row per comparison and variant
-- range: rates and bounds 0 to 1
-- null: pass^k without a task of k runs; means without a value
-- source: Toolscore, comparing runs
with comparisons as (
    select
        comparison,
        k,
    from settings.comparisons
),

task_stats as (
    select
        comparison,
        variant,
        run_count,
        pass_count,
        fail_count,
        error_count,
        unknown_count,
        pass_hat_k,
        cost_usd_total,
        cost_count,
        latency_seconds_total,
        latency_count,
        first_started_at,
    from marts.task_stats
),

-- Sums of decimals do not depend on the order of the rows.
add_up as (
    select
        comparison,
        variant,
        sum(run_count) as run_count,
        sum(pass_count) as pass_count,
        sum(fail_count) as fail_count,
        sum(error_count) as error_count,
        sum(unknown_count) as unknown_count,
        sum(pass_hat_k::decimal(30, 18)) as pass_hat_k_total,
        count(*) as task_count,
        count(pass_hat_k) as long_task_count,
        sum(cost_usd_total::decimal(30, 12)) as cost_usd_total,
        sum(cost_count) as cost_count,
        sum(latency_seconds_total::decimal(30, 9)) as latency_seconds_total,
        sum(latency_count) as latency_count,
        min(first_started_at) as first_started_at,
    from task_stats
    group by all
)

select
    comparison::varchar as comparison,                                                   -- the comparison
    variant::varchar as variant,                                                         -- the variant
    run_count::bigint as run_count,                                                      -- all its runs
    pass_count::bigint as pass_count,                                                    -- runs that passed
    fail_count::bigint as fail_count,                                                    -- runs that failed
    error_count::bigint as error_count,                                                  -- runs that ended in an error
    unknown_count::bigint as unknown_count,                                              -- runs whose outcome is not known
    (pass_count / run_count)::double as pass_rate,                                       -- passes / all runs
    wilson_low(pass_count, run_count)::double as pass_rate_low,                          -- lower end of its 95 % Wilson interval
    wilson_high(pass_count, run_count)::double as pass_rate_high,                        -- upper end of it
    (pass_hat_k_total::double / nullif(long_task_count, 0))::double as pass_hat_k,       -- mean pass^k over tasks with at least k runs
    comparisons.k::integer as k,                                                         -- the k used
    task_count::bigint as task_count,                                                    -- tasks seen
    (task_count - long_task_count)::bigint as short_task_count,                          -- tasks with fewer than k runs, left out of pass^k
    (cost_usd_total::double / nullif(cost_count, 0))::double as cost_usd,                -- mean US dollars of the runs with a cost
    cost_count::bigint as cost_count,                                                    -- runs with a cost
    (latency_seconds_total::double / nullif(latency_count, 0))::double as latency_seconds, -- mean seconds of the runs with a latency
    latency_count::bigint as latency_count,                                              -- runs with a latency
    first_started_at::timestamptz as first_started_at,                                   -- when its first run began (UTC)
from add_up
inner join comparisons using (comparison)
