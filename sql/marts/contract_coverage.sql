-- Which tasks are graded by which contracts, and which by none.
-- kind: view
-- grain: one row per source and task
-- range: rates 0 to 1
-- null: source and task where the record does not hold them
-- source: runs as recorded and the standing grades
with runs as (
    select
        run_id,
        source,
        task,
        variant,
    from evidence.runs
),

latest_grades as (
    select
        run_id,
        contract,
        outcome,
    from marts.latest_grades
),

add_up as (
    select
        source,
        task,
        count(*) as run_count,
        count(distinct variant) as variant_count,
        count(contract) as graded_count,
        count(*) filter (where outcome in ('pass', 'fail')) as decided_count,
        list_sort(coalesce(list(distinct contract) filter (where contract is not null), [])) as contracts,
    from runs
    left join latest_grades using (run_id)
    group by all
)

select
    source::varchar as source,                                  -- the source of the runs
    task::varchar as task,                                      -- the task
    run_count::bigint as run_count,                             -- runs loaded
    variant_count::bigint as variant_count,                     -- variants that ran it
    contracts::varchar[] as contracts,                          -- names of the contracts whose grades stand, sorted
    graded_count::bigint as graded_count,                       -- runs that a contract grades
    (run_count - graded_count)::bigint as ungraded_count,       -- runs that no contract grades
    decided_count::bigint as decided_count,                     -- runs known to pass or to fail
    (graded_count / run_count)::double as graded_rate,          -- share of the runs that are graded
from add_up
