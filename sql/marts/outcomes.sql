-- Every run of every comparison: under which variant it counts, and how it came out.
-- kind: table
-- grain: one row per comparison and run
-- null: cost and latency where the run does not hold them
-- source: Toolscore, comparing runs; a run listed twice is reported and counted once
with comparisons as (
    select
        comparison,
        variant_key,
        outcome_basis,
        source,
    from settings.comparisons
),

runs as (
    select
        run_id,
        source,
        path,
        locator,
        task,
        variant,
        model,
        repetition,
        recorded_outcome,
        cost_usd,
        duration_seconds,
        started_at,
        attributes_json,
    from evidence.runs
),

latest_grades as (
    select
        run_id,
        outcome,
    from marts.latest_grades
),

name_variants as (
    select
        comparisons.comparison,
        runs.run_id,
        case
            when comparisons.variant_key is null or comparisons.variant_key = 'variant' then runs.variant
            when comparisons.variant_key = 'model' then runs.model
            else json_extract_string(runs.attributes_json, json_pointer(comparisons.variant_key))
        end as variant,
        coalesce(runs.task, '') as task,
        runs.repetition,
        -- Repetition 0 of two models is two runs, also where both count under one variant.
        concat_ws('/', runs.variant, runs.model) as configuration,
        case
            when comparisons.outcome_basis = 'recorded' then runs.recorded_outcome
            else coalesce(latest_grades.outcome, runs.recorded_outcome)
        end as outcome,
        runs.cost_usd,
        runs.duration_seconds,
        runs.started_at,
    from comparisons
    inner join runs on comparisons.source is null or runs.source = comparisons.source
    left join latest_grades using (run_id)
),

-- Few runs are recorded twice: only these need to be put in order. The hash only narrows down.
hash_identities as (
    select
        comparison,
        run_id,
        variant,
        task,
        repetition,
        configuration,
        outcome,
        cost_usd,
        duration_seconds,
        started_at,
        case
            when repetition is not null
                then hash(comparison, variant, task, configuration, repetition)
        end as identity_hash,
    from name_variants
    where variant is not null
),

find_repeated as (
    select identity_hash
    from hash_identities
    where identity_hash is not null
    group by all
    having count(*) > 1
),

-- The record first made counts; a run without a repetition is told apart by its id alone.
order_records as (
    select
        hash_identities.comparison,
        run_id,
        row_number() over (
            partition by
                hash_identities.comparison,
                hash_identities.variant,
                hash_identities.task,
                hash_identities.configuration,
                hash_identities.repetition
            order by
                runs.started_at asc nulls last, runs.path asc,
                length(runs.locator) asc, runs.locator asc, run_id asc
        ) as record_number,
    from hash_identities
    semi join find_repeated using (identity_hash)
    inner join runs using (run_id)
),

find_repeats as (
    select
        comparison,
        run_id,
    from order_records
    where record_number > 1
),

mark_repeats as (
    select
        comparison,
        run_id,
        variant,
        task,
        repetition,
        configuration,
        outcome,
        cost_usd,
        duration_seconds,
        started_at,
        find_repeats.run_id is not null as is_repeat,
    from hash_identities
    left join find_repeats using (comparison, run_id)
)

select
    comparison::varchar as comparison,           -- the comparison
    run_id::varchar as run_id,                   -- the run
    variant::varchar as variant,                 -- the variant it counts under
    task::varchar as task,                       -- its task; empty when not recorded
    repetition::integer as repetition,           -- the how manieth run of the task
    configuration::varchar as configuration,     -- its arm and model as recorded
    (case
        when outcome in ('pass', 'fail', 'error') then outcome
        else 'unknown'
    end)::varchar as outcome,                    -- pass, fail, error or unknown
    cost_usd::double as cost_usd,                -- cost of the run in US dollars
    duration_seconds::double as latency_seconds, -- wall-clock seconds of the run
    started_at::timestamptz as started_at,       -- when it began (UTC)
    (not is_repeat)::boolean as is_counted,      -- false for a further record of a run that is counted already
from mark_repeats
