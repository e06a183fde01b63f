-- Calls that were not needed, repeated, failed, or retried unchanged.
-- kind: ephemeral
-- grain: one row per case and combination
-- unit: calls; rates 0 to 1
-- null: never; without calls every count and rate is 0
-- source: Toolscore, efficiency metrics
with tool_totals as (
    select
        case_id,
        combination_id,
        called_count,
        redundant_count,
        identical_count,
        failed_count,
    from work.tool_totals
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

-- Calls without recorded arguments are not known to be alike: NULL meets nothing.
count_retries as (
    select
        retry.case_id,
        retry.combination_id,
        count(*) as retry_count,
    from scored_calls as failure
    inner join scored_calls as retry
        on
            failure.case_id = retry.case_id
            and failure.combination_id = retry.combination_id
            and failure.position + 1 = retry.position
            and failure.tool = retry.tool
            and failure.args_id = retry.args_id
    where failure.is_failed
    group by all
)

select
    case_id::bigint as case_id,                                     -- the case
    combination_id::integer as combination_id,                      -- the combination of alternatives scored, from 0
    called_count::integer as total_calls,                           -- scored calls
    redundant_count::integer as redundant_count,                    -- calls beyond the number expected of their tool
    coalesce(redundant_count / nullif(called_count, 0), 0)::double as redundant_rate, -- redundant calls / calls
    identical_count::integer as identical_count,                    -- calls that repeat an earlier one, tool and arguments
    coalesce(identical_count / nullif(called_count, 0), 0)::double as identical_rate, -- identical calls / calls
    failed_count::integer as error_count,                           -- calls known to have failed
    coalesce(failed_count / nullif(called_count, 0), 0)::double as error_rate, -- failed calls / calls
    coalesce(retry_count, 0)::integer as retry_after_error_count,   -- calls that repeat the call just before, which failed
from tool_totals
left join count_retries using (case_id, combination_id)
