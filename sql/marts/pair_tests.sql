-- What a pair of variants shows when runs of one task count as alike, and the verdict in words.
-- kind: table
-- after: marts.task_stats, marts.outcomes, settings.comparisons
-- grain: one row per comparison and pair of variants
-- range: p-values 0 to 1, differences -1 to 1
-- null: the clustered columns with too few tasks or no variation; the paired ones without a common task; seed and resamples of exact tests; runs needed for equal rates
-- source: Bell and McCaffrey (CR2), McNemar, permutation test, Holm
with pair_tests as (
    select
        comparison,
        a,
        b,
        verdict,
        clustered_low,
        clustered_high,
        standard_error,
        degrees_of_freedom,
        cluster_count,
        design_effect,
        paired_method,
        paired_task_count,
        paired_difference,
        paired_p_value,
        paired_p_holm,
        seed,
        resample_count,
        runs_needed,
    from staged.pair_tests
)

select
    comparison::varchar as comparison,                -- the comparison
    a::varchar as a,                                  -- the first variant: the baseline, where there is one
    b::varchar as b,                                  -- the second variant
    verdict::varchar as verdict,                      -- whether they are distinguishable, and why (not)
    clustered_low::double as clustered_low,           -- lower end of the 95 % interval of the difference, clustered by task
    clustered_high::double as clustered_high,         -- upper end of it
    standard_error::double as standard_error,         -- its CR2 standard error
    degrees_of_freedom::double as degrees_of_freedom, -- Bell-McCaffrey degrees of freedom of its t quantile
    cluster_count::bigint as cluster_count,           -- tasks of either variant
    design_effect::double as design_effect,           -- its variance over that of independent runs
    paired_method::varchar as paired_method,          -- exact McNemar, exact permutation or sampled permutation
    paired_task_count::bigint as paired_task_count,   -- tasks both ran
    paired_difference::double as paired_difference,   -- mean over these tasks of pass rate under b minus that under a
    paired_p_value::double as paired_p_value,         -- two-sided p-value of the paired test
    paired_p_holm::double as paired_p_holm,           -- the same, adjusted for the number of pairs
    seed::bigint as seed,                             -- seed of a sampled test
    resample_count::bigint as resample_count,         -- sign flips drawn by a sampled test
    runs_needed::bigint as runs_needed,               -- runs per variant to call these rates distinguishable with 80 % power
from pair_tests
