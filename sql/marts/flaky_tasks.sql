-- The tasks that now pass and now do not under one and the same variant.
-- kind: view
-- grain: one row per source, variant and task with both passes and failures
-- range: rates and bounds 0 to 1
-- null: source, variant and task where the record does not hold them
-- source: the standing grades; runs with an unknown outcome or an error are counted beside
with latest_grades as (
    select
        source,
        variant,
        task,
        outcome,
        score,
    from marts.latest_grades
),

count_outcomes as (
    select
        source,
        variant,
        task,
        count(*) as run_count,
        count(*) filter (where outcome = 'pass') as pass_count,
        count(*) filter (where outcome = 'fail') as fail_count,
        count(*) filter (where outcome in ('error', 'unknown')) as other_count,
        min(score) as lowest_score,
        max(score) as highest_score,
    from latest_grades
    group by all
)

select
    source::varchar as source,                                      -- the source of the runs
    variant::varchar as variant,                                    -- their variant
    task::varchar as task,                                          -- their task
    run_count::bigint as run_count,                                 -- graded runs
    pass_count::bigint as pass_count,                               -- runs that passed
    fail_count::bigint as fail_count,                               -- runs that failed
    other_count::bigint as other_count,                             -- runs with an error or an unknown outcome
    (pass_count / run_count)::double as pass_rate,                  -- passes / graded runs
    wilson_low(pass_count, run_count)::double as pass_rate_low,     -- lower end of its 95 % Wilson interval
    wilson_high(pass_count, run_count)::double as pass_rate_high,   -- upper end of it
    lowest_score::double as lowest_score,                           -- the lowest composite score
    highest_score::double as highest_score,                         -- the highest one
from count_outcomes
where pass_count > 0 and fail_count > 0
