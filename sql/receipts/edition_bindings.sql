-- Which judgments applied to which runs in each edition.
-- kind: incremental
-- key: edition
-- grain: one row per edition, judgment and condition
-- null: a condition that is not set holds for every run
-- source: the bindings, once every pair is graded
-- after: judgment.bindings, settings.grader, grades.grades
with edition_bindings as (
    select
        edition,
        judgment_id,
        name,
        task,
        task_pattern,
        variant,
        source,
    from staged.edition_bindings
)

select
    edition::integer as edition,            -- the edition
    judgment_id::varchar as judgment_id,    -- the judgment
    name::varchar as name,                  -- name of the contract, for people
    task::varchar as task,                  -- the task it applied to
    task_pattern::varchar as task_pattern,  -- a regular expression the whole task name met
    variant::varchar as variant,            -- the variant it applied to
    source::varchar as source,              -- the source it applied to
from edition_bindings
