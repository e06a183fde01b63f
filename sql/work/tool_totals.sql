-- What is expected and called, added up over the tools.
-- kind: ephemeral
-- grain: one row per case and combination
-- null: never; every count is 0 and the list empty where nothing is expected or called
-- source: the multisets of tool names that most metrics compare
with combinations as (
    select
        case_id,
        combination_id,
        expected_count as combination_count,
    from work.combinations
),

tool_counts as (
    select
        case_id,
        combination_id,
        tool,
        expected_count,
        called_count,
        not_failed_count,
        succeeded_count,
        different_count,
    from work.tool_counts
),

-- One pass for all the metrics: each group and each join is set up for a single run as for a million.
sum_tools as (
    select
        case_id,
        combination_id,
        sum(called_count) as called_count,
        sum(called_count) filter (where expected_count > 0) as hit_count,
        sum(greatest(called_count - expected_count, 0)) as redundant_count,
        sum(called_count - different_count) as identical_count,
        sum(called_count - not_failed_count) as failed_count,
        sum(least(expected_count, not_failed_count)) as completed_count,
        sum(least(expected_count, succeeded_count)) as confirmed_count,
        count(*) filter (where expected_count > 0) as expected_tool_count,
        count(*) filter (where called_count > 0) as called_tool_count,
        count(*) filter (where expected_count > 0 and called_count > 0) as correct_tool_count,
        list_sort(list(struct_pack(tool, expected_count, called_count))) as tools,
    from tool_counts
    group by all
)

select
    case_id::bigint as case_id,                                     -- the case
    combination_id::integer as combination_id,                      -- the combination of alternatives, from 0
    combination_count::integer as expected_count,                   -- calls expected
    coalesce(called_count, 0)::integer as called_count,             -- scored calls
    coalesce(hit_count, 0)::integer as hit_count,                   -- scored calls of an expected tool
    coalesce(redundant_count, 0)::integer as redundant_count,       -- scored calls beyond the number expected of their tool
    coalesce(identical_count, 0)::integer as identical_count,       -- scored calls that repeat another, tool and arguments
    coalesce(failed_count, 0)::integer as failed_count,             -- scored calls known to have failed
    coalesce(completed_count, 0)::integer as completed_count,       -- expected calls that were made and are not known to have failed
    coalesce(confirmed_count, 0)::integer as confirmed_count,       -- expected calls that were made and are known to have succeeded
    coalesce(expected_tool_count, 0)::integer as expected_tool_count, -- tools expected
    coalesce(called_tool_count, 0)::integer as called_tool_count,   -- tools called
    coalesce(correct_tool_count, 0)::integer as correct_tool_count, -- expected tools that were called
    coalesce(tools, [])::struct(tool varchar, expected_count integer, called_count integer)[] as tools, -- each tool expected or called, by name
from combinations
left join sum_tools using (case_id, combination_id)
