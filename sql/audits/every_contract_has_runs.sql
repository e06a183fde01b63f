-- Every contract applies to at least one run.
-- guards: judgment.bindings
-- severity: warn
-- mend: Compare the task that the contract names with the tasks of the runs (toolscore status); a contract that is not needed can be deleted.
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
