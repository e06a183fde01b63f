-- A pair of run and judgment has one grade per grader version.
-- guards: grades.grades
with grades as (
    select
        run_id,
        judgment_id,
        grader_version,
    from grades.grades
)

select
    run_id,
    judgment_id,
    grader_version,
    count(*) as row_count,
from grades
group by all
having count(*) > 1
