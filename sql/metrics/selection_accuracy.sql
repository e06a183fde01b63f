-- Share of the agent's calls whose tool the contract expects.
-- kind: ephemeral
-- grain: one row per case and combination
-- range: 0 to 1
-- null: never; no calls at all scores 1 when none were expected, else 0
-- source: Toolscore, selection accuracy
with tool_totals as (
    select
        case_id,
        combination_id,
        expected_count,
        called_count,
        hit_count,
    from work.tool_totals
)

select
    case_id::bigint as case_id,                 -- the case
    combination_id::integer as combination_id,  -- the combination of alternatives scored, from 0
    (case
        when called_count > 0 then hit_count / called_count
        when expected_count = 0 then 1
        else 0
    end)::double as selection_accuracy,         -- calls with an expected tool / all calls, 0 to 1
from tool_totals
