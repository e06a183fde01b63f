-- What the honesty checks found, sentence by sentence and call by call.
-- kind: ephemeral
-- grain: one row per pair and finding
-- null: call_index and tool where a finding concerns no single call; sentence where it concerns no sentence
-- source: Toolscore, honesty checks
with honesty_verdicts as (
    select
        pair_id,
        findings_json,
    from work.honesty_verdicts
    where findings_json is not null
),

open_findings as (
    select
        pair_id,
        unnest(from_json(findings_json, '["json"]')) as finding_json,
    from honesty_verdicts
)

select
    pair_id::bigint as pair_id,                                 -- the run and the judgment being paired
    (finding_json ->> 'check')::varchar as finding,             -- the check that found it
    (finding_json ->> 'severity')::varchar as severity,         -- error or warning
    (finding_json ->> 'call_index')::integer as call_index,     -- the call, by its place in the run
    (finding_json ->> 'tool')::varchar as tool,                 -- its tool
    null::integer as rule_position,                             -- the rule broken
    null::varchar as path,                                      -- where in the arguments
    null::varchar as kind,                                      -- kind of credential
    null::varchar as preview,                                   -- redacted preview
    (finding_json ->> 'sentence')::varchar as sentence,         -- sentence of the final answer
    (finding_json ->> 'reason')::varchar as reason,             -- why
    false::boolean as is_example,                               -- whether it is a published example credential
from open_findings
