-- What each regrade changed: the grade that stood for a run before and after, and why they differ.
-- kind: table
-- grain: one row per edition and run whose standing grade came out otherwise
-- range: 0 to 1 for scores
-- null: a combination when the judgment has no alternatives
-- source: Toolscore, regrade; a run that had no grade in the edition before is new, not changed
with editions as (
    select
        edition,
        grader_version,
    from receipts.editions
),

edition_bindings as (
    select
        edition,
        judgment_id,
        name,
        task,
        task_pattern,
        variant,
        source,
    from receipts.edition_bindings
),

runs as (
    select
        run_id,
        source,
        task,
        variant,
        repetition,
    from evidence.runs
),

grades as (
    select
        run_id,
        judgment_id,
        grader_version,
        grade_id,
        score,
        grade,
        outcome,
        min_score,
        choices_json,
    from grades.grades
),

metrics as (
    select
        run_id,
        judgment_id,
        grader_version,
        selection_accuracy,
        argument_f1,
        sequence_accuracy,
        redundant_rate,
        required_call_recall,
        invocation_accuracy,
        tool_correctness,
        trajectory_accuracy,
    from grades.metrics
),

checks as (
    select
        run_id,
        judgment_id,
        grader_version,
        check_position,
        check_name,
        status,
    from grades.checks
),

judgments as (
    select
        judgment_id,
        judgment_json,
    from judgment.judgments
),

couple_editions as (
    select
        editions.edition,
        editions.grader_version,
        former.edition as former_edition,
        former.grader_version as former_version,
    from editions
    inner join editions as former on editions.edition = former.edition + 1
),

bind_editions as (
    select
        couple_editions.edition,
        edition_bindings.edition = couple_editions.edition as is_after,
        judgment_id,
        name,
        task,
        task_pattern,
        variant,
        source,
    from couple_editions
    inner join edition_bindings
        on edition_bindings.edition in (couple_editions.edition, couple_editions.former_edition)
),

-- A binding that is on one side only came or went.
find_moved_bindings as (
    select
        edition,
        judgment_id,
    from bind_editions
    group by edition, judgment_id, name, task, task_pattern, variant, source
    having count(distinct is_after) = 1
),

-- Only runs graded under a judgment that came or went, or by other formulas, can come out otherwise.
find_concerned as (
    select
        couple_editions.edition,
        grades.run_id,
    from find_moved_bindings
    inner join couple_editions using (edition)
    inner join grades
        on
            find_moved_bindings.judgment_id = grades.judgment_id
            and grades.grader_version
            in (couple_editions.grader_version, couple_editions.former_version)
    union
    select
        couple_editions.edition,
        grades.run_id,
    from couple_editions
    inner join grades using (grader_version)
    where grader_version != former_version
),

list_sides as (
    select
        edition,
        run_id,
        is_after,
        if(is_after, grader_version, former_version) as grader_version,
    from find_concerned
    inner join couple_editions using (edition)
    cross join (select unnest([true, false]) as is_after)
),

-- The same rules as for the judgments that apply now: exact tasks by a hash join, then patterns.
apply_bindings as (
    select
        list_sides.edition,
        list_sides.run_id,
        list_sides.is_after,
        judgment_id,
        name,
        8 + if(bound.variant is null, 0, 2) + if(bound.source is null, 0, 1) as specificity,
    from list_sides
    inner join runs using (run_id)
    inner join bind_editions as bound
        on
            list_sides.edition = bound.edition
            and list_sides.is_after = bound.is_after
            and runs.task = bound.task
    where
        (bound.variant is null or bound.variant = runs.variant)
        and (bound.source is null or bound.source = runs.source)
    union all
    select
        list_sides.edition,
        list_sides.run_id,
        list_sides.is_after,
        judgment_id,
        name,
        if(bound.task_pattern is null, 0, 4)
        + if(bound.variant is null, 0, 2) + if(bound.source is null, 0, 1) as specificity,
    from list_sides
    inner join runs using (run_id)
    inner join bind_editions as bound
        on
            list_sides.edition = bound.edition
            and list_sides.is_after = bound.is_after
    where
        bound.task is null
        and (bound.task_pattern is null or regexp_full_match(runs.task, bound.task_pattern))
        and (bound.variant is null or bound.variant = runs.variant)
        and (bound.source is null or bound.source = runs.source)
),

