-- Every decision protocol as declared, and when the warehouse first saw it.
-- kind: table
-- after: marts.task_stats, marts.outcomes, settings.comparisons
-- grain: one row per comparison and protocol hash
-- null: never
-- source: Toolscore, protocols
with protocol_declarations as (
    select
        comparison,
        protocol_sha256,
        title,
        protocol_json,
        declared_at,
    from staged.protocol_declarations
)

select
    comparison::varchar as comparison,           -- the comparison
    protocol_sha256::varchar as protocol_sha256, -- hash of the protocol as declared
    title::varchar as title,                     -- its title
    protocol_json::varchar as protocol_json,     -- the protocol as canonical JSON
    declared_at::timestamptz as declared_at,     -- when it was first seen (UTC)
from protocol_declarations
