-- No record was set aside while loading.
-- guards: raw.rejects
-- severity: warn
-- mend: Mend the line of the file that is named, or take the file out of the source; it is read again when it changes.
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
