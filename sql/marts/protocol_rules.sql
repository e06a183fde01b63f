-- What the runs say to each rule of the protocols now in force.
-- kind: table
-- after: marts.task_stats, marts.outcomes, settings.comparisons
-- grain: one row per comparison and rule
-- null: values that are unknown
-- source: Toolscore, protocols
with protocol_rules as (
    select
        decision_id,
        comparison,
        position,
        rule_id,
        metric,
        status,
        baseline_value,
        candidate_value,
        detail,
    from staged.protocol_rules
)

select
    decision_id::varchar as decision_id,        -- the decision it is part of
    comparison::varchar as comparison,          -- the comparison
    position::bigint as position,               -- its place in the protocol, from 0
    rule_id::varchar as rule_id,                -- the rule's id
    metric::varchar as metric,                  -- the metric it looks at
    status::varchar as status,                  -- pass, fail or unknown
    baseline_value::double as baseline_value,   -- the metric's value for the baseline
    candidate_value::double as candidate_value, -- the metric's value for the candidate
    detail::varchar as detail,                  -- why, in a sentence
from protocol_rules
