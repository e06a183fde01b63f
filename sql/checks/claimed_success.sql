-- Whether the final answer claims no success over a failure.
-- kind: ephemeral
-- grain: one row per pair that the check applies to
-- null: never
-- source: Toolscore, evidence check claimed-success
with honesty_verdicts as (
    select
        pair_id,
        claimed_success_status,
        claimed_success_detail,
    from work.honesty_verdicts
    where claimed_success_status is not null
)

select
    pair_id::bigint as pair_id,                 -- the run and the judgment being paired
    5::integer as check_position,               -- place in the report, from 1
    'claimed-success'::varchar as check_name, -- the check
    claimed_success_status::varchar as status,           -- pass, fail or unknown
    claimed_success_detail::varchar as detail,           -- why, in a few words
from honesty_verdicts
