-- The receipt of every grade: the hashes of what was held against what, and what came of it.
-- kind: view
-- grain: one row per run, judgment and grader version
-- null: the contract's file when no binding names the judgment any more; recall when nothing is required
-- source: Toolscore, receipts; the hash of the whole record is made when a receipt is written out
with grades as (
    select
        grade_id,
        run_id,
        judgment_id,
        grader_version,
        evidence_sha256,
        score,
        grade,
        verdict,
        outcome,
        min_score,
        is_passed,
    from grades.grades
),

metrics as (
    select
        run_id,
        judgment_id,
        grader_version,
        required_call_recall,
    from grades.metrics
),

runs as (
    select
        run_id,
        document_id,
        source,
        path,
        locator,
        format,
    from evidence.runs
),

documents as (
    select
        source,
        path,
        bytes,
    from raw.documents
),

judgments as (
    select
        judgment_id,
        weight_selection,
        weight_arguments,
        weight_sequence,
        weight_redundancy,
        weight_recall,
        is_strict,
        require_completed,
    from judgment.judgments
),

bindings as (
    select
        judgment_id,
        name,
        path,
        sha256,
    from judgment.bindings
),

applicable as (
    select
        run_id,
        judgment_id,
    from judgment.applicable
    where precedence = 1
),

grader as (
    select grader_version from settings.grader
),

-- The most specific judgment that applies, under the current formulas, stands for the run.
stand_for_runs as (
    select
        run_id,
        judgment_id,
        grader_version,
        true as is_standing,
    from applicable
    cross join grader
),

-- The same judgment may be written in several files: one of them will do.
keep_one_file as (
    select
        judgment_id,
        arg_min(name, path) as contract,
        min(path) as contract_path,
        arg_min(sha256, path) as contract_file_sha256,
    from bindings
    group by all
)

select
    grades.grade_id::varchar as grade_id,                       -- SHA-256 of evidence, judgment and formulas together
    grades.run_id::varchar as run_id,                           -- the run
    evidence_sha256::varchar as evidence_sha256,                -- SHA-256 of what was recorded
    grades.judgment_id::varchar as judgment_id,                 -- SHA-256 of the judgment
    grades.grader_version::varchar as grader_version,           -- the version of the formulas
    runs.path::varchar as trace_path,                           -- the document of the run
    runs.locator::varchar as trace_locator,                     -- where in that document
    document_id::varchar as trace_sha256,                       -- SHA-256 of its bytes
    documents.bytes::bigint as trace_bytes,                     -- its size
    runs.format::varchar as format,                             -- the trace format
    contract::varchar as contract,                              -- name of the contract
    contract_path::varchar as contract_path,                    -- its file
    contract_file_sha256::varchar as contract_file_sha256,      -- SHA-256 of that file
    weight_selection::double as weight_selection,               -- weight of selection accuracy
    weight_arguments::double as weight_arguments,               -- weight of argument F1
    weight_sequence::double as weight_sequence,                 -- weight of sequence accuracy
    weight_redundancy::double as weight_redundancy,             -- weight of 1 - redundant rate
    weight_recall::double as weight_recall,                     -- weight of required call recall
    is_strict::boolean as is_strict,                            -- whether values are compared type and all
    require_completed::boolean as require_completed,            -- whether a required call that failed fails the run
    score::double as score,                                     -- composite score, 0 to 1
    grade::varchar as grade,                                    -- A to F
    verdict::varchar as verdict,                                -- PASS, WARN or FAIL
    outcome::varchar as outcome,                                -- pass, fail, error or unknown
    min_score::double as min_score,                             -- the passing score
    is_passed::boolean as is_passed,                            -- whether the score reaches it
    required_call_recall::double as required_call_recall,       -- required calls made that did not fail, 0 to 1
    coalesce(is_standing, false)::boolean as is_standing,       -- whether it is the grade that stands for the run
from grades
inner join runs using (run_id)
left join metrics using (run_id, judgment_id, grader_version)
left join documents using (source, path)
left join judgments using (judgment_id)
left join keep_one_file using (judgment_id)
left join stand_for_runs using (run_id, judgment_id, grader_version)
