-- How well the set of tools called agrees with the set expected, wrong and missed ones costing half.
-- kind: ephemeral
-- grain: one row per case and combination
-- range: 0 to 1
-- null: never; 1 when nothing was expected or called, 0 when only one of them is empty
-- source: Toolscore, invocation accuracy
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
        expected_count,
        called_count,
    from work.tool_counts
),

count_tools as (
    select
        case_id,
        combination_id,
        count(*) filter (where expected_count > 0) as expected_tool_count,
        count(*) filter (where called_count > 0) as called_tool_count,
        count(*) filter (where expected_count > 0 and called_count > 0) as hit_count,
        count(*) filter (where expected_count = 0 or called_count = 0) as miss_count,
    from tool_counts
    group by all
)

select
    case_id::bigint as case_id,                 -- the case
    combination_id::integer as combination_id,  -- the combination of alternatives scored, from 0
    (case
        when expected_tool_count is null then 1
        when expected_tool_count = 0 or called_tool_count = 0 then 0
        else greatest(0, least(1, (hit_count - 0.5::double * miss_count) / expected_tool_count))
    end)::double as invocation_accuracy,        -- (hits - half of wrong and missed tools) / expected tools, 0 to 1
from combinations
left join count_tools using (case_id, combination_id)
