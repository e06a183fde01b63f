-- Whether no call failed.
-- kind: ephemeral
-- grain: one row per pair
-- null: never
-- source: Toolscore, evidence check call-errors; one outcome missing is enough not to know
with coverage as (
    select
        pair_id,
        call_count,
        outcome_count,
        failed_count,
    from work.coverage
)

select
    pair_id::bigint as pair_id,                     -- the run and the judgment being paired
    2::integer as check_position,                   -- place in the report, from 1
    'call-errors'::varchar as check_name,           -- the check
    (case
        when failed_count > 0 then 'fail'
        when outcome_count = 0 or outcome_count < call_count then 'unknown'
        else 'pass'
    end)::varchar as status,                        -- pass, fail or unknown
    (case
        when failed_count > 0 then format('{} of {} calls failed', failed_count, call_count)
        when call_count = 0 then 'no call was recorded'
        when outcome_count = 0 then 'no call has a result or an error'
        when outcome_count < call_count
            then format('{} of {} calls have a result or an error', outcome_count, call_count)
        else format('none of {} calls failed', call_count)
    end)::varchar as detail,                        -- why, in a few words
from coverage
