-- Argument objects that no pattern can tell apart, by a common number.
-- kind: ephemeral
-- grain: one row per distinct argument text
-- null: never
-- source: equal names and equal matches with every pattern they were compared with
with argument_texts as (
    select
        args_id,
        arg_names,
    from work.argument_texts
),

argument_matches as (
    select
        args_id,
        pattern_id,
        is_strict,
        met_count,
        met_in_place_count,
        undecided_count,
        missing_names,
        different_names,
    from work.argument_matches
),

list_matches as (
    select
        args_id,
        list_sort(list(struct_pack(
            pattern_id,
            is_strict,
            met_count,
            met_in_place_count,
            undecided_count,
            missing_names,
            different_names
        ))) as matches,
    from argument_matches
    group by all
),

join_matches as (
    select
        args_id,
        arg_names,
        matches,
    from argument_texts
    left join list_matches using (args_id)
),

-- A list that is unfolded again spares looking up every row by the lists it was grouped by.
gather_classes as (
    select
        list(args_id) as args_ids,
        min(args_id) as class_id,
    from join_matches
    group by
        arg_names,
        matches
)

select
    unnest(args_ids)::bigint as args_id,    -- the arguments, by number
    class_id::bigint as class_id,           -- the class they belong to, local to the chunk: its lowest number
from gather_classes
