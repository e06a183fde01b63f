-- The judgments that apply to each run, the most specific of them first.
-- kind: view
-- grain: one row per run and judgment that applies to it
-- null: never
-- source: bindings of the project's contracts: by task, task pattern, variant and source
with runs as (
    select
        run_id,
        task,
        variant,
        source,
    from evidence.runs
),

bindings as (
    select
        judgment_id,
        name,
        task,
        task_pattern,
        variant,
        source,
    from judgment.bindings
),

-- An exact task is found by a hash join; only patterns are tried on every run.
bind_tasks as (
    select
        runs.run_id,
        bindings.judgment_id,
        bindings.name,
        8 + if(bindings.variant is null, 0, 2) + if(bindings.source is null, 0, 1) as specificity,
    from runs
    inner join bindings on runs.task = bindings.task
    where
        (bindings.variant is null or bindings.variant = runs.variant)
        and (bindings.source is null or bindings.source = runs.source)
),

bind_patterns as (
    select
        runs.run_id,
        bindings.judgment_id,
        bindings.name,
        if(bindings.task_pattern is null, 0, 4)
        + if(bindings.variant is null, 0, 2) + if(bindings.source is null, 0, 1) as specificity,
    from runs
    inner join bindings
        on
            bindings.task is null
            and (bindings.task_pattern is null or regexp_full_match(runs.task, bindings.task_pattern))
            and (bindings.variant is null or bindings.variant = runs.variant)
            and (bindings.source is null or bindings.source = runs.source)
),

-- One judgment may be bound twice; its most specific binding counts.
keep_most_specific as (
    select
        run_id,
        judgment_id,
        max(specificity) as specificity,
        min(name) as name,
    from (
        select * from bind_tasks
        union all
        select * from bind_patterns
    )
    group by all
)

select
    run_id::varchar as run_id,                  -- the run
    judgment_id::varchar as judgment_id,        -- a judgment that applies to it
    name::varchar as contract,                  -- name of the contract, for people
    (row_number() over (
        partition by run_id order by specificity desc, name, judgment_id
    ))::integer as precedence,                  -- 1 for the most specific, whose outcome stands for the run
from keep_most_specific
