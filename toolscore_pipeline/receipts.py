"""Receipts: exactly what was evaluated and how, by hashes; and regrading, which runs nothing again.

A trace is evidence; the contract and the weights are a judgment about it. A receipt names both and
the grade they gave, so that anyone who has the files can check it, or hold the same evidence
against another judgment::

    result = evaluate_trace("gold.json", "trace.json")
    receipt = build_receipt(result, {"gold": "gold.json", "trace": "trace.json"})
    write_receipt("run.receipt.json", receipt)
    regrade("run.receipt.json", gold="contract.json").score_delta

A receipt holds no text of the trace: of answers, arguments and results only hashes.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolscore_pipeline import figures
from toolscore_pipeline.errors import InputError, ReceiptMismatchError, UsageError
from toolscore_pipeline.hashing import canonical_json, file_digest, file_sha256, json_sha256

if TYPE_CHECKING:
    from toolscore_pipeline.honesty import HonestyConfig
    from toolscore_pipeline.judgments import Judgment
    from toolscore_pipeline.model import Run
    from toolscore_pipeline.result import EvaluationResult

__all__ = [
    "KIND",
    "RECEIPT_VERSION",
    "SCHEMA_PATH",
    "Inputs",
    "ReceiptMismatchError",
    "Regrade",
    "build_receipt",
    "canonical_json",
    "contract_sha256",
    "encode_receipt",
    "file_digest",
    "grade_sha256",
    "json_sha256",
    "load_receipt",
    "read_inputs",
    "regrade",
    "verify_receipt",
    "write_receipt",
]

KIND = "toolscore.evaluation"
RECEIPT_VERSION = "1"
SCHEMA_PATH = Path(__file__).with_name("schemas") / "receipt-v1.schema.json"
"""The JSON Schema (draft 2020-12) of a receipt."""

_ROLES = ("gold", "trace", "forbidden", "honesty_config", "injected")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def build_receipt(
    result: EvaluationResult,
    inputs: Mapping[str, str | Path | Mapping[str, Any] | None] | None = None,
    settings: Mapping[str, Any] | None = None,
    final_answer: str | None = None,
    *,
    created_at: datetime | None = None,
) -> dict[str, Any]:
    """Build the receipt of one evaluation.

    Args:
        result: the evaluation.
        inputs: input files by role (``gold``, ``trace``, ``forbidden``, ``honesty_config``,
            ``injected``, ...), or their digests as :func:`file_digest` makes them; entries that
            are None are left out.
        settings: settings that changed the result (``format``, ``strict``, ...). The normalised
            weights are always added, and so is whether values were compared strictly.
        final_answer: a final answer given from outside the trace; only its hash is kept.
        created_at: when it was made (aware); default now, or the moment that the environment
            variable ``SOURCE_DATE_EPOCH`` names, which makes receipts reproducible byte for byte.

    Returns:
        The receipt, with ``receipt_sha256`` last. Paths of inputs stand as given.

    Raises:
        InputError: an input file cannot be read.
    """
    from toolscore_pipeline import __version__

    digests = {
        role: _digest(path) for role, path in sorted((inputs or {}).items()) if path is not None
    }
    judgment = result.judgment
    applied: dict[str, Any] = {
        "format": "auto",
        "llm_judge": None,
        "require_completed": judgment["require_completed"],
        "side_effects": bool(result.run["probes_json"]),
        "strict": judgment["strict"],
        **(settings or {}),
        "weights": result.weights,
    }
    if final_answer is not None:
        applied["final_answer_sha256"] = _text_sha256(final_answer)
    if judgment["honesty"] is not None and "honesty_config" not in digests:
        applied.setdefault("honesty", judgment["honesty"])
    receipt: dict[str, Any] = {
        "kind": KIND,
        "receipt_version": RECEIPT_VERSION,
        "toolscore_version": __version__,
        "created_at": (created_at or _now()).astimezone(UTC).isoformat(timespec="seconds"),
        "inputs": digests,
        "settings": dict(sorted(applied.items())),
        "contract_sha256": contract_sha256(judgment),
        "result": {
            "score": result.score,
            "grade": result.grade,
            "verdict": result.verdict,
            "outcome": result.outcome,
            "min_score": result.min_score,
            "passed": result.passed,
            "required_call_recall": result.required_call_recall,
            "evidence_sha256": result.evidence_sha256,
            "judgment_sha256": result.judgment_id,
            "grader_version": result.grader_version,
            "grade_sha256": result.grade_id,
            "record_sha256": json_sha256(result.to_dict()),
        },
    }
    probes = _probes(result)
    if probes is not None:
        # A regrade looks for nothing again: it reads what was found then.
        receipt["probes"] = probes
    receipt["receipt_sha256"] = json_sha256(receipt)
    return receipt


def _now() -> datetime:
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    if fixed is not None and fixed.isdecimal():
        return datetime.fromtimestamp(int(fixed), UTC)
    return datetime.now(UTC)


def _digest(path: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(path, Mapping):
        return dict(path)
    try:
        return file_digest(path)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None


def _text_sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _probes(result: EvaluationResult) -> Any:
    from toolscore_pipeline.result import parse_json

    return parse_json(result.run["probes_json"])


def contract_sha256(judgment: Mapping[str, Any]) -> str:
    """The hash of what is expected, apart from weights and settings."""
    if judgment["kind"] == "gold":
        return json_sha256(judgment["required"])
    return json_sha256({name: judgment[name] for name in ("required", "optional", "forbidden")})


def grade_sha256(evidence_sha256: str, judgment_sha256: str, grader_version: str) -> str:
    """The hash that names a grade: that of its three hashes together."""
    return json_sha256(
        {"evidence": evidence_sha256, "grader": grader_version, "judgment": judgment_sha256}
    )


# --- files ----------------------------------------------------------------------------------------


def encode_receipt(receipt: Mapping[str, Any]) -> bytes:
    """A receipt as the bytes of its file: indented JSON, one way only."""
    text = json.dumps(receipt, indent=2, ensure_ascii=False, default=repr) + "\n"
    return text.encode("utf-8", "backslashreplace")


def write_receipt(
    path: str | Path, receipt: Mapping[str, Any], *, base: str | Path | None = None
) -> Path:
    """Write a receipt as indented JSON and return its path.

    So that a folder can be moved with its receipts, input paths are written relative to the
    receipt where both lie below a common folder, and its hash is made anew.

    Args:
        path: the file; it is replaced in one step.
        receipt: the receipt.
        base: the folder that its relative paths start from; default the current one.

    Raises:
        InputError: the file cannot be written.
    """
    path = Path(path)
    receipt = _with_paths_from(dict(receipt), Path(base or "."), path.parent)
    aside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(aside, "wb") as file:
            file.write(encode_receipt(receipt))
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise InputError(f"cannot be written: {error.strerror}", path=path) from None
    return path


def _with_paths_from(receipt: dict[str, Any], base: Path, folder: Path) -> dict[str, Any]:
    inputs = {
        role: {**entry, "path": _relative(base / entry["path"], folder)}
        for role, entry in receipt["inputs"].items()
    }
    if inputs == receipt["inputs"]:
        return receipt
    sealed = {**receipt, "inputs": inputs}
    del sealed["receipt_sha256"]
    sealed["receipt_sha256"] = json_sha256(sealed)
    return sealed


def _relative(path: Path, folder: Path) -> str:
    """``path`` as seen from ``folder``; absolute when they share no folder but the root."""
    shown = _lexical(os.path.abspath(path), os.path.abspath(folder))
    real = os.path.join(os.path.realpath(path.parent), path.name)
    start = os.path.realpath(folder)
    # Behind a link, .. leads elsewhere than the names say; then only real folders lead to the file.
    if os.path.realpath(os.path.join(start, shown)) == os.path.realpath(real):
        return shown
    return _lexical(real, start)


def _lexical(absolute: str, start: str) -> str:
    try:
        common = Path(os.path.commonpath([absolute, start]))
    except ValueError:  # two drives
        return absolute
    if common == Path(common.anchor):
        return absolute
    return Path(os.path.relpath(absolute, start)).as_posix()


def load_receipt(path: str | Path) -> dict[str, Any]:
    """Read a receipt file.

    Raises:
        InputError: the file cannot be read or is not a receipt (it is a ``ValueError``).
    """
    from toolscore_pipeline.documents import load_document

    value = load_document(Path(path)).value
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise InputError(f"it is not a receipt: no kind {KIND!r}", path=path)
    if value.get("receipt_version") != RECEIPT_VERSION:
        version = value.get("receipt_version")
        raise InputError(
            f"expected receipt_version {RECEIPT_VERSION!r}, got {version!r}", path=path
        )
    return value


def is_receipt(path: str | Path) -> bool:
    """Whether a file says of itself that it is a receipt; a quick look at how it begins."""
    try:
        with open(path, "rb") as file:
            start = file.read(1 << 16)
    except OSError:
        return False
    return start.lstrip().startswith(b"{") and KIND.encode() in start


def folder_of(path: str | Path, receipt: Mapping[str, Any]) -> Path:
    """The folder that a receipt's relative paths start from.

    That of the receipt itself, also when a link in another folder leads to it; that of the link
    when only there every file that the receipt names is found.
    """
    from toolscore_pipeline.formats.receipts import folders_of

    folders = folders_of(Path(path))
    if len(folders) == 1 or _form_problems(receipt):
        return folders[0]
    names = [entry["path"] for entry in receipt["inputs"].values()]
    whole = (at for at in folders if all((at / name).exists() for name in names))
    return next(whole, folders[0])


def verify_receipt(receipt: Mapping[str, Any], base: str | Path | None = None) -> list[str]:
    """Check a receipt against itself and the files it names.

    Args:
        receipt: the receipt.
        base: the folder that relative input paths start from (the receipt's own, usually); the
            current folder when None.

    Returns:
        Every problem found, a sentence each; empty when the receipt and every input check out. A
        missing input is a problem; so is one whose bytes changed.
    """
    problems = _form_problems(receipt)
    if problems:
        return problems
    sealed = {name: value for name, value in receipt.items() if name != "receipt_sha256"}
    computed = json_sha256(sealed)
    if receipt["receipt_sha256"] != computed:
        problems.append(
            f"the receipt was changed: receipt_sha256 is {_short(receipt['receipt_sha256'])}, its"
            f" content has {_short(computed)}"
        )
    result = receipt["result"]
    named = grade_sha256(
        result["evidence_sha256"], result["judgment_sha256"], result["grader_version"]
    )
    if result["grade_sha256"] != named:
        problems.append("result.grade_sha256 is not the hash of its evidence, judgment and grader")
    for role, entry in receipt["inputs"].items():
        problem = _input_problem(role, entry, Path(base or "."))
        if problem:
            problems.append(problem)
    return problems


def _input_problem(role: str, entry: Mapping[str, Any], base: Path) -> str | None:
    path = base / entry["path"]
    try:
        sha256, size = file_sha256(path)
    except FileNotFoundError:
        return f"{role}: {entry['path']} is not there"
    except OSError as error:
        return f"{role}: {entry['path']} cannot be read: {error.strerror}"
    if size != entry["bytes"]:
        return f"{role}: {entry['path']} has {size} bytes, it had {entry['bytes']}"
    if sha256 != entry["sha256"]:
        return (
            f"{role}: {entry['path']} changed: its SHA-256 is {_short(sha256)}, it was"
            f" {_short(entry['sha256'])}"
        )
    return None


def _short(sha256: str) -> str:
    return f"{sha256[:12]}..."


@functools.cache
def _validator() -> Any:
    import jsonschema

    schema = json.loads(SCHEMA_PATH.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


def _form_problems(receipt: Any) -> list[str]:
    """What is not as the schema says; the checks above rely on it."""
    errors = sorted(_validator().iter_errors(receipt), key=lambda error: list(map(str, error.path)))
    return [f"at {error.json_path}: {_cut(error.message)}" for error in errors]


def _cut(message: str) -> str:
    return message if len(message) <= 120 else f"{message[:40]} ... {message[-60:]}"


# --- reading the inputs again ---------------------------------------------------------------------


@dataclass(frozen=True)
class Inputs:
    """What a receipt names, read again, with what was put in the place of some of it.

    Attributes:
        run: the trace's run.
        judgment: how it is to be graded.
        files: the input files by role.
        settings: the receipt's settings as they apply now.
    """

    run: Run
    judgment: Judgment
    files: dict[str, Path]
    settings: dict[str, Any]


def read_inputs(
    trace: str | Path,
    gold: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    weights: Mapping[str, float] | None = None,
    forbidden: str | Path | None = None,
    honesty: HonestyConfig | Mapping[str, Any] | None = None,
    honesty_file: str | Path | None = None,
    injected: str | Path | None = None,
    final_answer: str | None = None,
    probes: list[dict[str, Any]] | None = None,
    min_score: float | None = None,
    applied_weights: Mapping[str, float] | None = None,
) -> Inputs:
    """Read a trace and all that it is judged by.

    Args:
        trace, gold, forbidden, honesty_file, injected: the files.
        settings: ``format``, ``strict`` and ``require_completed``; ``locator`` says which run of
            a document is meant that holds several.
        weights: score weights; None takes those of the contract.
        honesty: settings of the honesty checks, instead of a file.
        final_answer: the final answer, when the trace does not hold one.
        probes: side effects found when the trace was first evaluated.
        min_score: the passing score of a gold list.
        applied_weights: weights as they were applied once, taken as they stand: dividing them by
            their sum again would move every score by a rounding error. ``weights`` comes before.

    Raises:
        InputError: a file cannot be read, or the trace holds several runs.
        ContractError: the gold file or the rules are wrong.
    """
    from toolscore_pipeline.api import single_run
    from toolscore_pipeline.contract import Contract, load_forbidden_rules
    from toolscore_pipeline.judgments import compile_judgment
    from toolscore_pipeline.loading import read_file

    settings = dict(settings or {})
    runs = read_file(trace, format=settings.get("format") or "auto")
    if (locator := settings.get("locator")) is not None:
        runs = [run for run in runs if run.locator == locator]
    if len(runs) != 1:
        where = f" at {locator}" if locator is not None else ""
        raise InputError(f"expected one run{where}, got {len(runs)}", path=trace)
    faults = None
    if injected is not None:
        from toolscore_pipeline.honesty import load_injected

        faults = load_injected(injected)
    if honesty_file is not None:
        from toolscore_pipeline.honesty import load_honesty_config

        honesty = load_honesty_config(honesty_file)
    run = single_run(runs[0], final_answer=final_answer, injected=faults)
    if probes is not None and run.probes is None:
        run = replace(run, probes=probes)
    expected = _expected(gold)
    judgment = compile_judgment(
        expected,
        weights=weights,
        strict=bool(settings.get("strict", False)),
        forbidden=load_forbidden_rules(forbidden) if forbidden is not None else None,
        honesty=honesty,
        min_score=None if isinstance(expected, Contract) else min_score,
        require_completed=bool(settings.get("require_completed", False)),
    )
    if weights is None and applied_weights is not None:
        judgment = _with_weights(judgment, applied_weights)
    named: dict[str, str | Path | None] = {
        "gold": gold,
        "trace": trace,
        "forbidden": forbidden,
        "honesty_config": honesty_file,
        "injected": injected,
    }
    files = {role: Path(path) for role, path in named.items() if path is not None}
    return Inputs(run, judgment, files, settings)


def _expected(gold: str | Path) -> Any:
    """What a gold file or contract expects; which runs a project binds it to plays no part."""
    from toolscore_pipeline.contract import expected_from_document, is_contract
    from toolscore_pipeline.documents import load_document

    document = load_document(Path(gold))
    if is_contract(document.value):
        bound = ("task", "variant", "source")
        value = {key: item for key, item in document.value.items() if key not in bound}
        document = replace(document, value=value)
    return expected_from_document(document)


def _with_weights(judgment: Judgment, weights: Mapping[str, float]) -> Judgment:
    from toolscore_pipeline.judgments import judgment_from_json

    declared = json.loads(judgment.judgment_json)
    declared["weights"] = dict(weights)
    return judgment_from_json(canonical_json(declared).decode())


def inputs_of(receipt: Mapping[str, Any], base: str | Path, **instead: Any) -> Inputs:
    """Read the inputs of a receipt again, some of them replaced.

    Args:
        receipt: the receipt.
        base: the folder that its relative paths start from.
        instead: arguments of :func:`read_inputs` that take the place of the receipt's own.

    Raises:
        InputError: it names no trace or gold file, or one of its files cannot be read.
    """
    files = {role: Path(base) / entry["path"] for role, entry in receipt["inputs"].items()}
    settings = {
        name: receipt["settings"].get(name)
        for name in ("format", "strict", "require_completed", "locator")
    }
    found: dict[str, Any] = {
        "trace": files.get("trace"),
        "gold": files.get("gold"),
        "applied_weights": receipt["settings"]["weights"],
        "forbidden": files.get("forbidden"),
        "honesty": receipt["settings"].get("honesty"),
        "honesty_file": files.get("honesty_config"),
        "injected": files.get("injected"),
        "probes": receipt.get("probes"),
        "min_score": receipt["result"]["min_score"],
        "settings": settings,
        **instead,
    }
    for role in ("trace", "gold"):
        if found[role] is None:
            raise InputError(f"the receipt names no {role} file; name one")
    if found["honesty"] is not None and "honesty" in instead:
        found["honesty_file"] = None
    return read_inputs(found.pop("trace"), found.pop("gold"), **found)


# --- regrading ------------------------------------------------------------------------------------


@dataclass
class Regrade:
    """One regraded trace.

    Attributes:
        source: the receipt or trace that was regraded.
        result: the new evaluation.
        receipt: the new receipt.
        previous: the result block of the source receipt (score, grade, ...); None for a bare trace.
        problems: what :func:`verify_receipt` found; empty when it checked out.
    """

    source: str
    result: EvaluationResult
    receipt: dict[str, Any]
    previous: dict[str, Any] | None = None
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Take None for no problems."""
        self.problems = list(self.problems or [])

    @property
    def score_delta(self) -> float | None:
        """New score less the previous one; None without a previous score."""
        if self.previous is None or self.previous.get("score") is None:
            return None
        return self.result.score - float(self.previous["score"])


def regrade(
    source: str | Path,
    gold: str | Path | None = None,
    weights: Mapping[str, float] | None = None,
    forbidden: str | Path | None = None,
    format: str | None = None,
    honesty: HonestyConfig | None = None,
    final_answer: str | None = None,
    verify: bool = True,
    *,
    strict: bool | None = None,
    injected: str | Path | None = None,
    honesty_file: str | Path | None = None,
) -> Regrade:
    """Score a saved trace again under a new gold file or contract, weights or rules.

    Nothing is run again: no agent, no model, no server, no probe of a side effect.

    Args:
        source: a receipt, whose trace, gold file, format, weights and rules are the defaults, or a
            trace file; then ``gold`` is needed.
        gold: the new gold file or contract. Weights that it declares count before the receipt's.
        weights: new score weights, merged with the defaults.
        forbidden: a file of forbidden rules.
        format: the trace format; default the receipt's, else ``auto``.
        honesty: settings of the honesty checks; ``honesty_file`` names a file of them instead.
        final_answer: the final answer, when the trace does not hold one.
        verify: refuse a receipt whose inputs changed; False regrades all the same and says what
            was found in ``problems``.
        strict: compare values type and all; default the receipt's.
        injected: a file of injected faults.

    Raises:
        ReceiptMismatchError: the receipt or its inputs changed; the message has every problem.
        UsageError: a bare trace without ``gold``.
        InputError: a file cannot be read. ContractError: the gold file or the rules are wrong.
    """
    from toolscore_pipeline.api import grade_runs

    source = Path(source)
    if not source.exists():
        raise InputError("there is no such file", path=source)
    receipt = load_receipt(source) if is_receipt(source) else None
    problems: list[str] = []
    instead: dict[str, Any] = {
        name: value
        for name, value in {
            "gold": gold,
            "weights": weights,
            "forbidden": forbidden,
            "honesty": honesty,
            "honesty_file": honesty_file,
            "injected": injected,
            "final_answer": final_answer,
        }.items()
        if value is not None
    }
    if receipt is None:
        if gold is None:
            raise UsageError(f"{source}: a bare trace needs a gold file or contract (--gold)")
        settings = {"format": format or "auto", "strict": bool(strict)}
        inputs = read_inputs(source, settings=settings, **instead)
    else:
        problems = _problems_of(receipt, source, instead)
        if problems and (verify or _form_problems(receipt)):
            raise _mismatch(problems, source)
        settings = {
            "format": format or receipt["settings"].get("format"),
            "strict": receipt["settings"].get("strict") if strict is None else strict,
            "require_completed": receipt["settings"].get("require_completed"),
            "locator": receipt["settings"].get("locator"),
        }
        if gold is not None and _declares_weights(gold):
            instead["applied_weights"] = None
        folder = folder_of(source, receipt)
        inputs = inputs_of(receipt, folder, settings=settings, **instead)
    result = grade_runs([inputs.run], inputs.judgment)[0]
    named: dict[str, Any] = {
        name: value for name, value in inputs.settings.items() if value is not None
    }
    if receipt is not None:
        named["regraded_from"] = receipt["receipt_sha256"]
    return Regrade(
        source=str(source),
        result=result,
        receipt=build_receipt(result, dict(inputs.files), named, final_answer),
        previous=dict(receipt["result"]) if receipt is not None else None,
        problems=problems,
    )


def _problems_of(receipt: Mapping[str, Any], source: Path, instead: Mapping[str, Any]) -> list[str]:
    """What is wrong with a receipt to be regraded; inputs that are replaced may have changed."""
    problems = verify_receipt(receipt, folder_of(source, receipt))
    if _form_problems(receipt):
        return problems
    replaced = {"honesty_config" if name.startswith("honesty") else name for name in instead}
    kept = [p for p in problems if p.partition(":")[0] not in replaced]
    expected = receipt["settings"].get("final_answer_sha256")
    if expected is not None:
        given = instead.get("final_answer")
        if given is None:
            kept.append(
                "the evaluation had a final answer given from outside, which a receipt does not"
                " hold; give it again"
            )
        elif _text_sha256(given) != expected:
            kept.append("the final answer is not the one that was evaluated")
    return kept


def _mismatch(problems: Sequence[str], source: Path) -> ReceiptMismatchError:
    error = ReceiptMismatchError(problems[0], path=source)
    error.args = ("\n".join(f"{source}: {problem}" for problem in problems),)
    return error


def _declares_weights(gold: str | Path) -> bool:
    from toolscore_pipeline.contract import Contract

    expected = _expected(gold)
    return isinstance(expected, Contract) and bool(expected.weights)


def percent(score: float | None, grade: str | None) -> str:
    """A score and grade for people: ``38.3% F``; a dash where there is none."""
    if score is None or not math.isfinite(score):
        return "-"
    text = figures.percent(score)
    return f"{text} {grade}" if grade else text


def percent_change(delta: float | None) -> str:
    """A change of score for people: ``+57.4%``; a dash where there is none to tell."""
    if delta is None:
        return "-"
    return figures.percent(delta if abs(delta) >= 0.0005 else 0.0, signed=True)
