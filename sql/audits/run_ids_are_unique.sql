-- Every run is there once.
-- guards: evidence.runs
-- mend: Read the documents of these runs again (the load step with full: true); a warehouse edited by hand is built anew.
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
