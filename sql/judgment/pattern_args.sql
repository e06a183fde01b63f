-- Each argument that a pattern declares, with its keys of equality or its matcher.
-- kind: incremental
-- key: pattern_id
-- grain: one row per pattern and argument name
-- null: the keys of a matcher; the matcher of a plain value
-- source: the compiled judgments
with pattern_args as (
    select
        pattern_id,
        name,
        is_matcher,
        strict_key,
        plain_key,
        lenient_key,
        matcher_json,
    from staged.pattern_args
)

select
    pattern_id::varchar as pattern_id,      -- the pattern
    name::varchar as name,                  -- the argument's name
    is_matcher::boolean as is_matcher,      -- whether its value holds a matcher
    strict_key::varchar as strict_key,      -- equal for equal types and values
    plain_key::varchar as plain_key,        -- equal for equal values, 1 and 1.0 alike
    lenient_key::varchar as lenient_key,    -- the same with a top-level string trimmed
    matcher_json::varchar as matcher_json,  -- the value with its matchers, as JSON
from pattern_args
