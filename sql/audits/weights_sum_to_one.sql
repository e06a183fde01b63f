-- The weights of a judgment are at least 0 and sum to 1.
-- guards: judgment.judgments
-- mend: Mend the weights in the contract or under grading in the project file.
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

-- A weight that is missing makes the sum null, which is no sum of 1 either.
select judgment_id
from judgments
where
    (
        abs(weight_selection + weight_arguments + weight_sequence + weight_redundancy + weight_recall - 1) <= 1e-9
        and least(weight_selection, weight_arguments, weight_sequence, weight_redundancy, weight_recall) >= 0
    ) is not true