keep_most_specific as (
    select
        edition,
        run_id,
        is_after,
        judgment_id,
        max(specificity) as specificity,
        min(name) as contract,
    from apply_bindings
    group by all
),

choose_judgments as (
    select
        edition,
        run_id,
        is_after,
        judgment_id,
        contract,
    from keep_most_specific
    qualify row_number() over (
        partition by edition, run_id, is_after order by specificity desc, contract, judgment_id
    ) = 1
),

stand as (
    select
        edition,
        is_after,
        contract,
        grades.*,
    from choose_judgments
    inner join list_sides using (edition, run_id, is_after)
    inner join grades using (run_id, judgment_id, grader_version)
),

couple_grades as (
    select
        edition,
        run_id,
        after.contract,
        before.judgment_id as before_judgment_id,
        after.judgment_id as after_judgment_id,
        before.grader_version as before_version,
        after.grader_version as after_version,
        before.grade_id as before_grade_id,
        after.grade_id as after_grade_id,
        before.score as before_score,
        after.score as after_score,
        before.grade as before_grade,
        after.grade as after_grade,
        before.outcome as before_outcome,
        after.outcome as after_outcome,
        before.min_score as before_min_score,
        after.min_score as after_min_score,
        nullif(before.choices_json, '{}') as before_choices,
        nullif(after.choices_json, '{}') as after_choices,
    from stand as after
    inner join stand as before using (edition, run_id)
    where
        after.is_after
        and not before.is_after
        and after.grade_id != before.grade_id
),

-- One key and not three columns: from those it would be concluded that was and now have a run in
-- common, and every grade of a run would be joined with every other.
pack_metrics as materialized (
    select
        (run_id, judgment_id, grader_version) as graded,
        * exclude (run_id, judgment_id, grader_version),
    from metrics
    semi join couple_grades using (run_id)
),

list_metrics as (
    select
        edition,
        run_id,
        [
            struct_pack(name := 'selection_accuracy', was := was.selection_accuracy, now := now.selection_accuracy),
            struct_pack(name := 'argument_f1', was := was.argument_f1, now := now.argument_f1),
            struct_pack(name := 'sequence_accuracy', was := was.sequence_accuracy, now := now.sequence_accuracy),
            struct_pack(name := 'redundant_rate', was := was.redundant_rate, now := now.redundant_rate),
            struct_pack(name := 'required_call_recall', was := was.required_call_recall, now := now.required_call_recall),
            struct_pack(name := 'invocation_accuracy', was := was.invocation_accuracy, now := now.invocation_accuracy),
            struct_pack(name := 'tool_correctness', was := was.tool_correctness, now := now.tool_correctness),
            struct_pack(name := 'trajectory_accuracy', was := was.trajectory_accuracy, now := now.trajectory_accuracy),
        ] as values,
    from couple_grades
    inner join pack_metrics as was on (run_id, before_judgment_id, before_version) = was.graded
    inner join pack_metrics as now on (run_id, after_judgment_id, after_version) = now.graded
),

tell_metrics as (
    select
        edition,
        run_id,
        list_transform(
            list_filter(values, lambda value: value.was is distinct from value.now),
            lambda value: format(
                '{} {} -> {}',
                value.name,
                coalesce(format('{:.3f}', value.was), 'unknown'),
                coalesce(format('{:.3f}', value.now), 'unknown')
            )
        ) as moved_metrics,
    from list_metrics
),

pack_checks as materialized (
    select
        (run_id, judgment_id, grader_version) as graded,
        check_position,
        check_name,
        status,
    from checks
    semi join couple_grades using (run_id)
),

list_sides_of_checks as (
    select
        edition,
        run_id,
        check_name,
        check_position,
        status,
        false as is_after,
    from couple_grades
    inner join pack_checks on (run_id, before_judgment_id, before_version) = graded
    union all
    select
        edition,
        run_id,
        check_name,
        check_position,
        status,
        true as is_after,
    from couple_grades
    inner join pack_checks on (run_id, after_judgment_id, after_version) = graded
),

list_checks as (
    select
        edition,
        run_id,
        check_name,
        check_position,
        max(status) filter (where not is_after) as was,
        max(status) filter (where is_after) as now,
    from list_sides_of_checks
    group by all
),

tell_checks as (
    select
        edition,
        run_id,
        list(
            format('{}: {} -> {}', check_name, coalesce(was, 'none'), coalesce(now, 'none'))
            order by check_position
        ) as moved_checks,
    from list_checks
    where was is distinct from now
    group by all
),

