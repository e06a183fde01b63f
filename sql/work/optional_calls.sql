-- The calls that match an optional entry of their judgment, tool and arguments.
-- kind: ephemeral
-- grain: one row per case and call that matches at least one optional entry
-- null: never
-- source: contracts v2, optional calls
with cases as (
    select
        case_id,
        judgment_id,
        is_strict,
    from work.cases
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

case_calls as (
    select
        case_id,
        call_index,
        tool,
        args_id,
        is_matchable,
    from work.case_calls
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
        case_id,
        tool,
        call_index,
    from cases
    inner join optional_calls using (judgment_id)
    inner join patterns using (pattern_id)
    inner join case_calls using (case_id, tool)
    left join argument_matches using (pattern_id, args_id, is_strict)
    where
        not is_checked
        or (is_matchable and args_id is not null and coalesce(met_count, 0) = args_count)
),

order_calls as (
    select
        case_id,
        call_index,
        row_number() over (partition by case_id, tool order by call_index) - 1 as tool_ordinal,
    from case_calls
    semi join meet_entries using (case_id, tool)
)

select
    case_id::bigint as case_id,                                 -- the case
    call_index::integer as call_index,                          -- the call, by its place in the run
    tool_ordinal::integer as tool_ordinal,                      -- how many calls of its tool came before it
from order_calls
semi join meet_entries using (case_id, call_index)
