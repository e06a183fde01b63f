-- A finding about a call names one that the run has.
-- guards: grades.findings
-- mend: Grade these runs anew (the grade step with full: true); when that does not help, a model of sql/safety is wrong.
with findings as (
    select
        run_id,
        judgment_id,
        grader_version,
        call_index,
    from grades.findings
    where call_index is not null
),

grades as (
    select
        run_id,
        judgment_id,
        grader_version,
        call_count,
    from grades.grades
)

select
    run_id,
    judgment_id,
    call_index,
from findings
left join grades using (run_id, judgment_id, grader_version)
where call_count is null or call_index < 0 or call_index >= call_count
