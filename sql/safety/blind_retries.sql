-- Calls that repeat the call just before, which failed, with the same arguments.
-- kind: ephemeral
-- grain: one row per pair and repeated call
-- null: all but the call
-- source: Toolscore, behaviour checks; calls whose arguments were not recorded are not known to repeat
with calls as (
    select
        pair_id,
        call_index,
        tool,
        args_id,
        is_failed,
    from work.calls
),

follow_failures as (
    select
        retry.pair_id,
        retry.call_index,
        retry.tool,
    from calls as failure
    inner join calls as retry
        on
            failure.pair_id = retry.pair_id
            and failure.call_index + 1 = retry.call_index
            and failure.tool = retry.tool
            and failure.args_id = retry.args_id
    where failure.is_failed
)

select
    pair_id::bigint as pair_id,             -- the run and the judgment being paired
    'blind-retry'::varchar as finding,      -- what was found
    'warning'::varchar as severity,         -- a blind retry is a warning
    call_index::integer as call_index,      -- the retry, by its place in the run
    tool::varchar as tool,                  -- its tool
    null::integer as rule_position,         -- the rule broken
    null::varchar as path,                  -- where in the arguments
    null::varchar as kind,                  -- kind of credential
    null::varchar as preview,               -- redacted preview
    null::varchar as sentence,              -- sentence of the final answer
    'repeats a failed call with the same arguments'::varchar as reason, -- why
    false::boolean as is_example,           -- whether it is a published example credential
from follow_failures
