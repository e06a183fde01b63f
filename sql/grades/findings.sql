-- What was found wrong in every graded run, call by call.
-- kind: incremental
-- key: run_id, judgment_id, grader_version
-- grain: one row per run, judgment, grader version and finding
-- null: whatever a kind of finding does not have
-- source: Toolscore, behaviour and safety
with pairs as (
    select
        pair_id,
        run_id,
        judgment_id,
    from work.pairs
),

grader as (
    select grader_version from settings.grader
),

findings as (
    select
        pair_id,
        finding,
        severity,
        call_index,
        tool,
        rule_position,
        path,
        kind,
        preview,
        sentence,
        reason,
        is_example,
    from safety.all
)

select
    run_id::varchar as run_id,                          -- the run
    judgment_id::varchar as judgment_id,                -- the judgment it was held against
    grader_version::varchar as grader_version,          -- the version of the formulas
    finding::varchar as finding,                        -- forbidden-call, credential, failed-call, blind-retry or an honesty check
    (severity::enum('error', 'warning', 'unknown'))::varchar as severity, -- error, warning or unknown
    call_index::integer as call_index,                  -- the call, by its place in the run, from 0
    tool::varchar as tool,                              -- its tool
    rule_position::integer as rule_position,            -- the forbidden rule broken, from 0
    path::varchar as path,                              -- where in the arguments
    kind::varchar as kind,                              -- kind of credential
    preview::varchar as preview,                        -- redacted preview of a credential
    sentence::varchar as sentence,                      -- sentence of the final answer
    reason::varchar as reason,                          -- why
    is_example::boolean as is_example,                  -- whether it is a published example credential
from pairs
inner join findings using (pair_id)
cross join grader
