-- What passed and does not pass any more: runs after the last regrade, and tasks against the baseline.
-- kind: view
-- grain: one row per run that passed before the last regrade and does not now, and per comparison with a baseline, variant and task whose pass rate is below the baseline's
-- range: rates and p-values 0 to 1, differences -1 to 0
-- null: what belongs to the other kind; a task's outcome, which is many; source, where a comparison takes in every source
-- source: marts.flips and marts.task_changes
with flips as (
    select
        run_id,
        source,
        task,
        variant,
        contract,
        after_outcome,
        before_score,
        after_score,
        reason,
    from marts.flips
    where is_latest and before_outcome = 'pass' and after_outcome != 'pass'
),

comparisons as (
    select
        comparison,
        source,
        baseline,
    from settings.comparisons
),

task_changes as (
    select
        comparison,
        a,
        b,
        task,
        run_count_a,
        pass_count_a,
        run_count_b,
        pass_count_b,
        difference,
    from marts.task_changes
    where difference < 0
),

stack_kinds as (
    select
        'regrade' as kind,
        null as comparison,
        source,
        task,
        variant,
        null as baseline,
        run_id,
        after_outcome,
        null as baseline_run_count,
        null as baseline_pass_count,
        null as run_count,
        null as pass_count,
        null as difference,
        null as p_value,
        contract || ': ' || reason as reason,
    from flips
    union all
    select
        'variant' as kind,
        comparison,
        comparisons.source,
        task,
        b as variant,
        a as baseline,
        null as run_id,
        null as after_outcome,
        run_count_a as baseline_run_count,
        pass_count_a as baseline_pass_count,
        run_count_b as run_count,
        pass_count_b as pass_count,
        difference,
        fisher_p(pass_count_a, run_count_a - pass_count_a, pass_count_b, run_count_b - pass_count_b) as p_value,
        format('{} of {} runs pass, {} of {} under {}', pass_count_b, run_count_b, pass_count_a, run_count_a, a) as reason,
    from task_changes
    inner join comparisons using (comparison)
    where a = baseline
)

select
    kind::varchar as kind,                                  -- regrade for a run, variant for a task
    comparison::varchar as comparison,                      -- the comparison of a task
    source::varchar as source,                              -- the source of the runs
    task::varchar as task,                                  -- the task
    variant::varchar as variant,                            -- the variant that does worse
    baseline::varchar as baseline,                          -- the variant a task is held against
    run_id::varchar as run_id,                              -- the run that passed before the last regrade
    after_outcome::varchar as after_outcome,                -- its outcome now: fail, error or unknown
    baseline_run_count::bigint as baseline_run_count,       -- runs of the task under the baseline
    baseline_pass_count::bigint as baseline_pass_count,     -- passes of them
    run_count::bigint as run_count,                         -- runs of the task under the variant
    pass_count::bigint as pass_count,                       -- passes of them
    difference::double as difference,                       -- pass rate under the variant minus that under the baseline
    p_value::double as p_value,                             -- two-sided Fisher exact p-value of this one task, not adjusted for their number
    reason::varchar as reason,                              -- what happened, in a sentence
from stack_kinds
