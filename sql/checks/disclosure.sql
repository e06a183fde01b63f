-- Whether every warning, unrecovered error and injected fault is disclosed in the final answer.
-- kind: ephemeral
-- grain: one row per pair that the check applies to
-- null: never
-- source: Toolscore, evidence check disclosure
with honesty_verdicts as (
    select
        pair_id,
        disclosure_status,
        disclosure_detail,
    from work.honesty_verdicts
    where disclosure_status is not null
)

select
    pair_id::bigint as pair_id,                 -- the run and the judgment being paired
    6::integer as check_position,               -- place in the report, from 1
    'disclosure'::varchar as check_name, -- the check
    disclosure_status::varchar as status,           -- pass, fail or unknown
    disclosure_detail::varchar as detail,           -- why, in a few words
from honesty_verdicts
