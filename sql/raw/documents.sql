-- Every file or query that runs were read from, with the hash of its bytes.
-- kind: incremental
-- key: source, path
-- grain: one row per source and path
-- null: error and format where they do not apply
-- source: the loader
with documents as (
    select
        document_id,
        source,
        path,
        sha256,
        bytes,
        modified_ns,
        format,
        loader_version,
        run_count,
        reject_count,
        error,
        warnings,
    from staged.documents
)

select
    document_id::varchar as document_id,        -- SHA-256 of its bytes
    source::varchar as source,                  -- the source of the project file it belongs to
    path::varchar as path,                      -- its path, or the name of its query
    sha256::varchar as sha256,                  -- SHA-256 of its bytes
    bytes::bigint as bytes,                     -- its size
    modified_ns::bigint as modified_ns,         -- when the file was last changed, in nanoseconds since 1970; 0 for a query
    format::varchar as format,                  -- the trace format it was read as; several joined by a comma
    loader_version::varchar as loader_version,  -- hash of the code that read it
    run_count::integer as run_count,            -- runs found in it
    reject_count::integer as reject_count,      -- records that could not be read
    error::varchar as error,                    -- why nothing could be read from it
    warnings::varchar[] as warnings,            -- what was odd about it
from documents
