-- How many of a pattern's arguments a call's arguments meet, in each way of comparing.
-- kind: ephemeral
-- grain: one row per pattern, argument text and strictness that were compared
-- null: never
-- source: contracts v2, argument matchers and value comparison
with candidates as (
    select
        pattern_id,
        args_id,
        is_strict,
    from work.candidates
),

pattern_args as (
    select
        pattern_id,
        name,
        is_matcher,
        matcher_json,
        strict_key,
        plain_key,
        lenient_key,
    from judgment.pattern_args
),

argument_values as (
    select
        args_id,
        name,
        value_json,
        strict_key,
        plain_key,
        lenient_key,
    from work.argument_values
),

compare_values as (
    select
        pattern_id,
        args_id,
        is_strict,
        name,
        is_matcher,
        matcher_json,
        value_json,
        pattern_args.strict_key = argument_values.strict_key as is_strict_equal,
        pattern_args.plain_key = argument_values.plain_key as is_plain_equal,
        pattern_args.lenient_key = argument_values.lenient_key as is_lenient_equal,
    from candidates
    inner join pattern_args using (pattern_id)
    left join argument_values using (args_id, name)
),

decide_matchers as (
    select
        matcher_json,
        value_json,
        is_strict,
        match_value(matcher_json, value_json, is_strict) as is_match,
        true as is_decided,
    from (
        select distinct
            matcher_json,
            value_json,
            is_strict,
        from compare_values
        where is_matcher and value_json is not null
    )
),

judge_values as (
    select
        pattern_id,
        args_id,
        is_strict,
        name,
        value_json is null as is_missing,
        case
            when is_matcher then is_match
            when is_strict then is_strict_equal
            else is_lenient_equal
        end as is_met,
        if(is_matcher, is_match, is_plain_equal) as is_met_in_place,
        is_matcher and is_decided and is_match is null as is_undecided,
    from compare_values
    left join decide_matchers using (matcher_json, value_json, is_strict)
)

select
    pattern_id::varchar as pattern_id,                          -- the tool and arguments declared
    args_id::bigint as args_id,                                 -- the arguments compared with it
    is_strict::boolean as is_strict,                            -- whether values were compared type and all
    count(*) filter (where is_met)::integer as met_count,       -- declared arguments that are met
    count(*) filter (where is_met_in_place)::integer as met_in_place_count, -- the same without trimming, for the trajectory
    count(*) filter (where is_undecided)::integer as undecided_count, -- declared arguments whose pattern ran out of time
    (list_sort(list(name) filter (where is_missing)))::varchar[] as missing_names, -- declared arguments that were not given
    (list_sort(list(name) filter (where not is_missing and is_met is not true)))::varchar[] as different_names, -- declared arguments that were given otherwise
from judge_values
group by all
