-- Every contract applies to at least one run.
-- guards: judgment.bindings
-- severity: warn
with bindings as (
    select
        name,
        judgment_id,
    from judgment.bindings
),

applicable as (
    select judgment_id
    from judgment.applicable
)

select name
from bindings
anti join applicable using (judgment_id)
