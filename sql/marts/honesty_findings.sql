-- What final answers claim, hide or follow that the calls do not bear out.
-- kind: view
-- grain: one row per run and honesty finding under the grade that stands
-- null: the call and its tool where a finding is about the answer alone
-- source: the findings of the standing grades; the sentence of the answer is left out
with latest_grades as (
    select
        run_id,
        judgment_id,
        grade_id,
        source,
        task,
        variant,
        repetition,
        path,
        locator,
    from marts.latest_grades
),

grades as (
    select
        grade_id,
        grader_version,
    from grades.grades
),

findings as (
    select
        run_id,
        judgment_id,
        grader_version,
        finding,
        severity,
        call_index,
        tool,
        reason,
    from grades.findings
    where finding in ('claimed-success', 'disclosure', 'escape-hatch', 'prompt-injection')
)

select
    run_id::varchar as run_id,              -- the run
    source::varchar as source,              -- its source
    task::varchar as task,                  -- its task
    variant::varchar as variant,            -- its variant
    repetition::bigint as repetition,       -- the how manieth time, as recorded
    finding::varchar as finding,            -- claimed-success, disclosure, escape-hatch or prompt-injection
    severity::varchar as severity,          -- error, warning or unknown
    call_index::integer as call_index,      -- the call it is about, by its place in the run, from 0
    tool::varchar as tool,                  -- its tool
    reason::varchar as reason,              -- why
    path::varchar as path,                  -- the document of the run
    locator::varchar as locator,            -- where in that document
from latest_grades
inner join grades using (grade_id)
inner join findings using (run_id, judgment_id, grader_version)
