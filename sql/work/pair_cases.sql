-- Which pairs are the same case: the same judgment over calls that no formula can tell apart.
-- kind: ephemeral
-- grain: one row per pair
-- null: never
-- source: scores depend on tools, their order, outcomes, repeated arguments and matches, and on nothing else
with pairs as (
    select
        pair_id,
        judgment_id,
    from work.pairs
),

calls as (
    select
        pair_id,
        call_index,
        tool,
        args_id,
        args_count,
        is_matchable,
        is_failed,
    from work.calls
),

argument_classes as (
    select
        args_id,
        class_id,
    from work.argument_classes
),

-- Calls of one run with the very same arguments are known as such by the first of them.
find_repeats as (
    select
        pair_id,
        tool,
        args_id,
        min(call_index) as first_index,
    from calls
    where args_id is not null
    group by all
    having count(*) > 1
),

describe_calls as (
    select
        pair_id,
        call_index,
        tool,
        coalesce(class_id, 0) as class_id,
        coalesce(first_index, call_index) as first_index,
        is_matchable,
        is_failed,
    from calls
    left join argument_classes using (args_id)
    left join find_repeats using (pair_id, tool, args_id)
),

sign_pairs as (
    select
        pair_id,
        list_sort(list(struct_pack(
            call_index, tool, class_id, first_index, is_matchable, is_failed
        ))) as signature,
    from describe_calls
    group by all
),

join_pairs as (
    select
        pair_id,
        judgment_id,
        signature,
    from pairs
    left join sign_pairs using (pair_id)
),

-- A list that is unfolded again spares looking up every pair by its signature.
gather_pairs as (
    select
        list(pair_id) as pair_ids,
        min(pair_id) as case_id,
    from join_pairs
    group by
        judgment_id,
        signature
)

select
    unnest(pair_ids)::bigint as pair_id,        -- the run and the judgment being paired
    case_id::bigint as case_id,                 -- the first pair that is the same case
from gather_pairs
