-- The cases to be scored: one pair for all that are alike.
-- kind: ephemeral
-- grain: one row per case
-- null: never
-- source: what is scored once holds for every pair of the case
with pair_cases as (
    select case_id
    from work.pair_cases
    where pair_id = case_id
),

pairs as (
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
)

select
    case_id::bigint as case_id,             -- the case
    judgment_id::varchar as judgment_id,    -- the judgment of all its pairs
    is_strict::boolean as is_strict,        -- whether values are compared type and all
from pair_cases
inner join pairs on pair_cases.case_id = pairs.pair_id
inner join judgments using (judgment_id)
