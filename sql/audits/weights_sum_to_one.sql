-- The weights of a judgment are at least 0 and sum to 1.
-- guards: judgment.judgments
with judgments as (
    select
        judgment_id,
        weight_selection,
        weight_arguments,
        weight_sequence,
        weight_redundancy,
        weight_recall,
    from judgment.judgments
)

select judgment_id
from judgments
where
    abs(weight_selection + weight_arguments + weight_sequence + weight_redundancy + weight_recall - 1) > 1e-9
    or least(weight_selection, weight_arguments, weight_sequence, weight_redundancy, weight_recall) < 0
