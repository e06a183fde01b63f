-- The calls of the runs of an export: what was requested and what came back.
-- kind: ephemeral
-- grain: one row per call of the runs of the batch being exported
-- null: whatever was not recorded; is_failed when the outcome is not known
-- source: Toolscore, exporting runs
with batch as (
    select run_id from staged.record_batch
),

calls as (
    select
        run_id,
        call_index,
        call_id,
        tool,
        args_json,
        args_status,
        args_raw,
        result_json,
        has_result,
        is_error,
        error_json,
        is_failed,
        outcome_basis,
        is_denied,
        deny_reason,
        duration_seconds,
        cost_usd,
        started_at,
        ended_at,
        executor,
        pairing,
        request_locator,
        completion_locator,
        warnings,
    from evidence.calls
)

select
    run_id::varchar as run_id,                          -- the run
    call_index::integer as call_index,                  -- place of the request, from 0
    call_id::varchar as call_id,                        -- the provider's id
    tool::varchar as tool,                              -- the tool
    args_json::varchar as args_json,                    -- its arguments as canonical JSON
    args_status::varchar as args_status,                -- ok, empty, invalid, not_object, text or absent
    args_raw::varchar as args_raw,                      -- the arguments' own text
    result_json::varchar as result_json,                -- the result as canonical JSON
    has_result::boolean as has_result,                  -- whether a result was recorded
    is_error::boolean as is_error,                      -- the format's own error flag
    error_json::varchar as error_json,                  -- the error recorded, as JSON
    is_failed::boolean as is_failed,                    -- whether it failed
    outcome_basis::varchar as outcome_basis,            -- explicit or result_only
    is_denied::boolean as is_denied,                    -- whether it was refused
    deny_reason::varchar as deny_reason,                -- why
    duration_seconds::double as duration_seconds,       -- wall-clock seconds
    cost_usd::double as cost_usd,                       -- cost in US dollars
    started_at::timestamptz as started_at,              -- when it was requested (UTC)
    ended_at::timestamptz as ended_at,                  -- when its result came (UTC)
    executor::varchar as executor,                      -- client, provider or mcp
    pairing::varchar as pairing,                        -- how the result was found
    request_locator::varchar as request_locator,        -- where in the document the request stands
    completion_locator::varchar as completion_locator,  -- where its result stands
    warnings::varchar[] as warnings,                    -- what was odd about it
from batch
inner join calls using (run_id)
