-- Every combination of alternatives that each pair is scored under.
-- kind: ephemeral
-- grain: one row per pair and combination
-- null: never
-- source: contracts v2, expansion of alternative groups
with pairs as (
    select
        pair_id,
        judgment_id,
    from work.pairs
),

combinations as (
    select
        judgment_id,
        combination_id,
        expected_count,
    from judgment.combinations
)

select
    pair_id::bigint as pair_id,                                 -- the run and the judgment being paired
    combination_id::integer as combination_id,                  -- the combination of alternatives, from 0 in declared order
    expected_count::integer as expected_count,                  -- how many calls it expects
from pairs
inner join combinations using (judgment_id)
