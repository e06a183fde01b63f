-- The runs of which nobody can say whether they passed, and what is missing to say it.
-- kind: view
-- grain: one row per run without a standing grade, or whose standing outcome is unknown
-- null: contract and score where no contract applies; task, variant and repetition where the record does not hold them
-- source: the standing grades, in the order in which the outcome is decided
with runs as (
    select
        run_id,
        source,
        task,
        variant,
        repetition,
        path,
        locator,
    from evidence.runs
),

latest_grades as (
    select
        run_id,
        judgment_id,
        grade_id,
        contract,
        score,
        outcome,
    from marts.latest_grades
),

grades as (
    select
        grade_id,
        grader_version,
        required_count,
        completed_count,
    from grades.grades
),

judgments as (
    select
        judgment_id,
        required_count + optional_count > 0 as is_scored,
        has_forbidden_rules,
    from judgment.judgments
),

checks as (
    select
        run_id,
        judgment_id,
        grader_version,
        check_position,
        check_name,
    from grades.checks
    where status = 'unknown'
),

findings as (
    select distinct
        run_id,
        judgment_id,
        grader_version,
    from grades.findings
    where finding = 'forbidden-call' and severity = 'unknown'
),

find_unknown as (
    select
        runs.*,
        judgment_id,
        contract,
        score,
        grader_version,
        latest_grades.run_id is not null as is_graded,
        is_scored,
        has_forbidden_rules,
        findings.run_id is not null as is_rule_undecided,
    from runs
    left join latest_grades using (run_id)
    left join grades using (grade_id)
    left join judgments using (judgment_id)
    left join findings using (run_id, judgment_id, grader_version)
    where coalesce(outcome, 'unknown') = 'unknown'
),

list_checks as (
    select
        run_id,
        list(check_name order by check_position) as unknown_checks,
    from find_unknown
    inner join checks using (run_id, judgment_id, grader_version)
    group by all
)

select
    run_id::varchar as run_id,                                  -- the run
    source::varchar as source,                                  -- its source
    task::varchar as task,                                      -- its task
    variant::varchar as variant,                                -- its variant
    repetition::bigint as repetition,                           -- the how manieth time, as recorded
    contract::varchar as contract,                              -- name of the contract that grades it
    score::double as score,                                     -- composite score, 0 to 1
    (case
        when not is_graded then 'no contract applies to it'
        when not is_scored and not has_forbidden_rules then 'its contract requires and forbids nothing'
        when is_rule_undecided then 'the record does not tell whether a forbidden rule was broken'
        else 'the record does not tell whether every required call worked'
    end)::varchar as reason,                                    -- why its outcome is unknown
    coalesce(unknown_checks, [])::varchar[] as unknown_checks,  -- evidence checks that lack their data
    path::varchar as path,                                      -- the document of the run
    locator::varchar as locator,                                -- where in that document
from find_unknown
left join list_checks using (run_id)
