-- What all grades were made with, from one complete regrade to the next: the formulas of each edition.
-- kind: incremental
-- key: edition
-- grain: one row per edition, added when formulas or bindings are other than in the one before
-- null: never
-- source: the grader and the bindings, once every pair is graded
-- after: judgment.bindings, settings.grader, grades.grades
with editions as (
    select
        edition,
        grader_version,
    from staged.editions
)

select
    edition::integer as edition,                -- its number, from 1
    grader_version::varchar as grader_version,  -- the version of the formulas
from editions
