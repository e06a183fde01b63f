-- No record was set aside while loading.
-- guards: raw.rejects
-- severity: warn
with rejects as (
    select
        path,
        line,
        reason,
    from raw.rejects
)

select
    path,
    line,
    reason,
from rejects
