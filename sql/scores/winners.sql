-- The best combination of each case: the highest score, ties to the one declared first.
-- kind: ephemeral
-- grain: one row per case
-- null: never
-- source: contracts v2, alternatives
with composite as (
    select
        case_id,
        combination_id,
        score,
    from scores.composite
),

rank_combinations as (
    select
        case_id,
        max(score) as best_score,
        list_transform(
            list_sort(list(struct_pack(combination_id, score))), lambda scored: scored.score
        ) as combination_scores,
    from composite
    group by all
)

select
    case_id::bigint as case_id,                                         -- the case
    (list_position(combination_scores, best_score) - 1)::integer as combination_id, -- the combination that won, from 0
    best_score::double as score,                                        -- its composite score, 0 to 1
    combination_scores::double[] as combination_scores,                 -- the score of every combination, in declared order
from rank_combinations
