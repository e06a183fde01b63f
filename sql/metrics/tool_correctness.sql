-- Share of the tools expected that were called at all, with those missing and those unexpected.
-- kind: ephemeral
-- grain: one row per case and combination
-- range: 0 to 1
-- null: never; with nothing expected, 1 when nothing was called, else 0
-- source: Toolscore, tool correctness
with combinations as (
    select
        case_id,
        combination_id,
    from work.combinations
),

tool_counts as (
    select
        case_id,
        combination_id,
        tool,
        expected_count,
        called_count,
    from work.tool_counts
),

list_tools as (
    select
        case_id,
        combination_id,
        count(*) filter (where expected_count > 0) as expected_tool_count,
        count(*) filter (where expected_count > 0 and called_count > 0) as correct_tool_count,
        list_sort(list(tool) filter (where expected_count > 0)) as expected_tools,
        list_sort(list(tool) filter (where called_count > 0)) as called_tools,
        list_sort(list(tool) filter (where called_count = 0)) as missing_tools,
        list_sort(list(tool) filter (where expected_count = 0)) as extra_tools,
    from tool_counts
    group by all
)

select
    case_id::bigint as case_id,                                     -- the case
    combination_id::integer as combination_id,                      -- the combination of alternatives scored, from 0
    (case
        when expected_tool_count > 0 then correct_tool_count / expected_tool_count
        when len(called_tools) > 0 then 0
        else 1
    end)::double as tool_correctness,                               -- expected tools called / expected tools, 0 to 1
    coalesce(correct_tool_count, 0)::integer as correct_tool_count, -- expected tools that were called
    coalesce(expected_tool_count, 0)::integer as expected_tool_count, -- tools expected
    coalesce(expected_tools, [])::varchar[] as expected_tools,      -- their names, sorted
    coalesce(called_tools, [])::varchar[] as called_tools,          -- names of the tools called, sorted
    coalesce(missing_tools, [])::varchar[] as missing_tools,        -- expected and not called
    coalesce(extra_tools, [])::varchar[] as extra_tools,            -- called and not expected
from combinations
left join list_tools using (case_id, combination_id)
