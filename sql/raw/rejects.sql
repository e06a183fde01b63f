-- Every record that could not be read, with its place and the reason.
-- kind: incremental
-- key: path
-- grain: one row per record refused
-- null: line and json_path where the format has none
-- source: the loader
with rejects as (
    select
        document_id,
        path,
        line,
        json_path,
        reason,
        excerpt,
    from staged.rejects
)

select
    document_id::varchar as document_id,  -- the document it stands in
    path::varchar as path,                -- the path of that document
    line::integer as line,                -- its line, from 1
    json_path::varchar as json_path,      -- where in the document
    reason::varchar as reason,            -- why it was refused
    excerpt::varchar as excerpt,          -- how it begins, with values masked
from rejects
