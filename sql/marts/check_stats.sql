-- How often each evidence check passes, fails, or lacks its data.
-- kind: view
-- grain: one row per source, variant and check
-- range: rates 0 to 1
-- null: the failure rate when the check could be decided for no run
-- source: the checks of the standing grades
with latest_grades as (
    select
        run_id,
        judgment_id,
        grade_id,
        source,
        variant,
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
        status,
    from grades.checks
),

add_up as (
    select
        source,
        variant,
        check_name,
        min(check_position) as check_position,
        count(*) as run_count,
        count(*) filter (where status = 'pass') as pass_count,
        count(*) filter (where status = 'fail') as fail_count,
        count(*) filter (where status = 'unknown') as unknown_count,
    from latest_grades
    inner join grades using (grade_id)
    inner join checks using (run_id, judgment_id, grader_version)
    group by all
)

select
    source::varchar as source,                                  -- the source of the runs
    variant::varchar as variant,                                -- their variant
    check_position::integer as check_position,                  -- place in a report, from 1
    check_name::varchar as check_name,                          -- the check
    run_count::bigint as run_count,                             -- graded runs to which it applies
    pass_count::bigint as pass_count,                           -- runs that pass it
    fail_count::bigint as fail_count,                           -- runs that fail it
    unknown_count::bigint as unknown_count,                     -- runs that lack the data to decide it
    (fail_count / nullif(run_count - unknown_count, 0))::double as failure_rate, -- failures / runs for which it could be decided
    (unknown_count / run_count)::double as unknown_rate,        -- share of the runs that lack the data
from add_up
