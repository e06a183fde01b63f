-- The runs that took longest, with the part of their time that was spent in tools.
-- kind: view
-- grain: one row per run with a recorded duration
-- null: seconds in tools when a call has no recorded duration; the outcome of a run without a grade
-- source: runs and calls as recorded, with the standing outcome
with runs as (
    select
        run_id,
        source,
        task,
        variant,
        model,
        repetition,
        duration_seconds,
        cost_usd,
        call_count,
    from evidence.runs
    where duration_seconds is not null
),

calls as (
    select
        run_id,
        duration_seconds,
    from evidence.calls
),

latest_grades as (
    select
        run_id,
        outcome,
    from marts.latest_grades
),

add_up as (
    select
        run_id,
        count(*) as recorded_call_count,
        count(duration_seconds) as duration_count,
        fsum(duration_seconds) as tool_seconds,
        max(duration_seconds) as longest_call_seconds,
    from calls
    group by all
)

select
    row_number() over (order by runs.duration_seconds desc, run_id asc)::bigint as position, -- its place, from 1 for the slowest
    run_id::varchar as run_id,                              -- the run
    source::varchar as source,                              -- its source
    task::varchar as task,                                  -- its task
    variant::varchar as variant,                            -- its variant
    model::varchar as model,                                -- the model
    repetition::bigint as repetition,                       -- the how manieth time, as recorded
    outcome::varchar as outcome,                            -- pass, fail, error or unknown
    duration_seconds::double as duration_seconds,           -- wall-clock seconds of the run
    call_count::integer as call_count,                      -- calls recorded
    (case
        when duration_count = recorded_call_count then tool_seconds
        when call_count = 0 then 0
    end)::double as tool_seconds,                           -- seconds of all its calls; more than the run's when they overlap
    longest_call_seconds::double as longest_call_seconds,   -- the longest call with a recorded duration
    cost_usd::double as cost_usd,                           -- cost of the run in US dollars
from runs
left join latest_grades using (run_id)
left join add_up using (run_id)
