-- How each tool fared under each variant: how often it failed, was refused, how long it took.
-- kind: view
-- grain: one row per source, variant and tool
-- range: rates 0 to 1
-- null: the failure rate without a recorded outcome; seconds and dollars without a recorded value
-- source: calls as recorded, graded or not
with runs as (
    select
        run_id,
        source,
        variant,
    from evidence.runs
),

calls as (
    select
        run_id,
        tool,
        is_failed,
        is_denied,
        duration_seconds,
        cost_usd,
    from evidence.calls
),

add_up as (
    select
        source,
        variant,
        tool,
        count(*) as call_count,
        count(distinct run_id) as run_count,
        count(*) filter (where is_failed) as failed_count,
        count(is_failed) as known_count,
        count(*) filter (where is_denied) as denied_count,
        median(duration_seconds) as median_seconds,
        max(duration_seconds) as longest_seconds,
        count(duration_seconds) as duration_count,
        fsum(cost_usd) as cost_usd,
        count(cost_usd) as cost_count,
    from runs
    inner join calls using (run_id)
    group by all
)

select
    source::varchar as source,                                      -- the source of the runs
    variant::varchar as variant,                                    -- their variant
    tool::varchar as tool,                                          -- the tool
    run_count::bigint as run_count,                                 -- runs that called it
    call_count::bigint as call_count,                               -- calls of it
    failed_count::bigint as failed_count,                           -- calls known to have failed
    (call_count - known_count)::bigint as unknown_count,            -- calls whose outcome was not recorded
    (failed_count / nullif(known_count, 0))::double as failure_rate, -- failed calls / calls with a recorded outcome
    denied_count::bigint as denied_count,                           -- calls that a guard or a person refused
    median_seconds::double as median_seconds,                       -- median wall-clock seconds of a call
    longest_seconds::double as longest_seconds,                     -- the longest call
    duration_count::bigint as duration_count,                       -- calls with a recorded duration
    if(cost_count = 0, null, cost_usd)::double as total_cost_usd,   -- US dollars of the calls with a cost
    cost_count::bigint as cost_count,                               -- calls with a recorded cost
from add_up
