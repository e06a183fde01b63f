-- Whether every declared side effect was found where it was looked for; only where some are declared.
-- kind: ephemeral
-- grain: one row per pair whose winning combination declares side effects
-- null: never
-- source: Toolscore, evidence check side-effects; probed once, when the run was first evaluated
with pairs as (
    select
        pair_id,
        run_id,
        judgment_id,
    from work.pairs
),

pair_cases as (
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

side_effects as (
    select
        judgment_id,
        combination_id,
        kind,
        spec_json,
    from judgment.side_effects
),

runs as (
    select
        run_id,
        probes_json,
    from evidence.runs
    where probes_json is not null
),

open_probes as (
    select
        run_id,
        unnest(from_json(probes_json, '[{"kind":"varchar","spec":"json","status":"varchar"}]')) as probe,
    from runs
),

-- The same thing probed twice counts as it came out worse.
settle_probes as (
    select
        run_id,
        probe.kind as kind,
        probe.spec::varchar as spec_json,
        bool_or(probe.status = 'fail') as has_fail,
        bool_and(coalesce(probe.status, '') = 'pass') as has_pass,
    from open_probes
    group by all
),

match_probes as (
    select
        pair_id,
        coalesce(has_fail, false) as is_missing,
        coalesce(has_pass, false) as is_found,
    from pairs
    inner join pair_cases using (pair_id)
    inner join winners using (case_id)
    inner join side_effects using (judgment_id, combination_id)
    left join settle_probes using (run_id, kind, spec_json)
),

count_effects as (
    select
        pair_id,
        count(*) as declared_count,
        count(*) filter (where is_found) as found_count,
        count(*) filter (where is_missing) as missing_count,
    from match_probes
    group by all
)

select
    pair_id::bigint as pair_id,                     -- the run and the judgment being paired
    9::integer as check_position,                   -- place in the report, from 1
    'side-effects'::varchar as check_name,          -- the check
    (case
        when missing_count > 0 then 'fail'
        when found_count < declared_count then 'unknown'
        else 'pass'
    end)::varchar as status,                        -- pass, fail or unknown
    (case
        when missing_count > 0 then format('{} of {} declared side effects are not there', missing_count, declared_count)
        when found_count < declared_count
            then format('{} of {} declared side effects were probed', found_count, declared_count)
        else format('{} of {} declared side effects found', found_count, declared_count)
    end)::varchar as detail,                        -- why, in a few words
from count_effects
