-- The pairs of run and judgment that the current formulas have not graded yet.
-- kind: view
-- grain: one row per run and judgment still to be graded
-- null: never
-- source: applicable judgments without a grade
with applicable as (
    select
        run_id,
        judgment_id,
    from judgment.applicable
),

graded as (
    select
        run_id,
        judgment_id,
    from grades.grades
    inner join settings.grader using (grader_version)
)

select
    run_id::varchar as run_id,              -- the run
    judgment_id::varchar as judgment_id,    -- the judgment to hold it against
from applicable
anti join graded using (run_id, judgment_id)
