-- Which variant each comparison selects, under its policy and objectives.
-- kind: table
-- after: marts.task_stats, marts.outcomes, settings.comparisons
-- grain: one row per comparison and variant
-- range: score 0 to the sum of the weights
-- null: the score, but for the weighted policy
-- source: Toolscore, selection
with selections as (
    select
        comparison,
        policy,
        variant,
        rank,
        is_chosen,
        is_on_pareto_front,
        score,
        unknown_objectives,
        objectives_json,
        reason,
    from staged.selections
)

select
    comparison::varchar as comparison,                   -- the comparison
    policy::varchar as policy,                           -- lexicographic, weighted or pareto
    variant::varchar as variant,                         -- the variant
    rank::bigint as rank,                                -- its place, from 1 for the best
    is_chosen::boolean as is_chosen,                     -- whether it is selected
    is_on_pareto_front::boolean as is_on_pareto_front,   -- whether no other variant dominates it
    score::double as score,                              -- its weighted score
    unknown_objectives::varchar[] as unknown_objectives, -- objectives whose value is unknown, and so the worst
    objectives_json::varchar as objectives_json,         -- the objectives as list of {metric, weight}
    reason::varchar as reason,                           -- why the selected variant won
from selections
