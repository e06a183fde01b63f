-- Edit distance between the tools expected and the tools called, in order.
-- kind: ephemeral
-- grain: one row per pair and combination
-- unit: edits (insert, delete or replace one call)
-- null: never
-- source: Toolscore, sequence metrics; Levenshtein distance over tool names
with combinations as (
    select
        pair_id,
        combination_id,
    from work.combinations
),

expected_calls as (
    select
        pair_id,
        combination_id,
        position,
        tool,
    from work.expected_calls
),

scored_calls as (
    select
        pair_id,
        combination_id,
        position,
        tool,
    from work.scored_calls
),

-- A letter per tool turns a sequence into a word. A letter must be one byte, so that it is one
-- character too; with more tools than letters the names themselves are compared.
spell_tools as (
    select
        tool,
        row_number() over () as tool_number,
    from (
        select tool from expected_calls
        union
        select tool from scored_calls
    )
),

spell_expected as (
    select
        pair_id,
        combination_id,
        count(*) as expected_count,
        max(tool_number) as highest_number,
        string_agg(chr(least(tool_number, 120)::integer), '' order by position) as expected_word,
        list(tool_number order by position) as expected_numbers,
    from expected_calls
    inner join spell_tools using (tool)
    group by all
),

spell_called as (
    select
        pair_id,
        combination_id,
        count(*) as called_count,
        max(tool_number) as highest_number,
        string_agg(chr(least(tool_number, 120)::integer), '' order by position) as called_word,
        list(tool_number order by position) as called_numbers,
    from scored_calls
    inner join spell_tools using (tool)
    group by all
),

pair_words as (
    select
        pair_id,
        combination_id,
        coalesce(expected_count, 0) as expected_count,
        coalesce(called_count, 0) as called_count,
        greatest(expected_count, called_count, 1) as longest_count,
        coalesce(expected_word, '') as expected_word,
        coalesce(called_word, '') as called_word,
        expected_numbers,
        called_numbers,
        expected_count is not null and called_count is not null
        and greatest(spell_expected.highest_number, spell_called.highest_number) >= 120 as needs_numbers,
    from combinations
    left join spell_expected using (pair_id, combination_id)
    left join spell_called using (pair_id, combination_id)
),

compare_numbers as (
    select
        expected_numbers,
        called_numbers,
        sequence_distance(expected_numbers, called_numbers) as number_distance,
    from (
        select distinct
            expected_numbers,
            called_numbers,
        from pair_words
        where needs_numbers
    )
),

measure_distance as (
    select
        pair_id,
        combination_id,
        longest_count,
        case
            when expected_count = 0 or called_count = 0 then greatest(expected_count, called_count)
            when needs_numbers then number_distance
            else levenshtein(expected_word, called_word)
        end as edit_distance,
    from pair_words
    left join compare_numbers using (expected_numbers, called_numbers)
)

select
    pair_id::bigint as pair_id,                 -- the run and the judgment being paired
    combination_id::integer as combination_id,  -- the combination of alternatives scored, from 0
    edit_distance::integer as edit_distance,    -- edits that turn the tools called into those expected
    (edit_distance::double / longest_count)::double as normalized_distance, -- edits / calls of the longer side, 0 to 1
    (1 - edit_distance::double / longest_count)::double as sequence_accuracy, -- 1 - normalized distance, 0 to 1
from measure_distance
