-- What runs cost in dollars, tokens and time, by source, variant, model and task.
-- kind: view
-- grain: one row per source, variant, model and task
-- null: dollars, tokens and seconds of which no run has a value; dollars per pass without a pass, or when a run's cost or outcome is unknown
-- source: runs as recorded, with the standing outcome
with runs as (
    select
        run_id,
        source,
        variant,
        model,
        task,
        cost_usd,
        input_tokens,
        output_tokens,
        duration_seconds,
    from evidence.runs
),

latest_grades as (
    select
        run_id,
        outcome,
    from marts.latest_grades
),

add_up as (
    select
        source,
        variant,
        model,
        task,
        count(*) as run_count,
        count(*) filter (where outcome = 'pass') as pass_count,
        count(*) filter (where coalesce(outcome, 'unknown') = 'unknown') as unknown_count,
        count(cost_usd) as cost_count,
        if(count(cost_usd) = 0, null, fsum(cost_usd)) as total_cost_usd,
        max(cost_usd) as highest_cost_usd,
        sum(input_tokens) as input_tokens,
        sum(output_tokens) as output_tokens,
        count(duration_seconds) as duration_count,
        median(duration_seconds) as median_seconds,
        max(duration_seconds) as longest_seconds,
    from runs
    left join latest_grades using (run_id)
    group by all
)

select
    source::varchar as source,                                      -- the source of the runs
    variant::varchar as variant,                                    -- their variant
    model::varchar as model,                                        -- the model
    task::varchar as task,                                          -- the task
    run_count::bigint as run_count,                                 -- runs, graded or not
    pass_count::bigint as pass_count,                               -- runs that passed
    cost_count::bigint as cost_count,                               -- runs with a recorded cost
    total_cost_usd::double as total_cost_usd,                       -- US dollars of these
    (total_cost_usd / nullif(cost_count, 0))::double as mean_cost_usd, -- their mean
    highest_cost_usd::double as highest_cost_usd,                   -- the dearest run
    (case
        when cost_count = run_count and unknown_count = 0 then total_cost_usd / nullif(pass_count, 0)
    end)::double as pass_cost_usd,                                  -- US dollars of all runs per run that passed
    input_tokens::hugeint as input_tokens,                          -- tokens read by the runs that record them
    output_tokens::hugeint as output_tokens,                        -- tokens written by them
    duration_count::bigint as duration_count,                       -- runs with a recorded duration
    median_seconds::double as median_seconds,                       -- median wall-clock seconds of these
    longest_seconds::double as longest_seconds,                     -- the longest run
from add_up
