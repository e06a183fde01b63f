-- Calls that are known to have failed.
-- kind: ephemeral
-- grain: one row per pair and failed call
-- null: all but the call; the error's own text stays with the evidence
-- source: Toolscore, behaviour checks
with calls as (
    select
        pair_id,
        call_index,
        tool,
    from work.calls
    where is_failed
)

select
    pair_id::bigint as pair_id,             -- the run and the judgment being paired
    'failed-call'::varchar as finding,      -- what was found
    'warning'::varchar as severity,         -- a failure by itself is a warning
    call_index::integer as call_index,      -- the call, by its place in the run
    tool::varchar as tool,                  -- its tool
    null::integer as rule_position,         -- the rule broken
    null::varchar as path,                  -- where in the arguments
    null::varchar as kind,                  -- kind of credential
    null::varchar as preview,               -- redacted preview
    null::varchar as sentence,              -- sentence of the final answer
    'the call failed'::varchar as reason,   -- why
    false::boolean as is_example,           -- whether it is a published example credential
from calls
