-- How well the set of tools called agrees with the set expected, wrong and missed ones costing half.
-- kind: ephemeral
-- grain: one row per case and combination
-- range: 0 to 1
-- null: never; 1 when nothing was expected or called, 0 when only one of them is empty
-- source: Toolscore, invocation accuracy
with tool_totals as (
    select
        case_id,
        combination_id,
        expected_tool_count,
        called_tool_count,
        correct_tool_count,
        expected_tool_count + called_tool_count - 2 * correct_tool_count as miss_count,
    from work.tool_totals
)

select
    case_id::bigint as case_id,                 -- the case
    combination_id::integer as combination_id,  -- the combination of alternatives scored, from 0
    (case
        when expected_tool_count = 0 and called_tool_count = 0 then 1
        when expected_tool_count = 0 or called_tool_count = 0 then 0
        else greatest(0, least(1, (correct_tool_count - 0.5::double * miss_count) / expected_tool_count))
    end)::double as invocation_accuracy,        -- (hits - half of wrong and missed tools) / expected tools, 0 to 1
from tool_totals
