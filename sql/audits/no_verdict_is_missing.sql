-- Every grade has exactly as many checks as its counts of pass, fail and unknown say, and never fewer than three.
-- guards: grades.checks
-- mend: Grade these pairs anew (the grade step with full: true); when that does not help, a model of sql/checks is wrong.
with grades as (
    select
        run_id,
        judgment_id,
        grader_version,
        pass_count + fail_count + unknown_count as check_count,
    from grades.grades
),

checks as (
    select
        run_id,
        judgment_id,
        grader_version,
        check_name,
    from grades.checks
),

count_checks as (
    select
        run_id,
        judgment_id,
        grader_version,
        count(*) as row_count,
        count(distinct check_name) as name_count,
    from checks
    group by all
)

select
    run_id,
    judgment_id,
    check_count,
    row_count,
from grades
full join count_checks using (run_id, judgment_id, grader_version)
where
    check_count is null
    or row_count is null
    or check_count != row_count
    or name_count != row_count
    or row_count < 3
