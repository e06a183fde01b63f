-- Edit distance between the tools expected and the tools called, in order.
-- kind: ephemeral
-- grain: one row per case and combination
-- unit: edits (insert, delete or replace one call)
-- null: never
-- source: Toolscore, sequence metrics; Levenshtein distance over tool names
with cases as (
    select
        case_id,
        judgment_id,
    from work.cases
),

combinations as (
    select
        case_id,
        combination_id,
    from work.combinations
),

expected_calls as (
    select
        judgment_id,
        combination_id,
        position,
        tool,
    from judgment.expected_calls
    semi join work.cases using (judgment_id)
),

scored_calls as (
    select
        case_id,
        combination_id,
        position,
        tool,
    from work.scored_calls
),

number_tools as (
    select
        tool,
        row_number() over () as tool_number,
    from (
        select tool from expected_calls
        union
        select tool from scored_calls
    )
),

-- Sorting numbers that hold the place and the tool is several times faster than an ordered list.
list_expected as (
    select
        judgment_id,
        combination_id,
        max(tool_number) as highest_number,
        list_transform(
            list_sort(list(position::bigint * 1048576 + tool_number)), lambda code: code % 1048576
        ) as expected_numbers,
    from expected_calls
    inner join number_tools using (tool)
    group by all
),

list_called as (
    select
        case_id,
        combination_id,
        max(tool_number) as highest_number,
        list_transform(
            list_sort(list(position::bigint * 1048576 + tool_number)), lambda code: code % 1048576
        ) as called_numbers,
    from scored_calls
    inner join number_tools using (tool)
    group by all
),

pair_sequences as (
    select
        case_id,
        combination_id,
        coalesce(expected_numbers, []) as expected_numbers,
        coalesce(called_numbers, []) as called_numbers,
        greatest(list_expected.highest_number, list_called.highest_number) as highest_number,
    from combinations
    inner join cases using (case_id)
    left join list_expected using (judgment_id, combination_id)
    left join list_called using (case_id, combination_id)
),

-- A letter per tool turns a sequence into a word, and few words come up often. A letter must be one
-- byte, so that it is one character too; with more tools than letters the numbers are compared.
compare_sequences as (
    select
        expected_numbers,
        called_numbers,
        case
            when len(expected_numbers) = 0 or len(called_numbers) = 0
                then greatest(len(expected_numbers), len(called_numbers))
            when highest_number > 120 then sequence_distance(expected_numbers, called_numbers)
            else levenshtein(
                list_aggregate(list_transform(expected_numbers, lambda number: chr(number::integer)), 'string_agg', ''),
                list_aggregate(list_transform(called_numbers, lambda number: chr(number::integer)), 'string_agg', '')
            )
        end as edit_distance,
    from (
        select distinct
            expected_numbers,
            called_numbers,
            highest_number,
        from pair_sequences
    )
),

measure_distance as (
    select
        case_id,
        combination_id,
        edit_distance,
        greatest(len(pair_sequences.expected_numbers), len(pair_sequences.called_numbers), 1) as longest_count,
    from pair_sequences
    inner join compare_sequences using (expected_numbers, called_numbers)
)

select
    case_id::bigint as case_id,                 -- the case
    combination_id::integer as combination_id,  -- the combination of alternatives scored, from 0
    edit_distance::integer as edit_distance,    -- edits that turn the tools called into those expected
    (edit_distance::double / longest_count)::double as normalized_distance, -- edits / calls of the longer side, 0 to 1
    (1 - edit_distance::double / longest_count)::double as sequence_accuracy, -- 1 - normalized distance, 0 to 1
from measure_distance
