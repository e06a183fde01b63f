-- Each expected call of the winning combination beside the call that stands for it, for every case.
-- kind: ephemeral
-- grain: one row per case and expected call
-- null: call_index when no call of the tool was left for it
-- source: Toolscore, argument metrics; one to one within each tool
with winners as (
    select
        case_id,
        combination_id,
    from scores.winners
),

expected_calls as (
    select
        case_id,
        combination_id,
        position,
        tool,
        pattern_id,
        is_checked,
        args_count,
        is_strict,
    from work.expected_calls
),

pairings as (
    select
        case_id,
        combination_id,
        position,
        call_index,
    from work.pairings
),

case_calls as (
    select
        case_id,
        call_index,
        args_id,
        is_matchable,
        is_failed,
    from work.case_calls
),

argument_texts as (
    select
        args_id,
        arg_names,
    from work.argument_texts
),

argument_matches as (
    select
        pattern_id,
        args_id,
        is_strict,
        met_count,
        missing_names,
        different_names,
    from work.argument_matches
),

patterns as (
    select
        pattern_id,
        args_json,
    from judgment.patterns
),

couple_calls as (
    select
        case_id,
        position,
        tool,
        is_checked,
        pattern_id,
        args_count,
        call_index,
        is_failed,
        is_matchable,
        coalesce(arg_names, []) as arg_names,
        coalesce(json_keys(args_json), []) as declared_names,
        if(is_checked and is_matchable, coalesce(met_count, 0), 0) as met_count,
        coalesce(missing_names, []) as missing_names,
        coalesce(different_names, []) as different_names,
    from winners
    inner join expected_calls using (case_id, combination_id)
    left join pairings using (case_id, combination_id, position)
    left join case_calls using (case_id, call_index)
    left join argument_matches using (pattern_id, args_id, is_strict)
    left join argument_texts using (args_id)
    inner join patterns using (pattern_id)
)

select
    case_id::bigint as case_id,                         -- the case
    position::integer as position,                      -- place among the expected calls, from 0
    tool::varchar as tool,                              -- the tool expected
    pattern_id::varchar as pattern_id,                  -- the tool and arguments expected, as declared
    is_checked::boolean as is_checked,                  -- whether its arguments are checked
    call_index::integer as call_index,                  -- the call that stands for it, by its place in the run
    is_failed::boolean as is_failed,                    -- whether that call failed
    args_count::integer as expected_args_count,         -- arguments expected
    met_count::integer as met_args_count,               -- arguments met
    (case
        when not is_checked or call_index is null then []
        when not is_matchable then declared_names
        else missing_names
    end)::varchar[] as missing_args,                    -- expected and not given
    if(is_checked and is_matchable, different_names, [])::varchar[] as different_args, -- given, with another value
    (case
        when is_checked and is_matchable
            then list_filter(arg_names, lambda name: not list_contains(declared_names, name))
        else []
    end)::varchar[] as unexpected_args,                 -- given and not expected
from couple_calls
