-- An outcome is pass, fail, error or unknown.
-- guards: grades.grades
-- mend: Grade these pairs anew (the grade step with full: true); when that does not help, the outcome in sql/grades/grades.sql is wrong.
with grades as (
    select
        run_id,
        judgment_id,
        outcome,
    from grades.grades
)

select
    run_id,
    judgment_id,
    outcome,
from grades
where outcome is null or not list_contains(['pass', 'fail', 'error', 'unknown'], outcome)
