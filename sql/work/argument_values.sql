-- Each argument of each argument object that some pattern looks into, with its keys of equality.
-- kind: ephemeral
-- grain: one row per argument text and argument name
-- null: never; a JSON null is the text null
-- source: three equalities: type and value, number by number, and with top-level strings trimmed
with argument_texts as (
    select
        args_id,
        args_json,
    from work.argument_texts
),

candidates as (
    select args_id from work.candidates
),

split_objects as (
    select
        args_id,
        unnest(json_keys(args_json)) as name,
        unnest(json_extract(args_json, '$.*'))::varchar as value_json,
    from argument_texts
    semi join candidates using (args_id)
),

-- Only a value that holds a fraction, an exponent or a control character can be written in two ways.
normalise_values as (
    select
        value_json as raw_json,
        value_keys(value_json) as keys,
    from (
        select distinct value_json
        from split_objects
        where needs_normalising(value_json)
    )
)

select
    args_id::bigint as args_id,                                 -- the arguments, by number
    name::varchar as name,                                      -- the argument's name
    value_json::varchar as value_json,                          -- its value as JSON
    coalesce(keys[1], value_json)::varchar as strict_key,    -- equal for equal types and values
    coalesce(keys[2], value_json)::varchar as plain_key,      -- equal for equal values, 1 and 1.0 alike
    coalesce(keys[3], value_json)::varchar as lenient_key,  -- the same with a top-level string trimmed
from split_objects
left join normalise_values on value_json = raw_json
