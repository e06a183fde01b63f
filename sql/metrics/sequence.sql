-- Edit distance between the tools expected and the tools called, in order.
-- kind: ephemeral
-- grain: one row per case and combination
-- unit: edits (insert, delete or replace one call)
-- null: never
-- source: Toolscore, sequence metrics; Levenshtein distance over tool names
with combinations as (
    select
        case_id,
        combination_id,
    from work.combinations
),

expected_calls as (
    select
        case_id,
        combination_id,
        position,
        tool,
    from work.expected_calls
),

scored_calls as (
    select
        case_id,
        combination_id,
        position,
        tool,
    from work.scored_calls
),

tool_counts as (
    select tool from work.tool_counts
),

number_tools as (
    select
        tool,
        row_number() over () as tool_number,
    from (select distinct tool from tool_counts)
),

stack_calls as (
    select
        case_id,
        combination_id,
        position,
        tool,
        true as is_expected,
    from expected_calls
    union all
    select
        case_id,
        combination_id,
        position,
        tool,
        false as is_expected,
    from scored_calls
),

-- Sorting numbers that hold the place and the tool is several times faster than an ordered list.
code_calls as (
    select
        case_id,
        combination_id,
        is_expected,
        tool_number,
        position::bigint * 1048576 + tool_number as code,
    from stack_calls
    inner join number_tools using (tool)
),

list_numbers as (
    select
        case_id,
        combination_id,
        max(tool_number) as highest_number,
        list_transform(
            list_sort(list(code) filter (where is_expected)), lambda code: code % 1048576
        ) as expected_numbers,
        list_transform(
            list_sort(list(code) filter (where not is_expected)), lambda code: code % 1048576
        ) as called_numbers,
    from code_calls
    group by all
),

pair_sequences as (
    select
        case_id,
        combination_id,
        coalesce(expected_numbers, []) as expected_numbers,
        coalesce(called_numbers, []) as called_numbers,
        highest_number,
    from combinations
    left join list_numbers using (case_id, combination_id)
),

-- Few sequences come up often: each two are compared once, and the list of where they stand is
-- unfolded again.
gather_sequences as (
    select
        expected_numbers,
        called_numbers,
        max(highest_number) as highest_number,
        list(struct_pack(case_id, combination_id)) as places,
    from pair_sequences
    group by
        expected_numbers,
        called_numbers
),

-- A letter per tool turns a sequence into a word. A letter must be one byte, so that it is one
-- character too; with more tools than letters the numbers are compared.
compare_sequences as (
    select
        places,
        greatest(len(expected_numbers), len(called_numbers), 1) as longest_count,
        case
            when len(expected_numbers) = 0 or len(called_numbers) = 0
                then greatest(len(expected_numbers), len(called_numbers))
            when highest_number > 120 then sequence_distance(expected_numbers, called_numbers)
            else levenshtein(
                list_aggregate(list_transform(expected_numbers, lambda number: chr(number::integer)), 'string_agg', ''),
                list_aggregate(list_transform(called_numbers, lambda number: chr(number::integer)), 'string_agg', '')
            )
        end as edit_distance,
    from gather_sequences
),

unfold_places as (
    select
        unnest(places) as place,
        edit_distance,
        longest_count,
    from compare_sequences
)

select
    place.case_id::bigint as case_id,           -- the case
    place.combination_id::integer as combination_id, -- the combination of alternatives scored, from 0
    edit_distance::integer as edit_distance,    -- edits that turn the tools called into those expected
    (edit_distance::double / longest_count)::double as normalized_distance, -- edits / calls of the longer side, 0 to 1
    (1 - edit_distance::double / longest_count)::double as sequence_accuracy, -- 1 - normalized distance, 0 to 1
from unfold_places
