-- Every run as recorded: a task done once under one variant.
-- kind: incremental
-- key: source, path
-- grain: one row per run
-- null: whatever the record does not hold
-- source: trace formats, as read by the loader
with runs as (
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
        probes_json,
        attributes_json,
        call_count,
        warnings,
    from staged.runs
)

select
    run_id::varchar as run_id,                      -- SHA-256 of evidence, task, variant, repetition and ordinal among identical records of its document
    evidence_sha256::varchar as evidence_sha256,    -- SHA-256 of what was recorded, as canonical JSON
    document_id::varchar as document_id,            -- the document it was read from
    source::varchar as source,                      -- the source of the project file
    path::varchar as path,                          -- the path of that document
    locator::varchar as locator,                    -- where in the document
    format::varchar as format,                      -- the trace format
    task::varchar as task,                          -- the task
    variant::varchar as variant,                    -- the arm, model or configuration
    repetition::bigint as repetition,               -- the how manieth time, as recorded
    status::varchar as status,                      -- the status the recorder gave it
    recorded_outcome::varchar as recorded_outcome,  -- pass, fail, error or unknown, where the record judges itself
    final_answer::varchar as final_answer,          -- the last assistant text with no call after it
    error::varchar as error,                        -- why the run failed
    model::varchar as model,                        -- the model
    prompt::varchar as prompt,                      -- the user's request
    cost_usd::double as cost_usd,                   -- cost of the whole run in US dollars
    duration_seconds::double as duration_seconds,   -- wall-clock seconds of the whole run
    input_tokens::bigint as input_tokens,           -- tokens read
    output_tokens::bigint as output_tokens,         -- tokens written
    usage_json::varchar as usage_json,              -- the usage record as it stands, as JSON
    started_at::timestamptz as started_at,          -- when it began (UTC)
    ended_at::timestamptz as ended_at,              -- when it ended (UTC)
    injected_json::varchar as injected_json,        -- faults injected and instructions planted, as JSON
    probes_json::varchar as probes_json,            -- side effects probed where they happened, as JSON
    attributes_json::varchar as attributes_json,    -- any other fields of the record, as JSON
    call_count::integer as call_count,              -- calls recorded
    warnings::varchar[] as warnings,                -- what was odd about it
from runs
