-- Calls that a forbidden rule names, with every argument the rule lists matched.
-- kind: ephemeral
-- grain: one row per pair, call and rule it breaks or may break
-- null: path, kind, preview and sentence, which are for other findings
-- source: Toolscore, forbidden calls; reported, never scored
with pairs as (
    select
        pair_id,
        judgment_id,
    from work.pairs
),

judgments as (
    select
        judgment_id,
        is_strict,
    from judgment.judgments
),

forbidden_rules as (
    select
        judgment_id,
        position,
        tool,
        pattern_id,
        reason,
    from judgment.forbidden_rules
),

patterns as (
    select
        pattern_id,
        is_checked,
        args_count,
    from judgment.patterns
),

calls as (
    select
        pair_id,
        call_index,
        tool,
        args_id,
        is_matchable,
    from work.calls
),

argument_matches as (
    select
        pattern_id,
        args_id,
        is_strict,
        met_count,
        undecided_count,
    from work.argument_matches
),

meet_rules as (
    select
        pair_id,
        call_index,
        tool,
        position,
        reason,
        case
            when not is_checked or args_count = 0 then true
            when args_id is null or is_matchable is null then null
            when not is_matchable then false
            when coalesce(met_count, 0) = args_count then true
            when coalesce(met_count, 0) + coalesce(undecided_count, 0) = args_count then null
            else false
        end as is_broken,
        args_id is null or is_matchable is null as is_unrecorded,
    from pairs
    inner join judgments using (judgment_id)
    inner join forbidden_rules using (judgment_id)
    inner join patterns using (pattern_id)
    inner join calls using (pair_id, tool)
    left join argument_matches using (pattern_id, args_id, is_strict)
)

select
    pair_id::bigint as pair_id,                     -- the run and the judgment being paired
    'forbidden-call'::varchar as finding,           -- what was found
    if(is_broken, 'error', 'unknown')::varchar as severity, -- error, or unknown when the rule could not be decided
    call_index::integer as call_index,              -- the call, by its place in the run
    tool::varchar as tool,                          -- its tool
    position::integer as rule_position,             -- the rule, by its place in the judgment, from 0
    null::varchar as path,                          -- where in the arguments
    null::varchar as kind,                          -- kind of credential
    null::varchar as preview,                       -- redacted preview
    null::varchar as sentence,                      -- sentence of the final answer
    (case
        when is_broken then reason
        when is_unrecorded then 'the rule checks arguments, which were not recorded'
        else 'a pattern of the rule ran out of time'
    end)::varchar as reason,                        -- why, in the rule's words
    false::boolean as is_example,                   -- whether it is a published example credential
from meet_rules
where is_broken is null or is_broken
