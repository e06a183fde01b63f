-- The calls that a contract forbids, made or possibly made.
-- kind: view
-- grain: one row per run, call and forbidden rule under the grade that stands
-- null: task, variant and repetition where the record does not hold them
-- source: the findings of the standing grades
with latest_grades as (
    select
        run_id,
        judgment_id,
        grade_id,
        contract,
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
        rule_position,
        reason,
    from grades.findings
    where finding = 'forbidden-call'
),

calls as (
    select
        run_id,
        call_index,
        is_failed,
        is_denied,
        request_locator,
    from evidence.calls
)

select
    latest_grades.run_id::varchar as run_id,        -- the run
    source::varchar as source,                      -- its source
    task::varchar as task,                          -- its task
    variant::varchar as variant,                    -- its variant
    repetition::bigint as repetition,               -- the how manieth time, as recorded
    contract::varchar as contract,                  -- name of the contract that forbids it
    findings.call_index::integer as call_index,     -- the call, by its place in the run, from 0
    tool::varchar as tool,                          -- its tool
    rule_position::integer as rule_position,        -- the rule broken, from 0
    reason::varchar as reason,                      -- why it is forbidden
    severity::varchar as severity,                  -- error, or unknown when the record does not tell
    is_failed::boolean as is_failed,                -- whether the call failed; null when its outcome was not recorded
    is_denied::boolean as is_denied,                -- whether a guard or a person refused it
    document_path::varchar as path,                 -- the document of the run
    request_locator::varchar as locator,            -- where in that document the call stands
from latest_grades
inner join grades using (grade_id)
inner join findings using (run_id, judgment_id, grader_version)
left join calls on latest_grades.run_id = calls.run_id and findings.call_index = calls.call_index
