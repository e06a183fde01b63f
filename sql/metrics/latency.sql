-- The duration of a run's calls, over those that recorded one.
-- kind: ephemeral
-- grain: one row per pair
-- unit: seconds
-- null: every figure when no call recorded a duration; a recorded 0 is 0
-- source: Toolscore, latency metrics; unknown is never 0
with coverage as (
    select
        pair_id,
        call_count,
        duration_count,
        durations,
    from work.coverage
)

select
    pair_id::bigint as pair_id,                                             -- the run and the judgment being paired
    (case
        when duration_count = 0 then 'unknown'
        when duration_count < call_count then 'partial'
        else 'measured'
    end)::varchar as latency_status,                                        -- measured, partial (some calls have a value) or unknown (none has)
    duration_count::integer as latency_known_count,               -- calls that have a value
    list_sum(durations)::double as total_duration_seconds,               -- their sum
    (list_sum(durations) / nullif(duration_count, 0))::double as mean_duration_seconds, -- their mean
    list_min(durations)::double as min_duration_seconds,                 -- the smallest
    list_max(durations)::double as max_duration_seconds,                 -- the largest
from coverage
