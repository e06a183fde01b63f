-- Which expected calls agents leave out, or make in vain.
-- kind: view
-- grain: one row per source, variant, contract and tool with an expected call that was missed or failed
-- range: rates 0 to 1
-- null: source and variant where the record does not hold them
-- source: the expectations of the standing grades, for the combination that won
with latest_grades as (
    select
        run_id,
        judgment_id,
        grade_id,
        contract,
        source,
        variant,
    from marts.latest_grades
),

grades as (
    select
        grade_id,
        grader_version,
    from grades.grades
),

expectations as (
    select
        run_id,
        judgment_id,
        grader_version,
        tool,
        call_index,
        is_failed,
    from grades.expectations
),

add_up as (
    select
        source,
        variant,
        contract,
        tool,
        count(*) as expected_count,
        count(*) filter (where call_index is null) as missed_count,
        count(*) filter (where call_index is not null and is_failed) as failed_count,
        count(distinct run_id) filter (where call_index is null or is_failed) as run_count,
    from latest_grades
    inner join grades using (grade_id)
    inner join expectations using (run_id, judgment_id, grader_version)
    group by all
)

select
    source::varchar as source,                                  -- the source of the runs
    variant::varchar as variant,                                -- their variant
    contract::varchar as contract,                              -- name of the contract
    tool::varchar as tool,                                      -- the tool expected
    expected_count::bigint as expected_count,                   -- expected calls over all runs
    missed_count::bigint as missed_count,                       -- of those, never made
    failed_count::bigint as failed_count,                       -- of those, made and known to have failed
    run_count::bigint as run_count,                             -- runs that missed one or made one in vain
    (missed_count / expected_count)::double as missed_rate,     -- share of the expected calls never made
from add_up
where missed_count + failed_count > 0
