-- Which actual call stands for which expected call, so that pairs, then met arguments, are most.
-- kind: ephemeral
-- grain: one row per case, combination and expected call that found a call of its tool
-- null: never
-- source: Toolscore, argument metrics; one to one within each tool, always optimal
with expected_calls as (
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

scored_calls as (
    select
        case_id,
        combination_id,
        call_index,
        tool,
        args_id,
        is_matchable,
    from work.scored_calls
),

tool_counts as (
    select
        case_id,
        combination_id,
        tool,
        expected_count,
        called_count,
    from work.tool_counts
    where expected_count > 0 and called_count > 0
),

argument_matches as (
    select
        pattern_id,
        args_id,
        is_strict,
        met_count,
    from work.argument_matches
),

weigh_couples as (
    select
        case_id,
        combination_id,
        tool,
        position,
        call_index,
        expected_count,
        called_count,
        if(is_checked and is_matchable, coalesce(met_count, 0), 0) as met_count,
    from tool_counts
    inner join expected_calls using (case_id, combination_id, tool)
    inner join scored_calls using (case_id, combination_id, tool)
    left join argument_matches using (pattern_id, args_id, is_strict)
),

-- One expected call takes the best actual one, the first of equals; one actual call goes to the best
-- expected one, the last of equals.
weigh_best as (
    select
        case_id,
        combination_id,
        tool,
        position,
        call_index,
        met_count,
        met_count::bigint * 4294967296 + if(expected_count = 1, -call_index, position) as weight,
    from weigh_couples
    where expected_count = 1 or called_count = 1
),

take_best as (
    select
        case_id,
        combination_id,
        tool,
        arg_max(position, weight) as position,
        arg_max(call_index, weight) as call_index,
        max(met_count) as met_count,
    from weigh_best
    group by all
),

-- All else is an assignment problem; equal problems are solved once.
list_problems as (
    select
        case_id,
        combination_id,
        tool,
        called_count,
        list_transform(
            list_sort(list(struct_pack(position, call_index, met_count))), lambda couple: couple.met_count
        ) as weights,
        list_sort(list_distinct(list(position))) as positions,
        list_sort(list_distinct(list(call_index))) as call_indexes,
    from weigh_couples
    where expected_count > 1 and called_count > 1
    group by all
),

solve_problems as (
    select
        weights,
        called_count,
        assign_calls(weights, called_count) as columns,
    from (
        select distinct
            weights,
            called_count,
        from list_problems
    )
),

unfold_solutions as (
    select
        case_id,
        combination_id,
        unnest(positions) as position,
        unnest(list_transform(columns, lambda column_index: call_indexes[column_index + 1])) as call_index,
        unnest(list_transform(
            range(len(columns)), lambda place: weights[called_count * place + columns[place + 1] + 1]
        )) as met_count,
    from list_problems
    inner join solve_problems using (weights, called_count)
),

collect_pairings as (
    select
        case_id,
        combination_id,
        position,
        call_index,
        met_count,
    from take_best
    union all
    select
        case_id,
        combination_id,
        position,
        call_index,
        met_count,
    from unfold_solutions
    where call_index is not null
)

select
    case_id::bigint as case_id,                                 -- the case
    combination_id::integer as combination_id,                  -- the combination of alternatives, from 0
    position::integer as position,                              -- the expected call, by its place
    call_index::integer as call_index,                          -- the actual call that stands for it, by its place in the run
    met_count::integer as met_count,                            -- its arguments that are met, where they are checked
from collect_pairings
