-- The best combination of each pair: the highest score, ties to the one declared first.
-- kind: ephemeral
-- grain: one row per pair
-- null: never
-- source: contracts v2, alternatives
with composite as (
    select
        pair_id,
        combination_id,
        score,
    from scores.composite
),

rank_combinations as (
    select
        pair_id,
        max(score) as best_score,
        list_transform(
            list_sort(list(struct_pack(combination_id, score))), lambda scored: scored.score
        ) as combination_scores,
    from composite
    group by all
)

select
    pair_id::bigint as pair_id,                                         -- the run and the judgment being paired
    (list_position(combination_scores, best_score) - 1)::integer as combination_id, -- the combination that won, from 0
    best_score::double as score,                                        -- its composite score, 0 to 1
    combination_scores::double[] as combination_scores,                 -- the score of every combination, in declared order
from rank_combinations
