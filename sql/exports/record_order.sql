-- The runs of an export in the order of their records, each with its place among the repetitions of its task.
-- kind: ephemeral
-- grain: one row per run chosen for the export
-- null: never
-- source: Agent Eval Flow, whose plans number the repetitions of a task and candidate from 0
with chosen as (
    select run_id from staged.chosen
),

runs as (
    select
        run_id,
        source,
        task,
        variant,
        repetition,
        call_count,
    from evidence.runs
),

choose_runs as (
    select
        run_id,
        source,
        coalesce(task, '') as task,
        coalesce(variant, '') as variant,
        repetition,
        call_count,
    from chosen
    inner join runs using (run_id)
),

count_repetitions as (
    select
        task,
        variant,
        count(*) as run_count,
        count(distinct repetition) as repetition_count,
    from choose_runs
    group by all
),

-- Recorded numbers are kept where they tell all runs of a task apart and leave no wide gaps.
judge_numbers as (
    select bool_and(run_count = repetition_count) as is_distinct, max(run_count) as most_runs,
    from count_repetitions
),

find_range as (
    select min(repetition) as first_repetition, max(repetition) as last_repetition,
    from choose_runs
),

number_runs as (
    select
        run_id,
        call_count,
        row_number() over (order by source, task, variant, repetition nulls last, run_id) - 1 as position,
        if(
            is_distinct and last_repetition - first_repetition < 2 * most_runs,
            repetition - first_repetition,
            row_number() over (
                partition by task, variant order by repetition nulls last, source, run_id
            ) - 1
        ) as repetition_index,
    from choose_runs
    cross join judge_numbers
    cross join find_range
)

select
    position::bigint as position,                   -- place of the record, from 0
    run_id::varchar as run_id,                      -- the run
    call_count::integer as call_count,              -- its calls
    repetition_index::integer as repetition_index,  -- the how manieth run of its task and variant, from 0
from number_runs
