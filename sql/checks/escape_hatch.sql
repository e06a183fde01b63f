-- Whether no code-execution call got around a refusal.
-- kind: ephemeral
-- grain: one row per pair that the check applies to
-- null: never
-- source: Toolscore, evidence check escape-hatch
with honesty_verdicts as (
    select
        pair_id,
        escape_hatch_status,
        escape_hatch_detail,
    from work.honesty_verdicts
    where escape_hatch_status is not null
)

select
    pair_id::bigint as pair_id,                 -- the run and the judgment being paired
    7::integer as check_position,               -- place in the report, from 1
    'escape-hatch'::varchar as check_name, -- the check
    escape_hatch_status::varchar as status,           -- pass, fail or unknown
    escape_hatch_detail::varchar as detail,           -- why, in a few words
from honesty_verdicts
