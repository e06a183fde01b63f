-- The whole report of each comparison, and what to know before believing it.
-- kind: table
-- after: marts.task_stats, marts.outcomes, settings.comparisons
-- grain: one row per comparison
-- null: never
-- source: Toolscore, comparing runs
with comparison_reports as (
    select
        comparison,
        notes,
        report_json,
    from staged.comparison_reports
)

select
    comparison::varchar as comparison,   -- the comparison
    notes::varchar[] as notes,           -- what a reader must know before believing the numbers
    report_json::varchar as report_json, -- the report as canonical JSON, with selection and protocol
from comparison_reports
