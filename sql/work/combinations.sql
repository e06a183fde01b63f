-- Every combination of alternatives that each case is scored under.
-- kind: ephemeral
-- grain: one row per case and combination
-- null: never
-- source: contracts v2, expansion of alternative groups
with cases as (
    select
        case_id,
        judgment_id,
    from work.cases
),

combinations as (
    select
        judgment_id,
        combination_id,
        expected_count,
    from judgment.combinations
)

select
    case_id::bigint as case_id,                                 -- the case
    combination_id::integer as combination_id,                  -- the combination of alternatives, from 0 in declared order
    expected_count::integer as expected_count,                  -- how many calls it expects
from cases
inner join combinations using (judgment_id)
