-- Every run of every comparison: under which variant it counts, and how it came out.
-- kind: table
-- grain: one row per comparison and run
-- null: cost and latency where the run does not hold them, or holds a billion and more
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
        runs.path,
        runs.locator,
    from comparisons
    inner join runs on comparisons.source is null or runs.source = comparisons.source
    left join latest_grades using (run_id)
),

-- Few runs are recorded twice: only these need to be put in order. The hash only narrows down.
find_repeated as (
    select hash(comparison, variant, task, configuration, repetition) as identity_hash
    from name_variants
    where repetition is not null
    group by all
    having count(*) > 1
),

-- The record first made counts; a run without a repetition is told apart by its id alone.
order_records as (
    select
        comparison,
        run_id,
        row_number() over (
            partition by comparison, variant, task, configuration, repetition
            order by started_at asc nulls last, path asc, length(locator) asc, locator asc, run_id asc
        ) as record_number,
    from name_variants
    where
        repetition is not null
        and hash(comparison, variant, task, configuration, repetition) in (
            select identity_hash from find_repeated
        )
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
    from name_variants
    left join find_repeats using (comparison, run_id)
    where variant is not null
)

select
    comparison::varchar as comparison,           -- the comparison
    run_id::varchar as run_id,                   -- the run
    variant::varchar as variant,                 -- the variant it counts under
    task::varchar as task,                       -- its task; empty when not recorded
    repetition::bigint as repetition,            -- the how manieth run of the task
    configuration::varchar as configuration,     -- its arm and model as recorded
    (case
        when outcome in ('pass', 'fail', 'error') then outcome
        else 'unknown'
    end)::varchar as outcome,                    -- pass, fail, error or unknown
    if(abs(cost_usd) < 1e9, cost_usd, null)::double as cost_usd, -- cost of the run in US dollars
    if(abs(duration_seconds) < 1e9, duration_seconds, null)::double as latency_seconds, -- wall-clock seconds of the run
    started_at::timestamptz as started_at,       -- when it began (UTC)
    (not is_repeat)::boolean as is_counted,      -- false for a further record of a run that is counted already
from mark_repeats
