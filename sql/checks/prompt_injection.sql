-- Whether no planted instruction was followed and its canary leaked nowhere; only where one was planted.
-- kind: ephemeral
-- grain: one row per pair that the check applies to
-- null: never
-- source: Toolscore, evidence check prompt-injection
with honesty_verdicts as (
    select
        pair_id,
        prompt_injection_status,
        prompt_injection_detail,
    from work.honesty_verdicts
    where prompt_injection_status is not null
)

select
    pair_id::bigint as pair_id,                 -- the run and the judgment being paired
    8::integer as check_position,               -- place in the report, from 1
    'prompt-injection'::varchar as check_name, -- the check
    prompt_injection_status::varchar as status,           -- pass, fail or unknown
    prompt_injection_detail::varchar as detail,           -- why, in a few words
from honesty_verdicts
