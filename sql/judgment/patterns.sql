-- Each tool with arguments that any judgment declares, once.
-- kind: incremental
-- key: pattern_id
-- grain: one row per pattern
-- null: args_json when arguments are not checked
-- source: the compiled judgments
with patterns as (
    select
        pattern_id,
        tool,
        is_checked,
        args_count,
        args_json,
    from staged.patterns
)

select
    pattern_id::varchar as pattern_id,  -- SHA-256 of tool and arguments as declared
    tool::varchar as tool,              -- the tool
    is_checked::boolean as is_checked,  -- whether arguments are checked
    args_count::integer as args_count,  -- arguments declared
    args_json::varchar as args_json,    -- the arguments as declared, as JSON
from patterns
