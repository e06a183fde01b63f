-- Which judgments apply to which runs.
-- kind: table
-- grain: one row per judgment and condition
-- null: a condition that is not set holds for every run
-- source: the project file and its contracts
with bindings as (
    select
        judgment_id,
        name,
        task,
        task_pattern,
        variant,
        source,
        path,
        sha256,
    from staged.bindings
)

select
    judgment_id::varchar as judgment_id,    -- the judgment
    name::varchar as name,                  -- name of the contract, for people
    task::varchar as task,                  -- the task it applies to
    task_pattern::varchar as task_pattern,  -- a regular expression the whole task name meets
    variant::varchar as variant,            -- the variant it applies to
    source::varchar as source,              -- the source it applies to
    path::varchar as path,                  -- the file of the contract
    sha256::varchar as sha256,              -- SHA-256 of that file
from bindings
