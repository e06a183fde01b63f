-- Precision, recall and F1 of the arguments given, over expected calls paired with actual ones.
-- kind: ephemeral
-- grain: one row per case and combination
-- range: 0 to 1
-- null: never; nothing counted scores 1 when a call needed no arguments or nothing was expected or called, else 0
-- source: Toolscore, argument metrics
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
        is_checked,
        args_count,
    from work.expected_calls
),

pairings as (
    select
        case_id,
        combination_id,
        position,
        call_index,
        met_count,
    from work.pairings
),

case_calls as (
    select
        case_id,
        call_index,
        args_count,
        is_matchable,
    from work.case_calls
),

compare_couples as (
    select
        case_id,
        combination_id,
        pairings.call_index is not null as is_paired,
        is_checked,
        if(is_checked, expected_calls.args_count, 0) as expected_args,
        if(is_checked, coalesce(case_calls.args_count, 0), 0) as actual_args,
        met_count,
        pairings.call_index is not null
        and (not is_checked or (expected_calls.args_count = 0 and is_matchable and case_calls.args_count = 0)) as is_vacuous,
    from expected_calls
    left join pairings using (case_id, combination_id, position)
    left join case_calls using (case_id, call_index)
),

count_arguments as (
    select
        case_id,
        combination_id,
        sum(met_count) as met_count,
        sum(expected_args) as expected_args,
        sum(actual_args) as actual_args,
        bool_or(is_vacuous) as has_vacuous,
    from compare_couples
    group by all
),

score_empty as (
    select
        case_id,
        combination_id,
        coalesce(met_count, 0) as met_count,
        coalesce(expected_args, 0) as expected_args,
        coalesce(actual_args, 0) as actual_args,
        case
            when expected_count = 0 and called_count = 0 then 1
            when expected_count = 0 or called_count = 0 then 0
            when expected_args = 0 and actual_args = 0 and has_vacuous then 1
        end as fixed_score,
    from tool_totals
    left join count_arguments using (case_id, combination_id)
),

divide_counts as (
    select
        case_id,
        combination_id,
        met_count,
        expected_args,
        actual_args,
        coalesce(fixed_score, if(actual_args > 0, met_count::double / actual_args, 0)) as argument_precision,
        coalesce(fixed_score, if(expected_args > 0, met_count::double / expected_args, 0)) as argument_recall,
    from score_empty
)

select
    case_id::bigint as case_id,                         -- the case
    combination_id::integer as combination_id,          -- the combination of alternatives scored, from 0
    argument_precision::double as argument_precision,   -- arguments met / arguments given, 0 to 1
    argument_recall::double as argument_recall,         -- arguments met / arguments expected, 0 to 1
    (case
        when argument_precision + argument_recall > 0
            then 2 * argument_precision * argument_recall / (argument_precision + argument_recall)
        else 0
    end)::double as argument_f1,                        -- harmonic mean of precision and recall, 0 to 1
    met_count::integer as argument_met_count,           -- arguments met
    expected_args::integer as argument_expected_count,  -- arguments expected of checked calls
    actual_args::integer as argument_given_count,       -- arguments given by the calls paired with them
from divide_counts
