-- How each task came out under each variant of a comparison.
-- kind: table
-- grain: one row per comparison, variant and task
-- range: rates and bounds 0 to 1
-- null: pass^k with fewer than k runs; means without a value
-- source: Toolscore, comparing runs
with comparisons as (
    select
        comparison,
        k,
    from settings.comparisons
),

outcomes as (
    select
        comparison,
        variant,
        task,
        outcome,
        cost_usd,
        latency_seconds,
        started_at,
        is_counted,
    from marts.outcomes
),

-- Sums of decimals do not depend on the order of the rows.
add_up as (
    select
        comparison,
        variant,
        task,
        count(*) as run_count,
        count(*) filter (where outcome = 'pass') as pass_count,
        count(*) filter (where outcome = 'fail') as fail_count,
        count(*) filter (where outcome = 'error') as error_count,
        count(*) filter (where outcome = 'unknown') as unknown_count,
        sum(cost_usd::decimal(30, 12)) as cost_usd,
        count(cost_usd) as cost_count,
        sum(latency_seconds::decimal(30, 9)) as latency_seconds,
        count(latency_seconds) as latency_count,
        min(started_at) as first_started_at,
    from outcomes
    where is_counted
    group by all
)

select
    comparison::varchar as comparison,                                      -- the comparison
    variant::varchar as variant,                                            -- the variant
    task::varchar as task,                                                  -- the task
    run_count::bigint as run_count,                                         -- all its runs
    pass_count::bigint as pass_count,                                       -- runs that passed
    fail_count::bigint as fail_count,                                       -- runs that failed
    error_count::bigint as error_count,                                     -- runs that ended in an error
    unknown_count::bigint as unknown_count,                                 -- runs whose outcome is not known
    (pass_count / run_count)::double as pass_rate,                          -- passes / all runs
    wilson_low(pass_count, run_count)::double as pass_rate_low,             -- lower end of its 95 % Wilson interval
    wilson_high(pass_count, run_count)::double as pass_rate_high,           -- upper end of it
    pass_hat_k(pass_count, run_count, comparisons.k)::double as pass_hat_k, -- chance that k runs all pass
    coalesce(cost_usd, 0)::double as cost_usd_total,                        -- US dollars of the runs with a known cost
    cost_count::bigint as cost_count,                                       -- runs with a known cost
    coalesce(latency_seconds, 0)::double as latency_seconds_total,          -- seconds of the runs with a known latency
    latency_count::bigint as latency_count,                                 -- runs with a known latency
    first_started_at::timestamptz as first_started_at,                      -- when its first run began (UTC)
from add_up
inner join comparisons using (comparison)
