-- The runs that fail or ended in an error under the grade that stands, and why.
-- kind: view
-- grain: one row per run whose standing outcome is fail or error
-- range: 0 to 1 for scores
-- null: task, variant, repetition and locator where the record does not hold them
-- source: the standing grades, their checks and their findings; no text of an answer
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
        score,
        grade,
        outcome,
        path,
        locator,
    from marts.latest_grades
    where outcome in ('fail', 'error')
),

grades as (
    select
        grade_id,
        grader_version,
        min_score,
        is_passed,
    from grades.grades
),

checks as (
    select
        run_id,
        judgment_id,
        grader_version,
        check_position,
        check_name,
    from grades.checks
    where status = 'fail'
),

findings as (
    select
        run_id,
        judgment_id,
        grader_version,
        call_index,
        finding,
        reason,
    from grades.findings
    where severity = 'error'
),

stand as (
    select
        latest_grades.*,
        grader_version,
        min_score,
        is_passed,
    from latest_grades
    inner join grades using (grade_id)
),

list_checks as (
    select
        run_id,
        list(check_name order by check_position) as failed_checks,
    from stand
    inner join checks using (run_id, judgment_id, grader_version)
    group by all
),

list_findings as (
    select
        run_id,
        list(finding || ': ' || reason order by call_index asc nulls last, finding asc, reason asc) as findings,
    from (
        select
            run_id,
            finding,
            reason,
            min(call_index) as call_index,
        from stand
        inner join findings using (run_id, judgment_id, grader_version)
        group by all
    )
    group by all
)

select
    run_id::varchar as run_id,                                      -- the run
    source::varchar as source,                                      -- its source
    task::varchar as task,                                          -- its task
    variant::varchar as variant,                                    -- its variant
    repetition::bigint as repetition,                               -- the how manieth time, as recorded
    contract::varchar as contract,                                  -- name of the contract that grades it
    outcome::varchar as outcome,                                    -- fail or error
    grade::varchar as grade,                                        -- A to F
    score::double as score,                                         -- composite score, 0 to 1
    min_score::double as min_score,                                 -- the passing score
    (not is_passed)::boolean as is_score_too_low,                   -- whether the score is below the passing score
    coalesce(failed_checks, [])::varchar[] as failed_checks,        -- evidence checks that fail, in the report's order
    coalesce(list_findings.findings, [])::varchar[] as findings,    -- what was found, each sentence once, by call
    path::varchar as path,                                          -- the document of the run
    locator::varchar as locator,                                    -- where in that document
from stand
left join list_checks using (run_id)
left join list_findings using (run_id)
