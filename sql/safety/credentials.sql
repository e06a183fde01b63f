-- Credentials that the agent passed into a tool.
-- kind: ephemeral
-- grain: one row per pair, call and credential
-- null: sentence and rule_position, which are for other findings; path when the arguments are free text
-- source: Toolscore, credentials in tool arguments
with pairs as (
    select
        pair_id,
        run_id,
    from work.pairs
),

calls as (
    select
        run_id,
        call_index,
        tool,
        args_json,
        args_raw,
    from evidence.calls
),

suspect_calls as (
    select
        pair_id,
        call_index,
        tool,
        args_json,
        args_raw,
    from pairs
    inner join calls using (run_id)
    -- One search through both texts: making its pattern ready takes longer than searching a few calls.
    where may_hold_credential(concat_ws(chr(10), args_json, args_raw))
),

scan_arguments as (
    select
        args_json,
        args_raw,
        credentials(args_json, args_raw) as findings_json,
    from (
        select distinct
            args_json,
            args_raw,
        from suspect_calls
    )
),

list_findings as (
    select
        pair_id,
        call_index,
        tool,
        unnest(from_json(findings_json, '["json"]')) as finding_json,
    from suspect_calls
    inner join scan_arguments
        on
            suspect_calls.args_json is not distinct from scan_arguments.args_json
            and suspect_calls.args_raw is not distinct from scan_arguments.args_raw
    where findings_json != '[]'
)

select
    pair_id::bigint as pair_id,                                     -- the run and the judgment being paired
    'credential'::varchar as finding,                               -- what was found
    if(finding_json ->> 'kind' = 'truncated', 'unknown', 'error')::varchar as severity, -- error, or unknown for a text too long to scan
    call_index::integer as call_index,                              -- the call, by its place in the run
    tool::varchar as tool,                                          -- its tool
    null::integer as rule_position,                                 -- the rule broken
    (finding_json ->> 'path')::varchar as path,                     -- where in the arguments, as body.text or files[0].content
    (finding_json ->> 'kind')::varchar as kind,                     -- kind of credential
    (finding_json ->> 'preview')::varchar as preview,               -- its first four and last two characters
    null::varchar as sentence,                                      -- sentence of the final answer
    'passes a credential'::varchar as reason,                       -- why
    coalesce((finding_json ->> 'is_example')::boolean, false)::boolean as is_example, -- whether it is a published example credential
from list_findings
