-- The cost of a run's calls, over those that recorded one.
-- kind: ephemeral
-- grain: one row per pair
-- unit: US dollars
-- null: every figure when no call recorded a cost; a recorded 0 is 0
-- source: Toolscore, cost metrics; unknown is never 0
with coverage as (
    select
        pair_id,
        call_count,
        cost_count,
        costs,
    from work.coverage
)

select
    pair_id::bigint as pair_id,                                             -- the run and the judgment being paired
    (case
        when cost_count = 0 then 'unknown'
        when cost_count < call_count then 'partial'
        else 'measured'
    end)::varchar as cost_status,                                        -- measured, partial (some calls have a value) or unknown (none has)
    cost_count::integer as cost_known_count,               -- calls that have a value
    list_sum(costs)::double as total_cost_usd,               -- their sum
    (list_sum(costs) / nullif(cost_count, 0))::double as mean_cost_usd, -- their mean
    list_min(costs)::double as min_cost_usd,                 -- the smallest
    list_max(costs)::double as max_cost_usd,                 -- the largest
from coverage
