-- Every tool call as recorded, in the order requested.
-- kind: incremental
-- key: run_id
-- grain: one row per run and call
-- null: whatever the record does not hold; is_failed when the outcome was not recorded
-- source: trace formats, as read by the loader
with calls as (
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
        is_soft_error_suspected,
        request_locator,
        completion_locator,
        warnings,
    from staged.calls
)

select
    run_id::varchar as run_id,                                    -- the run
    call_index::integer as call_index,                            -- place of the call in its run, from 0
    call_id::varchar as call_id,                                  -- the provider's call id or the JSON-RPC request id
    tool::varchar as tool,                                        -- the tool called
    args_json::varchar as args_json,                              -- its arguments as canonical JSON; text that is no JSON as raw, other values as value
    args_status::varchar as args_status,                          -- ok, empty, invalid, not_object, text or absent
    args_raw::varchar as args_raw,                                -- the text of the arguments, where the format holds text
    result_json::varchar as result_json,                          -- its result as canonical JSON
    has_result::boolean as has_result,                            -- whether a result was recorded
    is_error::boolean as is_error,                                -- the format's own error flag
    error_json::varchar as error_json,                            -- the error recorded, as JSON
    is_failed::boolean as is_failed,                              -- whether it failed
    outcome_basis::varchar as outcome_basis,                      -- explicit, or result_only when the format has no error flag
    is_denied::boolean as is_denied,                              -- whether a guard or a person refused it
    deny_reason::varchar as deny_reason,                          -- why it was refused
    duration_seconds::double as duration_seconds,                 -- wall-clock seconds
    cost_usd::double as cost_usd,                                 -- cost in US dollars
    started_at::timestamptz as started_at,                        -- when it was requested (UTC)
    ended_at::timestamptz as ended_at,                            -- when its result came (UTC)
    executor::varchar as executor,                                -- who runs the tool: client, provider or mcp
    pairing::varchar as pairing,                                  -- how the result was found: id, inferred, embedded or none
    is_soft_error_suspected::boolean as is_soft_error_suspected,  -- whether a recorded success reads like a failure
    request_locator::varchar as request_locator,                  -- where in the document the request stands
    completion_locator::varchar as completion_locator,            -- where its result stands
    warnings::varchar[] as warnings,                              -- what was odd about it
from calls
