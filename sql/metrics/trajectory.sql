-- Calls that stand at the very place where they were expected, with every expected argument equal.
-- kind: ephemeral
-- grain: one row per case and combination
-- range: 0 to 1
-- null: never
-- source: Toolscore, trajectory metrics; values are compared without trimming, in strict mode too
with tool_totals as (
    select
        case_id,
        combination_id,
        expected_count,
        called_count,
    from work.tool_totals
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

scored_calls as (
    select
        case_id,
        combination_id,
        position,
        tool,
        args_id,
        is_matchable,
    from work.scored_calls
),

argument_matches as (
    select
        pattern_id,
        args_id,
        is_strict,
        met_in_place_count,
    from work.argument_matches
),

match_steps as (
    select
        case_id,
        combination_id,
        count(*) as correct_count,
        list_sort(list(position)) as met_positions,
    from expected_calls
    inner join scored_calls using (case_id, combination_id, position, tool)
    left join argument_matches using (pattern_id, args_id, is_strict)
    where
        not is_checked
        or (is_matchable and args_id is not null and coalesce(met_in_place_count, 0) = args_count)
    group by all
),

rate_steps as (
    select
        case_id,
        combination_id,
        expected_count,
        coalesce(correct_count, 0) as correct_count,
        coalesce(met_positions, []) as met_positions,
        case
            when expected_count > 0 then coalesce(correct_count, 0) / expected_count
            when called_count = 0 then 1
            else 0
        end as step_match_rate,
        case
            when expected_count > 0 and called_count = 0 then 0
            when expected_count > 0 and called_count > expected_count then expected_count / called_count
            else 1
        end as path_efficiency,
    from tool_totals
    left join match_steps using (case_id, combination_id)
)

select
    case_id::bigint as case_id,                             -- the case
    combination_id::integer as combination_id,              -- the combination of alternatives scored, from 0
    correct_count::integer as trajectory_correct_count,     -- expected calls met at their own place
    expected_count::integer as trajectory_expected_count,   -- expected calls
    step_match_rate::double as step_match_rate,             -- met at their place / expected, 0 to 1
    path_efficiency::double as path_efficiency,             -- expected / actual calls when more were made, else 1
    (step_match_rate * path_efficiency)::double as trajectory_accuracy, -- their product, 0 to 1
    met_positions::integer[] as trajectory_met_positions,   -- the places, from 0, where the expected call was met
from rate_steps
