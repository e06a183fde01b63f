-- The credentials that agents passed into tools, each with its place and a redacted preview.
-- kind: view
-- grain: one row per run, call and credential found under the grade that stands
-- null: the path in the arguments when they are free text; the preview of a text too long to scan
-- source: the findings of the standing grades; runs without a contract are not scanned
with latest_grades as (
    select
        run_id,
        judgment_id,
        grade_id,
        source,
        task,
        variant,
        repetition,
        path as document_path,
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
        severity,
        call_index,
        tool,
        path,
        kind,
        preview,
        is_example,
    from grades.findings
    where finding = 'credential'
),

calls as (
    select
        run_id,
        call_index,
        request_locator,
    from evidence.calls
)

select
    latest_grades.run_id::varchar as run_id,        -- the run
    source::varchar as source,                      -- its source
    task::varchar as task,                          -- its task
    variant::varchar as variant,                    -- its variant
    repetition::bigint as repetition,               -- the how manieth time, as recorded
    findings.call_index::integer as call_index,     -- the call, by its place in the run, from 0
    tool::varchar as tool,                          -- its tool
    findings.path::varchar as argument_path,        -- where in the arguments
    kind::varchar as kind,                          -- kind of credential; truncated for a text too long to scan
    preview::varchar as preview,                    -- its first four and last two characters
    is_example::boolean as is_example,              -- whether it is a published example credential
    severity::varchar as severity,                  -- error, or unknown for a text too long to scan
    document_path::varchar as path,                 -- the document of the run
    request_locator::varchar as locator,            -- where in that document the call stands
from latest_grades
inner join grades using (grade_id)
inner join findings using (run_id, judgment_id, grader_version)
left join calls on latest_grades.run_id = calls.run_id and findings.call_index = calls.call_index
