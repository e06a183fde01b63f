-- The version of the formulas that the current grades are made with.
-- kind: table
-- grain: one row
-- null: never
-- source: hash over the scoring SQL and the functions it calls
with grader as (
    select grader_version from staged.grader
)

select
    grader_version::varchar as grader_version,  -- hash over the scoring SQL and the functions it calls
from grader
