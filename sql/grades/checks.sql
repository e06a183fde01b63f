-- The index of evidence: what every check said of every graded run.
-- kind: incremental
-- key: run_id, judgment_id, grader_version
-- grain: one row per run, judgment, grader version and check that applies
-- null: never
-- source: Toolscore, tri-state evidence
with pairs as (
    select
        pair_id,
        run_id,
        judgment_id,
    from work.pairs
),

grader as (
    select grader_version from settings.grader
),

checks as (
    select
        pair_id,
        check_position,
        check_name,
        status,
        detail,
    from checks.all
)

select
    run_id::varchar as run_id,                          -- the run
    judgment_id::varchar as judgment_id,                -- the judgment it was held against
    grader_version::varchar as grader_version,          -- the version of the formulas
    check_position::integer as check_position,          -- place in the report, from 1
    check_name::varchar as check_name,                  -- the check
    -- The vocabulary is closed: any other word fails here.
    (status::enum('pass', 'fail', 'unknown'))::varchar as status, -- pass, fail or unknown
    detail::varchar as detail,                          -- why, in a few words
from pairs
inner join checks using (pair_id)
cross join grader
