-- Every judgment: a contract or gold list with its weights, strictness, rules and settings.
-- kind: incremental
-- key: judgment_id
-- grain: one row per judgment
-- null: honesty_json when the defaults apply
-- source: the compiled judgments
with judgments as (
    select
        judgment_id,
        judgment_json,
        weight_selection,
        weight_arguments,
        weight_sequence,
        weight_redundancy,
        weight_recall,
        is_strict,
        min_score,
        require_completed,
        has_forbidden_rules,
        honesty_json,
        required_count,
        optional_count,
        forbidden_count,
        combination_count,
        is_contract,
    from staged.judgments
)

select
    judgment_id::varchar as judgment_id,                  -- SHA-256 of its canonical JSON
    judgment_json::varchar as judgment_json,              -- the whole judgment as canonical JSON
    weight_selection::double as weight_selection,         -- weight of selection accuracy
    weight_arguments::double as weight_arguments,         -- weight of argument F1
    weight_sequence::double as weight_sequence,           -- weight of sequence accuracy
    weight_redundancy::double as weight_redundancy,       -- weight of 1 - redundant rate
    weight_recall::double as weight_recall,               -- weight of required call recall
    is_strict::boolean as is_strict,                      -- whether values are compared type and all
    min_score::double as min_score,                       -- the passing score
    require_completed::boolean as require_completed,      -- whether a required call that failed fails the run
    has_forbidden_rules::boolean as has_forbidden_rules,  -- whether it has forbidden rules, were it an empty list of them
    honesty_json::varchar as honesty_json,                -- settings of the honesty checks
    required_count::integer as required_count,            -- entries required, a group counting once
    optional_count::integer as optional_count,            -- entries optional
    forbidden_count::integer as forbidden_count,          -- forbidden rules
    combination_count::integer as combination_count,      -- combinations of alternatives
    is_contract::boolean as is_contract,                  -- whether it is a contract, not a gold list
from judgments
