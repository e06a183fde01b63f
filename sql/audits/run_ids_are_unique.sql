-- Every run is there once.
-- guards: evidence.runs
with runs as (
    select run_id
    from evidence.runs
)

select
    run_id,
    count(*) as row_count,
from runs
group by all
having count(*) > 1
