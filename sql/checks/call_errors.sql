-- Whether no call failed.
-- kind: ephemeral
-- grain: one row per pair
-- null: never
-- source: Toolscore, evidence check call-errors; one outcome missing is enough not to know
with pairs as (
    select pair_id from work.pairs
),

calls as (
    select
        pair_id,
        is_failed,
    from work.calls
),

count_outcomes as (
    select
        pair_id,
        count(*) as call_count,
        count(is_failed) as outcome_count,
        count(*) filter (where is_failed) as failed_count,
    from calls
    group by all
)

select
    pair_id::bigint as pair_id,                     -- the run and the judgment being paired
    2::integer as check_position,                   -- place in the report, from 1
    'call-errors'::varchar as check_name,           -- the check
    (case
        when failed_count > 0 then 'fail'
        when coalesce(outcome_count, 0) = 0 or outcome_count < call_count then 'unknown'
        else 'pass'
    end)::varchar as status,                        -- pass, fail or unknown
    (case
        when failed_count > 0 then format('{} of {} calls failed', failed_count, call_count)
        when call_count is null then 'no call was recorded'
        when outcome_count = 0 then 'no call has a result or an error'
        when outcome_count < call_count
            then format('{} of {} calls have a result or an error', outcome_count, call_count)
        else format('none of {} calls failed', call_count)
    end)::varchar as detail,                        -- why, in a few words
from pairs
left join count_outcomes using (pair_id)
