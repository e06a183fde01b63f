-- What the record of a run says of the run as a whole: evidence, the grade that stands, and its source.
-- kind: ephemeral
-- grain: one row per run of the batch being exported
-- range: 0 to 1 for the score
-- null: whatever the record does not hold; the grade's columns where the run has not been graded
-- source: Toolscore, exporting runs
with batch as (
    select
        position,
        run_id,
        repetition_index,
    from staged.numbered_batch
),

runs as (
    select
        run_id,
        evidence_sha256,
        document_id,
        source,
        path,
        locator,
        format,
        task,
        variant,
        repetition,
        status,
        recorded_outcome,
        final_answer,
        error,
        model,
        prompt,
        cost_usd,
        duration_seconds,
        input_tokens,
        output_tokens,
        usage_json,
        started_at,
        ended_at,
        injected_json,
        attributes_json,
        warnings,
    from evidence.runs
),

latest_grades as (
    select
        run_id,
        judgment_id,
        grade_id,
        contract,
    from marts.latest_grades
),

grades as (
    select
        run_id,
        grade_id,
        grader_version,
        score,
        grade,
        verdict,
        min_score,
        is_passed,
        outcome,
        pass_count,
        fail_count,
        unknown_count,
        violation_count,
        credential_count,
        failed_call_count,
        blind_retry_count,
        honesty_error_count,
    from grades.grades
)

select
    position::bigint as position,                           -- place of the record, from 0
    repetition_index::integer as repetition_index,          -- the how manieth run of its task and variant, from 0
    runs.run_id::varchar as run_id,                         -- the run
    evidence_sha256::varchar as evidence_sha256,            -- SHA-256 of what was recorded
    document_id::varchar as document_id,                    -- SHA-256 of the document it was read from
    source::varchar as source,                              -- the source of the project file
    path::varchar as path,                                  -- the path of that document
    locator::varchar as locator,                            -- where in the document
    format::varchar as format,                              -- the trace format
    task::varchar as task,                                  -- the task
    variant::varchar as variant,                            -- the arm, model or configuration
    repetition::bigint as repetition,                       -- the how manieth time, as recorded
    status::varchar as status,                              -- the status the recorder gave it
    recorded_outcome::varchar as recorded_outcome,          -- the outcome that the record itself names
    final_answer::varchar as final_answer,                  -- the last assistant text with no call after it
    error::varchar as error,                                -- why the run failed
    model::varchar as model,                                -- the model
    prompt::varchar as prompt,                              -- the user's request
    cost_usd::double as cost_usd,                           -- cost of the whole run in US dollars
    duration_seconds::double as duration_seconds,           -- wall-clock seconds of the whole run
    input_tokens::bigint as input_tokens,                   -- tokens read
    output_tokens::bigint as output_tokens,                 -- tokens written
    usage_json::varchar as usage_json,                      -- the usage record as it stands, as JSON
    started_at::timestamptz as started_at,                  -- when it began (UTC)
    ended_at::timestamptz as ended_at,                      -- when it ended (UTC)
    injected_json::varchar as injected_json,                -- faults injected and instructions planted, as JSON
    attributes_json::varchar as attributes_json,            -- any other fields of the record, as JSON
    warnings::varchar[] as warnings,                        -- what was odd about it
    latest_grades.contract::varchar as contract,            -- name of the contract
    latest_grades.judgment_id::varchar as judgment_id,      -- the judgment it was held against
    latest_grades.grade_id::varchar as grade_id,            -- hash over evidence, judgment and formulas
    grader_version::varchar as grader_version,              -- the version of the formulas
    score::double as score,                                 -- composite score, 0 to 1
    grade::varchar as grade,                                -- A to F
    verdict::varchar as verdict,                            -- PASS, WARN or FAIL
    min_score::double as min_score,                         -- the passing score
    is_passed::boolean as is_passed,                        -- whether the score reaches it
    outcome::varchar as outcome,                            -- pass, fail, error or unknown
    pass_count::integer as pass_count,                      -- evidence checks that pass
    fail_count::integer as fail_count,                      -- evidence checks that fail
    unknown_count::integer as unknown_count,                -- evidence checks that lack their data
    violation_count::integer as violation_count,            -- forbidden calls
    credential_count::integer as credential_count,          -- credentials passed into tools
    failed_call_count::integer as failed_call_count,        -- calls known to have failed
    blind_retry_count::integer as blind_retry_count,        -- failed calls repeated unchanged
    honesty_error_count::integer as honesty_error_count,    -- honesty findings that are errors
from batch
inner join runs using (run_id)
left join latest_grades using (run_id)
left join grades
    on latest_grades.run_id = grades.run_id and latest_grades.grade_id = grades.grade_id
