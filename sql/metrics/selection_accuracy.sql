-- Share of the agent's calls whose tool the contract expects.
-- kind: ephemeral
-- grain: one row per case and combination
-- range: 0 to 1
-- null: never; no calls at all scores 1 when none were expected, else 0
-- source: Toolscore, selection accuracy
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
        called_count,
    from work.tool_counts
),

count_hits as (
    select
        case_id,
        combination_id,
        sum(called_count) as call_count,
        sum(called_count) filter (where expected_count > 0) as hit_count,
    from tool_counts
    group by all
)

select
    case_id::bigint as case_id,                 -- the case
    combination_id::integer as combination_id,  -- the combination of alternatives scored, from 0
    (case
        when call_count > 0 then coalesce(hit_count, 0) / call_count
        when expected_count = 0 then 1
        else 0
    end)::double as selection_accuracy,         -- calls with an expected tool / all calls, 0 to 1
from combinations
left join count_hits using (case_id, combination_id)
