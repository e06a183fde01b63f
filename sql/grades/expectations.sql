-- Each expected call of the winning combination beside the call that stands for it.
-- kind: incremental
-- key: run_id, judgment_id, grader_version
-- grain: one row per run, judgment, grader version and expected call
-- null: call_index when no call of the tool was left for it
-- source: Toolscore, argument metrics; one to one within each tool
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

grader as (
    select grader_version from settings.grader
),

expectations as (
    select
        case_id,
        position,
        tool,
        pattern_id,
        is_checked,
        call_index,
        is_failed,
        expected_args_count,
        met_args_count,
        missing_args,
        different_args,
        unexpected_args,
    from scores.expectations
)

select
    run_id::varchar as run_id,                              -- the run
    judgment_id::varchar as judgment_id,                    -- the judgment it was held against
    grader_version::varchar as grader_version,              -- the version of the formulas
    position::integer as position,                          -- place among the expected calls, from 0
    tool::varchar as tool,                                  -- the tool expected
    pattern_id::varchar as pattern_id,                      -- the tool and arguments expected, as declared
    is_checked::boolean as is_checked,                      -- whether its arguments are checked
    call_index::integer as call_index,                      -- the call that stands for it, by its place in the run
    is_failed::boolean as is_failed,                        -- whether that call failed
    expected_args_count::integer as expected_args_count,    -- arguments expected
    met_args_count::integer as met_args_count,              -- arguments met
    missing_args::varchar[] as missing_args,                -- expected and not given
    different_args::varchar[] as different_args,            -- given, with another value
    unexpected_args::varchar[] as unexpected_args,          -- given and not expected
from pairs
inner join pair_cases using (pair_id)
inner join expectations using (case_id)
cross join grader
