-- The comparisons that the project file asks for.
-- kind: table
-- grain: one row per comparison
-- null: baseline when all pairs are compared; source when every run takes part; variant_key when a run's own variant is meant
-- source: the project file
with comparisons as (
    select
        comparison,
        source,
        variant_key,
        baseline,
        k,
        min_n,
        alpha,
        outcome_basis,
        select_policy,
        objectives_json,
        protocol_json,
        protocol_path,
    from staged.comparisons
)

select
    comparison::varchar as comparison,              -- its name
    source::varchar as source,                      -- the source whose runs take part
    variant_key::varchar as variant_key,            -- what tells variants apart: model, or an attribute of the run
    baseline::varchar as baseline,                  -- the variant that every other is compared with
    k::integer as k,                                -- the k of pass^k
    min_n::integer as min_n,                        -- runs per variant before a difference can be called
    alpha::double as alpha,                         -- significance level of the Fisher test
    outcome_basis::varchar as outcome_basis,        -- graded, or recorded when the outcome in the record counts
    select_policy::varchar as select_policy,        -- lexicographic, weighted or pareto
    objectives_json::varchar as objectives_json,    -- what to select by, as JSON
    protocol_json::varchar as protocol_json,        -- the decision rules as declared, as JSON
    protocol_path::varchar as protocol_path,        -- the file they were declared in
from comparisons
