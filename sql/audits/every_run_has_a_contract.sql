-- Every run has a contract that applies to it; those that have none are not graded.
-- guards: marts.latest_grades
-- severity: warn
-- mend: Write a contract for the task that is named (its task key, else its file name, is the task), or bind one by pattern.
with runs as (
    select
        run_id,
        task,
    from evidence.runs
),

latest_grades as (
    select run_id
    from marts.latest_grades
)

select
    task,
    count(*) as run_count,
from runs
anti join latest_grades using (run_id)
group by all
