-- The tasks of every variant by their pass rate, the lowest first.
-- kind: view
-- grain: one row per source, variant and task with a graded run
-- range: rates, bounds and scores 0 to 1
-- null: the check when no check fails
-- source: the standing grades; an outcome that is unknown or an error is no pass, and the run counts
with latest_grades as (
    select
        run_id,
        judgment_id,
        grade_id,
        source,
        variant,
        task,
        score,
        outcome,
    from marts.latest_grades
),

grades as (
    select
        grade_id,
        grader_version,
    from grades.grades
),

checks as (
    select
        run_id,
        judgment_id,
        grader_version,
        check_position,
        check_name,
    from grades.checks
    where status = 'fail'
),

count_outcomes as (
    select
        source,
        variant,
        task,
        count(*) as run_count,
        count(*) filter (where outcome = 'pass') as pass_count,
        count(*) filter (where outcome = 'fail') as fail_count,
        count(*) filter (where outcome = 'error') as error_count,
        count(*) filter (where outcome = 'unknown') as unknown_count,
        fsum(score) / count(*) as mean_score,
    from latest_grades
    group by all
),

count_checks as (
    select
        source,
        variant,
        task,
        check_name,
        check_position,
        count(*) as failed_count,
    from latest_grades
    inner join grades using (grade_id)
    inner join checks using (run_id, judgment_id, grader_version)
    group by all
),

choose_check as (
    select
        source,
        variant,
        task,
        check_name,
        failed_count,
    from count_checks
    qualify row_number() over (
        partition by source, variant, task order by failed_count desc, check_position
    ) = 1
)

select
    row_number() over (
        order by
            pass_count / run_count asc,
            run_count desc,
            count_outcomes.source asc,
            count_outcomes.task asc,
            count_outcomes.variant asc
    )::bigint as position,                                      -- its place, from 1 for the lowest pass rate; more runs first
    count_outcomes.source::varchar as source,                   -- the source of the runs
    count_outcomes.variant::varchar as variant,                 -- their variant
    count_outcomes.task::varchar as task,                       -- their task
    run_count::bigint as run_count,                             -- graded runs
    pass_count::bigint as pass_count,                           -- runs that passed
    fail_count::bigint as fail_count,                           -- runs that failed
    error_count::bigint as error_count,                         -- runs that ended in an error
    unknown_count::bigint as unknown_count,                     -- runs whose outcome is not known
    (pass_count / run_count)::double as pass_rate,              -- passes / graded runs
    wilson_low(pass_count, run_count)::double as pass_rate_low, -- lower end of its 95 % Wilson interval
    wilson_high(pass_count, run_count)::double as pass_rate_high, -- upper end of it
    mean_score::double as mean_score,                           -- mean composite score
    check_name::varchar as most_failed_check,                   -- the evidence check that most of its runs fail
    coalesce(failed_count, 0)::bigint as most_failed_check_count, -- runs that fail it
from count_outcomes
left join choose_check
    on
        count_outcomes.source is not distinct from choose_check.source
        and count_outcomes.variant is not distinct from choose_check.variant
        and count_outcomes.task is not distinct from choose_check.task
