-- Each expected call of the winning combination beside the call that stands for it.
-- kind: incremental
-- key: run_id, judgment_id, grader_version
-- grain: one row per run, judgment, grader version and expected call
-- null: call_index and the lists when no call of the tool was left for it
-- source: Toolscore, argument metrics; one to one within each tool
with pairs as (
    select
        pair_id,
        run_id,
        judgment_id,
    from work.pairs
),

judgments as (
    select
        judgment_id,
        is_strict,
    from judgment.judgments
),

grader as (
    select grader_version from settings.grader
),

winners as (
    select
        pair_id,
        combination_id,
    from scores.winners
),

expected_calls as (
    select
        pair_id,
        combination_id,
        position,
        tool,
        pattern_id,
        is_checked,
        args_count,
    from work.expected_calls
),

pairings as (
    select
        pair_id,
        combination_id,
        position,
        call_index,
    from work.pairings
),

calls as (
    select
        pair_id,
        call_index,
        args_id,
        args_count,
        is_matchable,
        is_failed,
    from work.calls
),

argument_texts as (
    select
        args_id,
        args_json,
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

name_arguments as (
    select
        pattern_id,
        list_sort(list(name)) as declared_names,
    from judgment.pattern_args
    group by all
),

couple_calls as (
    select
        pair_id,
        position,
        tool,
        is_checked,
        pattern_id,
        expected_calls.args_count as expected_args,
        call_index,
        is_failed,
        is_matchable,
        args_json,
        coalesce(declared_names, []) as declared_names,
        if(is_checked and is_matchable, coalesce(met_count, 0), 0) as met_count,
        coalesce(missing_names, []) as missing_names,
        coalesce(different_names, []) as different_names,
    from winners
    inner join pairs using (pair_id)
    inner join judgments using (judgment_id)
    inner join expected_calls using (pair_id, combination_id)
    left join name_arguments using (pattern_id)
    left join pairings using (pair_id, combination_id, position)
    left join calls using (pair_id, call_index)
    left join argument_matches using (pattern_id, args_id, is_strict)
    left join argument_texts using (args_id)
)

select
    run_id::varchar as run_id,                          -- the run
    judgment_id::varchar as judgment_id,                -- the judgment it was held against
    grader_version::varchar as grader_version,          -- the version of the formulas
    position::integer as position,                      -- place among the expected calls, from 0
    tool::varchar as tool,                              -- the tool expected
    pattern_id::varchar as pattern_id,                  -- the tool and arguments expected, as declared
    is_checked::boolean as is_checked,                  -- whether its arguments are checked
    call_index::integer as call_index,                  -- the call that stands for it, by its place in the run
    is_failed::boolean as is_failed,                    -- whether that call failed
    expected_args::integer as expected_args_count,      -- arguments expected
    met_count::integer as met_args_count,               -- arguments met
    (case
        when not is_checked or call_index is null then []
        when not is_matchable then declared_names
        else missing_names
    end)::varchar[] as missing_args,                    -- expected and not given
    if(is_checked and is_matchable, different_names, [])::varchar[] as different_args, -- given, with another value
    (case
        when is_checked and is_matchable
            then list_filter(json_keys(args_json), lambda name: not list_contains(declared_names, name))
        else []
    end)::varchar[] as unexpected_args,                 -- given and not expected
from couple_calls
inner join pairs using (pair_id)
cross join grader
