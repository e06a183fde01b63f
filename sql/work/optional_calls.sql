-- The calls that match an optional entry of their judgment, tool and arguments.
-- kind: ephemeral
-- grain: one row per pair and call that matches at least one optional entry
-- null: never
-- source: contracts v2, optional calls
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

optional_calls as (
    select
        judgment_id,
        tool,
        pattern_id,
    from judgment.optional_calls
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
    from work.argument_matches
),

meet_entries as (
    select
        pair_id,
        call_index,
    from pairs
    inner join judgments using (judgment_id)
    inner join optional_calls using (judgment_id)
    inner join patterns using (pattern_id)
    inner join calls using (pair_id, tool)
    left join argument_matches using (pattern_id, args_id, is_strict)
    where
        not is_checked
        or (is_matchable and args_id is not null and coalesce(met_count, 0) = args_count)
)

select distinct
    pair_id::bigint as pair_id,                                 -- the run and the judgment being paired
    call_index::integer as call_index,                          -- the call, by its place in the run
from meet_entries
