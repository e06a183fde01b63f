-- Share of the tools expected that were called at all, with those missing and those unexpected.
-- kind: ephemeral
-- grain: one row per case and combination
-- range: 0 to 1
-- null: never; with nothing expected, 1 when nothing was called, else 0
-- source: Toolscore, tool correctness
with tool_totals as (
    select
        case_id,
        combination_id,
        expected_tool_count,
        called_tool_count,
        correct_tool_count,
        tools,
    from work.tool_totals
),

name_tools as (
    select
        case_id,
        combination_id,
        expected_tool_count,
        called_tool_count,
        correct_tool_count,
        list_filter(tools, lambda entry: entry.expected_count > 0) as expected_tools,
        list_filter(tools, lambda entry: entry.called_count > 0) as called_tools,
        list_filter(tools, lambda entry: entry.called_count = 0) as missing_tools,
        list_filter(tools, lambda entry: entry.expected_count = 0) as extra_tools,
    from tool_totals
)

select
    case_id::bigint as case_id,                             -- the case
    combination_id::integer as combination_id,              -- the combination of alternatives scored, from 0
    (case
        when expected_tool_count > 0 then correct_tool_count / expected_tool_count
        when called_tool_count > 0 then 0
        else 1
    end)::double as tool_correctness,                       -- expected tools called / expected tools, 0 to 1
    correct_tool_count::integer as correct_tool_count,      -- expected tools that were called
    expected_tool_count::integer as expected_tool_count,    -- tools expected
    list_transform(expected_tools, lambda entry: entry.tool)::varchar[] as expected_tools, -- their names, sorted
    list_transform(called_tools, lambda entry: entry.tool)::varchar[] as called_tools, -- names of the tools called, sorted
    list_transform(missing_tools, lambda entry: entry.tool)::varchar[] as missing_tools, -- expected and not called
    list_transform(extra_tools, lambda entry: entry.tool)::varchar[] as extra_tools, -- called and not expected
from name_tools