couple_judgments as (
    select distinct
        before_judgment_id,
        after_judgment_id,
        was.judgment_json as was_json,
        now.judgment_json as now_json,
    from couple_grades
    inner join judgments as was on before_judgment_id = was.judgment_id
    inner join judgments as now on after_judgment_id = now.judgment_id
    where before_judgment_id != after_judgment_id
),

tell_settings as (
    select
        before_judgment_id,
        after_judgment_id,
        list_filter(
            ['required', 'optional', 'forbidden', 'weights', 'strict', 'min_score', 'require_completed', 'honesty'],
            lambda name: json_extract(was_json, '$.' || name) is distinct from json_extract(now_json, '$.' || name)
        ) as moved_settings,
    from couple_judgments
),

gather as (
    select
        couple_grades.*,
        coalesce(moved_settings, []) as moved_settings,
        coalesce(moved_metrics, []) as moved_metrics,
        coalesce(moved_checks, []) as moved_checks,
        (before_choices is distinct from after_choices) as is_other_combination,
    from couple_grades
    left join tell_settings using (before_judgment_id, after_judgment_id)
    left join tell_metrics using (edition, run_id)
    left join tell_checks using (edition, run_id)
),

keep_changes as (
    select *
    from gather
    where
        -- Dividing other weights by their sum moves a score by a rounding error, which is no change.
        abs(after_score - before_score) > 1e-9
        or before_outcome != after_outcome
        or len(moved_metrics) > 0
        or len(moved_checks) > 0
        or is_other_combination
),

latest as (
    select max(edition) as edition from editions
)

select
    keep_changes.edition::integer as edition,                   -- the regrade, by the edition it made
    (keep_changes.edition = latest.edition)::boolean as is_latest, -- whether it was the last one
    keep_changes.run_id::varchar as run_id,                     -- the run
    source::varchar as source,                                  -- its source
    task::varchar as task,                                      -- its task
    variant::varchar as variant,                                -- its variant
    repetition::bigint as repetition,                           -- the how manieth time, from 0
    contract::varchar as contract,                              -- name of the contract that stands now
    (before_outcome != after_outcome)::boolean as is_flip,      -- whether the outcome is another
    before_outcome::varchar as before_outcome,                  -- the outcome that stood: pass, fail, error or unknown
    after_outcome::varchar as after_outcome,                    -- the one that stands
    before_score::double as before_score,                       -- the score that stood, 0 to 1
    after_score::double as after_score,                         -- the one that stands
    before_grade::varchar as before_grade,                      -- A to F
    after_grade::varchar as after_grade,                        -- A to F
    before_judgment_id::varchar as before_judgment_id,          -- the judgment that applied
    after_judgment_id::varchar as after_judgment_id,            -- the one that applies
    before_version::varchar as before_version,                  -- the formulas that applied
    after_version::varchar as after_version,                    -- those that apply
    before_grade_id::varchar as before_grade_id,                -- hash over evidence, judgment and formulas
    after_grade_id::varchar as after_grade_id,                  -- the same of the grade that stands
    (case
        when before_judgment_id = after_judgment_id then 'formulas'
        when before_version = after_version then 'judgment'
        else 'both'
    end)::varchar as cause,                                     -- what was changed: judgment, formulas or both
    moved_settings::varchar[] as moved_settings,                -- the parts of the judgment that are other
    moved_metrics::varchar[] as moved_metrics,                  -- the metrics that moved, with their values
    moved_checks::varchar[] as moved_checks,                    -- the checks that moved, with their states
    before_choices::varchar as before_choices,                  -- the option taken of each group before, as JSON
    after_choices::varchar as after_choices,                    -- the option taken now
    concat_ws(
        '; ',
        case
            when before_judgment_id = after_judgment_id then 'other formulas'
            when before_version != after_version then 'other formulas and ' || array_to_string(moved_settings, ', ')
            when len(moved_settings) > 0 then 'other ' || array_to_string(moved_settings, ', ')
        end,
        nullif(array_to_string(moved_checks, ', '), ''),
        nullif(array_to_string(moved_metrics, ', '), ''),
        if(is_other_combination, 'another combination won', null),
        if(before_min_score != after_min_score, format('min_score {} -> {}', before_min_score, after_min_score), null)
    )::varchar as reason,                                       -- why, in one line
from keep_changes
inner join runs using (run_id)
cross join latest
