-- Two variants of a comparison side by side: whether one passes more often than the other.
-- kind: table
-- grain: one row per comparison and pair of variants
-- range: rates, bounds and p-values 0 to 1, differences -1 to 1
-- null: the Holm adjustment of a single pair; the odds ratio where undefined; what is over common tasks when both ran the same
-- source: Toolscore, comparing runs
with comparisons as (
    select
        comparison,
        baseline,
        min_n,
        alpha,
    from settings.comparisons
),

variant_stats as (
    select
        comparison,
        variant,
        run_count,
        pass_count,
        task_count,
    from marts.variant_stats
),

task_changes as (
    select
        comparison,
        a,
        b,
        run_count_a,
        pass_count_a,
        run_count_b,
        pass_count_b,
        difference,
    from marts.task_changes
),

pair_up as (
    select
        comparison,
        comparisons.min_n,
        comparisons.alpha,
        first.variant as a,
        second.variant as b,
        first.run_count as run_count_a,
        first.pass_count as pass_count_a,
        first.task_count as task_count_a,
        second.run_count as run_count_b,
        second.pass_count as pass_count_b,
        second.task_count as task_count_b,
    from comparisons
    inner join variant_stats as first using (comparison)
    inner join variant_stats as second using (comparison)
    where
        case
            when comparisons.baseline is null then first.variant < second.variant
            else first.variant = comparisons.baseline and second.variant != comparisons.baseline
        end
),

test_pairs as (
    select
        *,
        fisher_p(
            pass_count_a, run_count_a - pass_count_a, pass_count_b, run_count_b - pass_count_b
        ) as p_value,
        wilson_overlap(pass_count_a, run_count_a, pass_count_b, run_count_b) as is_overlapping,
        run_count_a >= min_n and run_count_b >= min_n as has_enough_runs,
        pass_count_b / run_count_b - pass_count_a / run_count_a as difference,
        odds_ratio(
            pass_count_b, run_count_b - pass_count_b, pass_count_a, run_count_a - pass_count_a
        ) as odds_ratio,
    from pair_up
),

-- Holm: the smallest p-value times the number of pairs, the next times one less, never falling.
order_p_values as (
    select
        *,
        count(*) over (partition by comparison) as pair_count,
        row_number() over (partition by comparison order by p_value asc, a asc, b asc) as p_rank,
        has_enough_runs and p_value < alpha and not is_overlapping as is_distinguishable,
    from test_pairs
),

adjust_p_values as (
    select
        *,
        max(least(1.0::double, p_value * (pair_count - p_rank + 1))) over (
            partition by comparison order by p_rank asc
        ) as p_holm,
    from order_p_values
),

count_common as (
    select
        comparison,
        a,
        b,
        count(*) as common_task_count,
        count(*) filter (where difference > 0) as improved_count,
        count(*) filter (where difference < 0) as worsened_count,
        sum(run_count_a) as run_count_a,
        sum(pass_count_a) as pass_count_a,
        sum(run_count_b) as run_count_b,
        sum(pass_count_b) as pass_count_b,
    from task_changes
    group by all
),

-- Variants that ran the same tasks have nothing to add here.
pick_uneven as (
    select
        comparison,
        a,
        b,
        count_common.run_count_a,
        count_common.pass_count_a,
        count_common.run_count_b,
        count_common.pass_count_b,
    from count_common
    inner join pair_up using (comparison, a, b)
    where common_task_count < task_count_a or common_task_count < task_count_b
),

test_common as (
    select
        comparison,
        a,
        b,
        pass_count_b / run_count_b - pass_count_a / run_count_a as common_difference,
        fisher_p(
            pass_count_a, run_count_a - pass_count_a, pass_count_b, run_count_b - pass_count_b
        ) as common_p_value,
    from pick_uneven
)

select
    comparison::varchar as comparison,                                      -- the comparison
    a::varchar as a,                                                        -- the first variant: the baseline, where there is one
    b::varchar as b,                                                        -- the second variant
    adjust_p_values.run_count_a::bigint as run_count_a,                     -- runs of a
    adjust_p_values.pass_count_a::bigint as pass_count_a,                   -- passes of a
    adjust_p_values.run_count_b::bigint as run_count_b,                     -- runs of b
    adjust_p_values.pass_count_b::bigint as pass_count_b,                   -- passes of b
    difference::double as difference,                                       -- pass rate of b minus that of a
    odds_ratio::double as odds_ratio,                                       -- odds of passing under b / odds under a
    p_value::double as p_value,                                             -- two-sided Fisher exact p-value over runs
    (case when pair_count > 1 then p_holm end)::double as p_holm,           -- the same, adjusted for the number of pairs
    is_overlapping::boolean as is_overlapping,                              -- whether the 95 % intervals overlap
    has_enough_runs::boolean as has_enough_runs,                            -- whether both variants have min_n runs
    is_distinguishable::boolean as is_distinguishable,                      -- enough runs, p below alpha and no overlap
    coalesce(common_task_count, 0)::bigint as common_task_count,            -- tasks both ran
    (task_count_a - coalesce(common_task_count, 0))::bigint as only_a_task_count, -- tasks only a ran
    (task_count_b - coalesce(common_task_count, 0))::bigint as only_b_task_count, -- tasks only b ran
    coalesce(improved_count, 0)::bigint as improved_task_count,             -- common tasks whose pass rate rose
    coalesce(worsened_count, 0)::bigint as worsened_task_count,             -- common tasks whose pass rate fell
    common_difference::double as common_difference,                         -- difference over the common tasks; null when both ran the same
    common_p_value::double as common_p_value,                               -- Fisher p-value over the runs of common tasks; null likewise
from adjust_p_values
left join count_common using (comparison, a, b)
left join test_common using (comparison, a, b)
