-- The duration of a run's calls, over those that recorded one.
-- kind: ephemeral
-- grain: one row per pair
-- unit: seconds
-- null: every figure when no call recorded a duration; a recorded 0 is 0
-- source: Toolscore, latency metrics; unknown is never 0
with pairs as (
    select
        pair_id,
        run_id,
    from work.pairs
),

calls as (
    select
        run_id,
        call_index,
        tool,
        duration_seconds,
    from evidence.calls
),

-- Summed in call order, so that the last digit does not depend on the threads.
list_values as (
    select
        pair_id,
        count(*) as call_count,
        count(duration_seconds) as known_count,
        list_transform(
            list_sort(list(struct_pack(call_index, duration_seconds)) filter (where duration_seconds is not null)),
            lambda value: value.duration_seconds
        ) as known_values,
    from pairs
    inner join calls using (run_id)
    group by all
)

select
    pair_id::bigint as pair_id,                                             -- the run and the judgment being paired
    (case
        when coalesce(known_count, 0) = 0 then 'unknown'
        when known_count < call_count then 'partial'
        else 'measured'
    end)::varchar as latency_status,                                        -- measured, partial (some calls have a value) or unknown (none has)
    coalesce(known_count, 0)::integer as latency_known_count,               -- calls that have a value
    list_sum(known_values)::double as total_duration_seconds,               -- their sum
    (list_sum(known_values) / known_count)::double as mean_duration_seconds, -- their mean
    list_min(known_values)::double as min_duration_seconds,                 -- the smallest
    list_max(known_values)::double as max_duration_seconds,                 -- the largest
from pairs
left join list_values using (pair_id)
