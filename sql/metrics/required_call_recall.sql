-- Share of the expected calls that have a call of the same tool which did not fail.
-- kind: ephemeral
-- grain: one row per case and combination
-- range: 0 to 1
-- null: when nothing is expected
-- source: Toolscore, required calls completed
with tool_totals as (
    select
        case_id,
        combination_id,
        expected_count,
        completed_count,
        confirmed_count,
    from work.tool_totals
)

select
    case_id::bigint as case_id,                     -- the case
    combination_id::integer as combination_id,      -- the combination of alternatives scored, from 0
    expected_count::integer as required_count,      -- calls expected
    completed_count::integer as completed_count,    -- expected calls that were made and are not known to have failed
    confirmed_count::integer as confirmed_count,    -- expected calls that were made and are known to have succeeded
    (case when expected_count > 0 then completed_count / expected_count end)::double as required_call_recall, -- completed / expected, 0 to 1
from tool_totals
