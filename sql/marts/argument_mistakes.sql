-- Which arguments agents get wrong: left out, given another value, or given unasked.
-- kind: view
-- grain: one row per source, variant, contract, tool, argument and kind of mistake
-- range: rates 0 to 1
-- null: never
-- source: the expectations of the standing grades; names of arguments only, no values
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
        missing_args,
        different_args,
        unexpected_args,
    from grades.expectations
    where is_checked and call_index is not null
),

stand as (
    select
        run_id,
        contract,
        coalesce(source, '') as source,
        coalesce(variant, '') as variant,
        tool,
        missing_args,
        different_args,
        unexpected_args,
    from latest_grades
    inner join grades using (grade_id)
    inner join expectations using (run_id, judgment_id, grader_version)
),

count_calls as (
    select
        source,
        variant,
        contract,
        tool,
        count(*) as call_count,
    from stand
    group by all
),

list_mistakes as (
    select
        run_id,
        source,
        variant,
        contract,
        tool,
        'missing' as mistake,
        unnest(missing_args) as argument,
    from stand
    union all
    select
        run_id,
        source,
        variant,
        contract,
        tool,
        'different' as mistake,
        unnest(different_args) as argument,
    from stand
    union all
    select
        run_id,
        source,
        variant,
        contract,
        tool,
        'unexpected' as mistake,
        unnest(unexpected_args) as argument,
    from stand
),

count_mistakes as (
    select
        source,
        variant,
        contract,
        tool,
        argument,
        mistake,
        count(*) as mistake_count,
        count(distinct run_id) as run_count,
    from list_mistakes
    group by all
)

select
    source::varchar as source,                                  -- the source of the runs; empty when not recorded
    variant::varchar as variant,                                -- their variant; empty when not recorded
    contract::varchar as contract,                              -- name of the contract
    tool::varchar as tool,                                      -- the tool expected
    argument::varchar as argument,                              -- name of the argument
    mistake::varchar as mistake,                                -- missing, different or unexpected
    mistake_count::bigint as mistake_count,                     -- calls with this mistake
    run_count::bigint as run_count,                             -- runs with this mistake
    call_count::bigint as call_count,                           -- calls that stand for an expected call of the tool and are checked
    (mistake_count / call_count)::double as mistake_rate,       -- share of them with this mistake
from count_mistakes
inner join count_calls using (source, variant, contract, tool)
