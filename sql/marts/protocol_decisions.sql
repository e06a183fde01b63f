-- What each protocol decided, and every decision before it.
-- kind: table
-- after: marts.task_stats, marts.outcomes, settings.comparisons
-- grain: one row per decision that differs from the one before
-- null: the first run and the two flags when no run has a start time
-- source: Toolscore, protocols
with protocol_decisions as (
    select
        decision_id,
        comparison,
        protocol_sha256,
        title,
        baseline,
        candidate,
        decision,
        rule_statuses,
        first_run_at,
        declared_at,
        is_declared_late,
        is_changed_late,
        decided_at,
        is_current,
    from staged.protocol_decisions
)

select
    decision_id::varchar as decision_id,           -- hash of the comparison, the protocol and what its rules came to
    comparison::varchar as comparison,             -- the comparison
    protocol_sha256::varchar as protocol_sha256,   -- hash of the protocol as declared
    title::varchar as title,                       -- its title
    baseline::varchar as baseline,                 -- the baseline variant
    candidate::varchar as candidate,               -- the candidate variant
    decision::varchar as decision,                 -- adopt, reject or undecided
    rule_statuses::varchar[] as rule_statuses,     -- pass, fail or unknown of each rule, in declared order
    first_run_at::timestamptz as first_run_at,     -- when the first run it judges began (UTC)
    declared_at::timestamptz as declared_at,       -- when the protocol was first seen (UTC)
    is_declared_late::boolean as is_declared_late, -- whether it was first seen after the first run it judges
    is_changed_late::boolean as is_changed_late,   -- whether it then replaced an earlier one
    decided_at::timestamptz as decided_at,         -- when the decision was made (UTC)
    is_current::boolean as is_current,             -- whether it is the comparison's decision now
from protocol_decisions
