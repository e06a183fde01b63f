-- A run has as many calls as it says, numbered from 0 without a gap.
-- guards: evidence.calls
-- mend: Read the documents of these runs again (the load step with full: true); a warehouse edited by hand is built anew.
with runs as (
    select
        run_id,
        call_count,
    from evidence.runs
),

calls as (
    select
        run_id,
        call_index,
    from evidence.calls
),

count_calls as (
    select
        run_id,
        count(*) as row_count,
        min(call_index) as first_index,
        max(call_index) as last_index,
    from calls
    group by all
)

select
    run_id,
    call_count,
    row_count,
from runs
full join count_calls using (run_id)
where
    coalesce(call_count, -1) != coalesce(row_count, 0)
    or first_index != 0
    or last_index != row_count - 1
