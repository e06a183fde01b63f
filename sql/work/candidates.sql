-- Each declared pattern beside each distinct argument object it may have to be compared with.
-- kind: ephemeral
-- grain: one row per pattern, argument text and strictness
-- null: never
-- source: a pattern meets the calls of its own tool only
with pairs as (
    select
        pair_id,
        judgment_id,
    from work.pairs
),

judgments as (
    select
        judgment_id,
        is_strict,
    from judgment.judgments
),

calls as (
    select
        pair_id,
        tool,
        args_id,
    from work.calls
    where is_matchable and args_id is not null
),

expected_calls as (
    select
        judgment_id,
        pattern_id,
        tool,
    from judgment.expected_calls
),

optional_calls as (
    select
        judgment_id,
        pattern_id,
        tool,
    from judgment.optional_calls
),

forbidden_rules as (
    select
        judgment_id,
        pattern_id,
        tool,
    from judgment.forbidden_rules
),

patterns as (
    select pattern_id
    from judgment.patterns
    where is_checked and args_count > 0
),

collect_patterns as (
    select distinct
        judgment_id,
        pattern_id,
        tool,
    from (
        select * from expected_calls
        union all
        select * from optional_calls
        union all
        select * from forbidden_rules
    )
),

collect_arguments as (
    select distinct
        judgment_id,
        tool,
        args_id,
    from calls
    inner join pairs using (pair_id)
)

select distinct
    pattern_id::varchar as pattern_id,                          -- the tool and arguments declared
    args_id::bigint as args_id,                                 -- the arguments to compare with
    is_strict::boolean as is_strict,                            -- whether values are compared type and all
from collect_patterns
semi join patterns using (pattern_id)
inner join collect_arguments using (judgment_id, tool)
inner join judgments using (judgment_id)
