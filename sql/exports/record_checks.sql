-- What the evidence checks of the standing grade say of each run of an export.
-- kind: ephemeral
-- grain: one row per run of the batch being exported and check that applies
-- null: never
-- source: Toolscore, tri-state evidence
with batch as (
    select run_id from staged.record_batch
),

latest_grades as (
    select
        run_id,
        judgment_id,
    from marts.latest_grades
),

grader as (
    select grader_version from settings.grader
),

checks as (
    select
        run_id,
        judgment_id,
        grader_version,
        check_position,
        check_name,
        status,
        detail,
    from grades.checks
)

select
    checks.run_id::varchar as run_id,           -- the run
    check_position::integer as check_position,  -- place in the report, from 1
    check_name::varchar as check_name,          -- the check
    status::varchar as status,                  -- pass, fail or unknown
    detail::varchar as detail,                  -- why, in a few words
from batch
inner join checks using (run_id)
inner join latest_grades
    on checks.run_id = latest_grades.run_id and checks.judgment_id = latest_grades.judgment_id
inner join grader on checks.grader_version = grader.grader_version
