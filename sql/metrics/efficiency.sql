-- Calls that were not needed, repeated, failed, or retried unchanged.
-- kind: ephemeral
-- grain: one row per case and combination
-- unit: calls; rates 0 to 1
-- null: never; without calls every count and rate is 0
-- source: Toolscore, efficiency metrics
with combinations as (
    select
        case_id,
        combination_id,
    from work.combinations
),

tool_counts as (
    select
        case_id,
        combination_id,
        expected_count,
        called_count,
    from work.tool_counts
),

scored_calls as (
    select
        case_id,
        combination_id,
        position,
        tool,
        args_id,
        is_failed,
    from work.scored_calls
),

count_redundant as (
    select
        case_id,
        combination_id,
        sum(called_count) as call_count,
        sum(greatest(called_count - expected_count, 0)) as redundant_count,
    from tool_counts
    group by all
),

-- Calls without recorded arguments are not known to be alike: each gets a number of its own.
identify_calls as (
    select
        case_id,
        combination_id,
        position,
        tool,
        coalesce(args_id, -1 - position) as args_key,
        is_failed is true as is_failed,
    from scored_calls
),

count_repeats as (
    select
        case_id,
        combination_id,
        sum(group_count - 1) as identical_count,
        sum(failed_count) as error_count,
    from (
        select
            case_id,
            combination_id,
            tool,
            args_key,
            count(*) as group_count,
            count(*) filter (where is_failed) as failed_count,
        from identify_calls
        group by all
    )
    group by all
),

count_retries as (
    select
        retry.case_id,
        retry.combination_id,
        count(*) as retry_count,
    from identify_calls as failure
    inner join identify_calls as retry
        on
            failure.case_id = retry.case_id
            and failure.combination_id = retry.combination_id
            and failure.position + 1 = retry.position
            and failure.tool = retry.tool
            and failure.args_key = retry.args_key
    where failure.is_failed
    group by all
)

select
    case_id::bigint as case_id,                                     -- the case
    combination_id::integer as combination_id,                      -- the combination of alternatives scored, from 0
    coalesce(call_count, 0)::integer as total_calls,                -- scored calls
    coalesce(redundant_count, 0)::integer as redundant_count,       -- calls beyond the number expected of their tool
    coalesce(redundant_count / nullif(call_count, 0), 0)::double as redundant_rate, -- redundant calls / calls
    coalesce(identical_count, 0)::integer as identical_count,       -- calls that repeat an earlier one, tool and arguments
    coalesce(identical_count / call_count, 0)::double as identical_rate, -- identical calls / calls
    coalesce(error_count, 0)::integer as error_count,               -- calls known to have failed
    coalesce(error_count / call_count, 0)::double as error_rate,    -- failed calls / calls
    coalesce(retry_count, 0)::integer as retry_after_error_count,   -- calls that repeat the call just before, which failed
from combinations
left join count_redundant using (case_id, combination_id)
left join count_repeats using (case_id, combination_id)
left join count_retries using (case_id, combination_id)
