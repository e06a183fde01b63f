-- Whether every required call was made and did not fail.
-- kind: ephemeral
-- grain: one row per pair
-- null: never
-- source: Toolscore, evidence check required-calls
with pair_cases as (
    select
        pair_id,
        case_id,
    from work.pair_cases
),

winners as (
    select
        case_id,
        combination_id,
    from scores.winners
),

recall as (
    select
        case_id,
        combination_id,
        required_count,
        completed_count,
        confirmed_count,
    from metrics.required_call_recall
)

select
    pair_id::bigint as pair_id,                     -- the run and the judgment being paired
    1::integer as check_position,                   -- place in the report, from 1
    'required-calls'::varchar as check_name,        -- the check
    (case
        when required_count = 0 then 'unknown'
        when completed_count < required_count then 'fail'
        when confirmed_count < required_count then 'unknown'
        else 'pass'
    end)::varchar as status,                        -- pass, fail or unknown
    (case
        when required_count = 0 then 'nothing was required'
        when completed_count < required_count
            then format('{} of {} required calls completed', completed_count, required_count)
        when confirmed_count < required_count
            then format(
                'outcomes were recorded for {} of {} required calls', confirmed_count, required_count
            )
        else format('{} of {} required calls completed', completed_count, required_count)
    end)::varchar as detail,                        -- why, in a few words
from pair_cases
inner join winners using (case_id)
inner join recall using (case_id, combination_id)
