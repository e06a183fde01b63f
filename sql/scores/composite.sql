-- The composite score of every combination: weighted selection, arguments, sequence, redundancy and recall.
-- kind: ephemeral
-- grain: one row per case and combination
-- range: 0 to 1
-- null: never; a recall that does not exist, because nothing is required, counts as 1
-- source: Toolscore, composite score, in IEEE doubles and in this order of terms
with cases as (
    select
        case_id,
        judgment_id,
    from work.cases
),

judgments as (
    select
        judgment_id,
        weight_selection,
        weight_arguments,
        weight_sequence,
        weight_redundancy,
        weight_recall,
    from judgment.judgments
),

selection_accuracy as (
    select
        case_id,
        combination_id,
        selection_accuracy,
    from metrics.selection_accuracy
),

arguments as (
    select
        case_id,
        combination_id,
        argument_f1,
    from metrics.arguments
),

sequences as (
    select
        case_id,
        combination_id,
        sequence_accuracy,
    from metrics.sequence
),

efficiency as (
    select
        case_id,
        combination_id,
        redundant_rate,
    from metrics.efficiency
),

recall as (
    select
        case_id,
        combination_id,
        required_call_recall,
    from metrics.required_call_recall
)

select
    case_id::bigint as case_id,                 -- the case
    combination_id::integer as combination_id,  -- the combination of alternatives scored, from 0
    -- Weights divided by their sum may add up to a rounding error more than 1.
    least(
        weight_selection * selection_accuracy
        + weight_arguments * argument_f1
        + weight_sequence * sequence_accuracy
        + weight_redundancy * (1 - redundant_rate)
        + weight_recall * coalesce(required_call_recall, 1),
        1
    )::double as score,                         -- composite score, 0 to 1
from cases
inner join judgments using (judgment_id)
inner join selection_accuracy using (case_id)
inner join arguments using (case_id, combination_id)
inner join sequences using (case_id, combination_id)
inner join efficiency using (case_id, combination_id)
inner join recall using (case_id, combination_id)
