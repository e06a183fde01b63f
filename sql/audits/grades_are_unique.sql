-- A pair of run and judgment has one grade per grader version.
-- guards: grades.grades
-- mend: Grade these pairs anew (the grade step with full: true); when that does not help, a model of sql/scores is wrong.
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
