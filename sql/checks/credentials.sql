-- Whether no credential was passed into a tool.
-- kind: ephemeral
-- grain: one row per pair
-- null: never
-- source: Toolscore, evidence check credentials; arguments that were not recorded or not scanned whole leave it unknown
with coverage as (
    select
        pair_id,
        call_count,
        call_count - args_count as unrecorded_count,
    from work.coverage
),

credentials as (
    select
        pair_id,
        severity,
    from safety.credentials
),

count_credentials as (
    select
        pair_id,
        count(*) filter (where severity = 'error') as credential_count,
        count(*) filter (where severity = 'unknown') as unscanned_count,
    from credentials
    group by all
)

select
    pair_id::bigint as pair_id,                     -- the run and the judgment being paired
    4::integer as check_position,                   -- place in the report, from 1
    'credentials'::varchar as check_name,           -- the check
    (case
        when credential_count > 0 then 'fail'
        when unscanned_count > 0 or unrecorded_count > 0 then 'unknown'
        else 'pass'
    end)::varchar as status,                        -- pass, fail or unknown
    (case
        when credential_count = 1 then '1 credential in tool arguments'
        when credential_count > 0 then format('{} credentials in tool arguments', credential_count)
        when unscanned_count > 0 then 'some arguments are too long to scan whole'
        when unrecorded_count > 0
            then format('arguments of {} of {} calls were not recorded', unrecorded_count, call_count)
        else 'no credential in tool arguments'
    end)::varchar as detail,                        -- why, in a few words
from coverage
left join count_credentials using (pair_id)
