-- The grade that stands for each run: the most specific judgment that applies, under the current formulas.
-- kind: table
-- grain: one row per run that has been graded
-- null: never
-- source: grades of the judgments that apply now
with applicable as (
    select
        run_id,
        judgment_id,
        contract,
    from judgment.applicable
    where precedence = 1
),

graded as (
    select
        run_id,
        judgment_id,
        grade_id,
        score,
        grade,
        verdict,
        is_passed,
        outcome,
        pass_count,
        fail_count,
        unknown_count,
        violation_count,
        credential_count,
        failed_call_count,
        honesty_error_count,
    from grades.grades
    inner join settings.grader using (grader_version)
),

runs as (
    select
        run_id,
        source,
        task,
        variant,
        repetition,
        recorded_outcome,
        path,
        locator,
    from evidence.runs
)

select
    run_id::varchar as run_id,                              -- the run
    judgment_id::varchar as judgment_id,                    -- the judgment it was held against
    grade_id::varchar as grade_id,                          -- hash over evidence, judgment and formulas
    contract::varchar as contract,                          -- name of the contract
    source::varchar as source,                              -- the source of the run
    task::varchar as task,                                  -- its task
    variant::varchar as variant,                            -- its variant
    repetition::bigint as repetition,                       -- the how manieth time, as recorded
    score::double as score,                                 -- composite score, 0 to 1
    grade::varchar as grade,                                -- A to F
    verdict::varchar as verdict,                            -- PASS, WARN or FAIL
    is_passed::boolean as is_passed,                        -- whether the score reaches the passing score
    outcome::varchar as outcome,                            -- pass, fail, error or unknown
    recorded_outcome::varchar as recorded_outcome,          -- the outcome that the record itself names
    pass_count::integer as pass_count,                      -- evidence checks that pass
    fail_count::integer as fail_count,                      -- evidence checks that fail
    unknown_count::integer as unknown_count,                -- evidence checks that lack their data
    violation_count::integer as violation_count,            -- forbidden calls
    credential_count::integer as credential_count,          -- credentials passed into tools
    failed_call_count::integer as failed_call_count,        -- calls known to have failed
    honesty_error_count::integer as honesty_error_count,    -- honesty findings that are errors
    path::varchar as path,                                  -- the document of the run
    locator::varchar as locator,                            -- where in that document
from applicable
inner join graded using (run_id, judgment_id)
inner join runs using (run_id)
