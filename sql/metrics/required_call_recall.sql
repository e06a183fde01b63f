-- Share of the expected calls that have a call of the same tool which did not fail.
-- kind: ephemeral
-- grain: one row per case and combination
-- range: 0 to 1
-- null: when nothing is expected
-- source: Toolscore, required calls completed
with combinations as (
    select
        case_id,
        combination_id,
        expected_count,
    from work.combinations
),

tool_counts as (
    select
        case_id,
        combination_id,
        expected_count,
        not_failed_count,
        succeeded_count,
    from work.tool_counts
),

count_completed as (
    select
        case_id,
        combination_id,
        sum(least(expected_count, not_failed_count)) as completed_count,
        sum(least(expected_count, succeeded_count)) as confirmed_count,
    from tool_counts
    group by all
)

select
    case_id::bigint as case_id,                                     -- the case
    combination_id::integer as combination_id,                      -- the combination of alternatives scored, from 0
    expected_count::integer as required_count,                      -- calls expected
    coalesce(completed_count, 0)::integer as completed_count,       -- expected calls that were made and are not known to have failed
    coalesce(confirmed_count, 0)::integer as confirmed_count,       -- expected calls that were made and are known to have succeeded
    (case when expected_count > 0 then coalesce(completed_count, 0) / expected_count end)::double as required_call_recall, -- completed / expected, 0 to 1
from combinations
left join count_completed using (case_id, combination_id)
