-- A score is a number from 0 to 1, and the best of its combinations.
-- guards: grades.grades
-- mend: Grade these pairs anew (the grade step with full: true); when that does not help, a formula of sql/scores or sql/metrics is wrong.
with grades as (
    select
        run_id,
        judgment_id,
        score,
        combination_scores,
    from grades.grades
)

select
    run_id,
    judgment_id,
    score,
from grades
where
    score is null
    or isnan(score)
    or score < -1e-9
    or score > 1 + 1e-9
    or score is distinct from list_max(combination_scores)
