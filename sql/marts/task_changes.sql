-- Which tasks moved: the pass rate of a task under two variants that both ran it.
-- kind: table
-- grain: one row per comparison, pair of variants and task
-- range: -1 to 1
-- null: never
-- source: Toolscore, comparing runs
with comparisons as (
    select
        comparison,
        baseline,
    from settings.comparisons
),

task_stats as (
    select
        comparison,
        variant,
        task,
        run_count,
        pass_count,
    from marts.task_stats
),

pair_up as (
    select
        comparison,
        task,
        first.variant as a,
        second.variant as b,
        first.run_count as run_count_a,
        first.pass_count as pass_count_a,
        second.run_count as run_count_b,
        second.pass_count as pass_count_b,
    from comparisons
    inner join task_stats as first using (comparison)
    inner join task_stats as second using (comparison, task)
    where
        case
            when comparisons.baseline is null then first.variant < second.variant
            else first.variant = comparisons.baseline and second.variant != comparisons.baseline
        end
)

select
    comparison::varchar as comparison,                                               -- the comparison
    a::varchar as a,                                                                 -- the first variant: the baseline, where there is one
    b::varchar as b,                                                                 -- the second variant
    task::varchar as task,                                                           -- the task
    run_count_a::bigint as run_count_a,                                              -- its runs under a
    pass_count_a::bigint as pass_count_a,                                            -- its passes under a
    run_count_b::bigint as run_count_b,                                              -- its runs under b
    pass_count_b::bigint as pass_count_b,                                            -- its passes under b
    (pass_count_b / run_count_b - pass_count_a / run_count_a)::double as difference, -- pass rate under b minus that under a
from pair_up
