"""The compare command, its documents and pictures, and the published table it reproduces."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from toolscore_pipeline import charts
from toolscore_pipeline.cli import main
from toolscore_pipeline.errors import UsageError
from toolscore_pipeline.stats import Run, compare_runs, format_p
from toolscore_pipeline.stats.report import to_html, to_markdown

RECORDED = Path(__file__).parents[2] / "shared" / "data" / "mcp-memory-runs.json"
PROTOCOL = """\
protocol_version: 1
title: Adopt b
baseline: a
candidate: b
rules:
  - {id: better, metric: pass_rate, expect: candidate_better}
  - {id: cheap, metric: cost, max: 0.02}
"""


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def rows_of(variant: str, passes: int, n: int = 20) -> list[dict[str, Any]]:
    """Runs over four tasks with a cost, the first ``passes`` of them passed."""
    return [
        {
            "arm_id": variant, "task_id": f"t{i % 4}", "repetition": i // 4,
            "passed": i < passes, "cost_usd": 0.01, "duration_s": 2.0,
        }
        for i in range(n)
    ]  # fmt: skip


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "runs.jsonl", rows_of("a", 5) + rows_of("b", 19))


Run_ = Callable[..., tuple[int, str, str]]


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Run_:
    """Run ``toolscore compare`` and return its exit code, output and errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main(["compare", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


class TestCommand:
    def test_it_prints_the_verdict_the_numbers_and_what_to_beware_of(
        self, compare: Run_, rows: Path
    ) -> None:
        code, out, err = compare("--runs", rows, "--baseline", "a", "--min-n", 30)
        assert (code, err) == (0, "")
        assert "a and b are not distinguishable: fewer than 30 runs (a has 20, b has 20)." in out
        assert "25.0%" in out
        assert "5/15/0/0" in out
        assert "Note: a has 20 run(s), fewer than 30" in out
        assert "\x1b" not in out  # no colours away from a terminal

    def test_json_on_the_output_is_all_there_is(self, compare: Run_, rows: Path) -> None:
        code, out, _ = compare("--runs", rows, "--json", "-")
        report = json.loads(out)
        assert code == 0
        assert report["pairs"][0]["distinguishable"] is True
        assert "selection" not in report
        assert "protocol" not in report

    def test_a_selection_and_a_protocol_are_reported_when_asked_for(
        self, compare: Run_, rows: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "adopt.yaml").write_text(PROTOCOL)
        code, out, _ = compare(
            "--runs", rows, "-k", 2, "--select", "weighted", "--objective", "pass_rate=3",
            "--objective", "cost", "--protocol", tmp_path / "adopt.yaml",
            "--json", tmp_path / "report.json",
        )  # fmt: skip
        assert code == 0
        assert "Selected: b." in out
        assert "Decision: adopt" in out
        report = json.loads((tmp_path / "report.json").read_text())
        assert report["selection"]["scores"] == {"a": 1.0, "b": 4.0}  # equal costs: 1 each
        assert report["protocol"]["decision"] == "adopt"
        assert report["k"] == 2

    def test_several_files_and_globs_are_read_once_each_in_order(
        self, compare: Run_, tmp_path: Path
    ) -> None:
        write_rows(tmp_path / "one.jsonl", rows_of("a", 5))
        write_rows(tmp_path / "two.jsonl", rows_of("b", 5))
        pattern = str(tmp_path / "*.jsonl")
        code, out, _ = compare("--runs", pattern, "--runs", tmp_path / "two.jsonl", "--json", "-")
        assert code == 0
        assert [(v["variant"], v["n"]) for v in json.loads(out)["variants"]] == [
            ("a", 20),
            ("b", 20),
        ]

    def test_duplicates_across_files_count_once(self, compare: Run_, tmp_path: Path) -> None:
        write_rows(tmp_path / "one.jsonl", rows_of("a", 5))
        write_rows(tmp_path / "again.jsonl", rows_of("a", 5))
        code, out, _ = compare(
            "--runs", tmp_path / "one.jsonl", "--runs", tmp_path / "again.jsonl", "--json", "-"
        )
        report = json.loads(out)
        assert code == 0
        assert report["variants"][0]["n"] == 20
        assert report["notes"][0].startswith("20 duplicate record(s) of 20 run(s) were not counted")

    def test_a_variant_key_regroups_the_runs(self, compare: Run_, rows: Path) -> None:
        code, out, _ = compare("--runs", rows, "--variant-key", "task_id", "--json", "-")
        assert code == 0
        assert [v["variant"] for v in json.loads(out)["variants"]] == ["t0", "t1", "t2", "t3"]

    def test_rows_are_kept_by_their_fields(self, compare: Run_, rows: Path) -> None:
        code, out, _ = compare(
            "--runs", rows, "--where", "task_id=t1", "--where", "repetition=0", "--json", "-"
        )
        assert code == 0
        assert [v["n"] for v in json.loads(out)["variants"]] == [1, 1]

    def test_quiet_prints_nothing_and_still_writes(
        self, compare: Run_, rows: Path, tmp_path: Path
    ) -> None:
        assert compare("--runs", rows, "--quiet", "--markdown", tmp_path / "r.md") == (0, "", "")
        assert (tmp_path / "r.md").read_text().startswith("# Comparison\n")

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["--gold", "g.json"], "--gold needs runs to compare"),
            (["--where", "a=b"], "--where needs runs to compare"),
            (["--runs", "ROWS", "--where", "model"], "--where takes FIELD=VALUE, not 'model'"),
            (["--runs", "ROWS", "--where", "model=x"], "there are no runs to compare"),
            (["--protocol", "p.yaml"], "--protocol needs runs to compare"),
            (["--traces", "a=dir"], "--traces needs --gold"),
            (["--runs", "ROWS", "--gold", "g.json"], "give --traces VARIANT=DIR"),
            (["--traces", "dir", "--gold", "g.json"], "--traces takes VARIANT=DIR, not 'dir'"),
            (["--runs", "none.jsonl"], "none.jsonl: there is no such file"),
            (["--runs", "none*.jsonl"], "none*.jsonl: no file matches the pattern"),
            (["--runs", "ROWS", "--baseline", "c"], "unknown baseline variant 'c'"),
            (["--runs", "ROWS", "--variant-key", "arm"], ":1: the row has no 'arm'"),
            (["--runs", "ROWS", "--objective", "cost"], "--objective needs --select"),
            (["--runs", "ROWS", "--select", "best"], "unknown policy 'best'"),
            (
                ["--runs", "ROWS", "--select", "pareto", "--objective", "cots"],
                "did you mean 'cost'",
            ),
            (["--runs", "ROWS", "--select", "weighted", "--objective", "cost=x"], "is no number"),
            (["--runs", "ROWS", "-k", "0"], "at least 1"),
            (["--runs", "ROWS", "--alpha", "1.5"], "alpha must lie between 0 and 1"),
            (["--runs", "ROWS", "--alpha", "x"], "--alpha"),
            (["--runs", "ROWS", "--html", "no/such/folder/r.html"], "cannot be written"),
        ],
    )
    def test_bad_usage_is_one_sentence_and_exit_code_2(
        self,
        compare: Run_,
        rows: Path,
        monkeypatch: pytest.MonkeyPatch,
        arguments: list[str],
        reason: str,
    ) -> None:
        monkeypatch.chdir(rows.parent)
        code, _, err = compare(*(str(rows) if a == "ROWS" else a for a in arguments))
        assert code == 2
        assert err.startswith("error: ")
        assert reason in err
        assert err.count("\n") == 1

    def test_every_mistake_of_a_protocol_is_told(
        self, compare: Run_, rows: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "p.yaml").write_text(
            PROTOCOL.replace("rules:", "alpha: 7\nrules:") + "extra: 1\n"
        )
        code, _, err = compare("--runs", rows, "--protocol", tmp_path / "p.yaml")
        assert code == 2
        assert ":5: at $.alpha: alpha must be a number between 0 and 1" in err
        assert "at $.extra: unknown key 'extra'" in err

    def test_an_empty_file_is_refused(self, compare: Run_, tmp_path: Path) -> None:
        code, _, err = compare("--runs", write_rows(tmp_path / "empty.jsonl", []))
        assert (code, "there are no runs" in err) == (2, True)


def validator() -> Any:
    import jsonschema

    path = Path(charts.__file__).parent / "schemas" / "comparison-v1.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


class TestSchema:
    def test_reports_conform(self, compare: Run_, rows: Path, tmp_path: Path) -> None:
        (tmp_path / "p.yaml").write_text(PROTOCOL)
        extra = write_rows(tmp_path / "extra.jsonl", [*rows_of("c", 1, 2), *rows_of("c", 1, 1)])
        lone = write_rows(tmp_path / "lone.jsonl", [{"arm": "d", "task": "x"}, {"arm": "e"}])
        for arguments in (
            ["--runs", rows, "--select", "weighted", "--protocol", tmp_path / "p.yaml"],
            ["--runs", rows, "--runs", extra, "--runs", lone, "--select", "pareto"],
        ):
            code, out, _ = compare(*arguments, "--json", "-")
            assert code == 0
            assert list(validator().iter_errors(json.loads(out))) == []

    def test_a_report_with_anything_else_does_not(self) -> None:
        report = compare_runs([Run("a", "t", "pass"), Run("b", "t", "fail")]).to_dict()
        assert list(validator().iter_errors(report)) == []
        for change in ({"extra": 1}, {"alpha": 0}, {"notes": None}):
            assert list(validator().iter_errors({**report, **change}))
        del report["pairs"][0]["verdict"]
        assert list(validator().iter_errors(report))


class TestProject:
    """The comparisons of a project, read from its published warehouse."""

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        (tmp_path / "toolscore.yaml").write_text(
            "warehouse: w.duckdb\n"
            "sources: [{name: rows, path: runs.jsonl}]\n"
            "comparisons:\n"
            "  - {name: one, baseline: a, k: 2, select: lexicographic, protocol: p.yaml}\n"
            "  - {name: two, variant_key: model, min_n: 5}\n"
        )
        (tmp_path / "p.yaml").write_text(PROTOCOL)
        rows = [
            {
                **row, "run_record_version": "1", "cell_id": f"{row['arm_id']}{i}", "model": "m",
                "status": "completed", "outcome": "pass" if row["passed"] else "fail", "calls": [],
                "started_at": "2026-01-01T00:00:00Z",
            }
            for i, row in enumerate(rows_of("a", 5) + rows_of("b", 19))
        ]  # fmt: skip
        write_rows(tmp_path / "runs.jsonl", rows)
        return tmp_path

    def test_each_comparison_is_shown_as_published(
        self, compare: Run_, project: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["build", "--project", str(project), "--quiet"]) == 0
        capsys.readouterr()
        code, out, err = compare("--project", project, "--markdown", project / "report.md")
        assert (code, err) == (0, "")
        assert "b passes more often than a (95.0% against 25.0%" in out.replace("\n", " ")
        assert "Selected: b." in out
        assert "Decision: adopt" in out
        assert "after the first run it judges" in out.replace("\n", " ")
        assert {path.name for path in project.glob("*.md")} == {"report-one.md", "report-two.md"}
        _, out, _ = compare("--project", project, "--json", "-")
        reports = json.loads(out)["comparisons"]
        assert list(validator().iter_errors(json.loads(out))) == []
        assert [report["name"] for report in reports] == ["one", "two"]
        assert [v["variant"] for v in reports[1]["variants"]] == ["m"]
        assert reports[0]["protocol"]["decision"] == "adopt"
        assert reports[1]["protocol"] is None

    def test_what_is_missing_is_said(self, compare: Run_, project: Path, tmp_path: Path) -> None:
        code, _, err = compare("--project", project)
        assert (code, "toolscore build" in err) == (2, True)
        code, _, err = compare("--project", project, "--runs", tmp_path / "runs.jsonl")
        assert (code, "leave out --runs" in err) == (2, True)


GOLD = [{"tool": "search", "args": {"q": "lisbon"}}, {"tool": "book", "args": {"id": 7}}]


class TestTraces:
    def folder(self, path: Path, traces: dict[str, Any]) -> Path:
        path.mkdir()
        for name, calls in traces.items():
            text = calls if isinstance(calls, str) else json.dumps(calls)
            (path / name).write_text(text)
        return path

    def test_traces_are_scored_against_the_gold_and_bad_ones_stay_as_errors(
        self, compare: Run_, tmp_path: Path
    ) -> None:
        good = [{**call, "result": "ok", "cost": 0.5, "duration": 2.0} for call in GOLD]
        half = [{**GOLD[0], "result": "ok"}]
        old = self.folder(tmp_path / "old", {"trip-1.json": half, "trip-2.json": "{broken"})
        new = self.folder(tmp_path / "new", {"trip-1.json": good, "trip-2.json": good, "x.txt": ""})
        gold = old / "gold.json"  # lies among the traces and is none
        gold.write_text(json.dumps(GOLD))
        code, out, _ = compare(
            "--traces", f"old={old}", "--traces", f"new={new}", "--gold", gold, "--json", "-"
        )
        assert code == 0
        report = json.loads(out)
        counts = {v["variant"]: v["counts"] for v in report["variants"]}
        assert counts["old"] == {"pass": 0, "fail": 1, "error": 1, "unknown": 0}
        assert counts["new"] == {"pass": 2, "fail": 0, "error": 0, "unknown": 0}
        assert {row["task"] for row in report["tasks"]} == {"trip"}
        costs = {v["variant"]: v["cost"] for v in report["variants"]}
        assert costs == {"old": None, "new": 1.0}  # 0.5 twice a run; half a trace has no total

    def test_a_lower_score_passes_when_asked_for(self, compare: Run_, tmp_path: Path) -> None:
        folder = self.folder(tmp_path / "a", {"trip.json": [{**GOLD[0], "result": "ok"}]})
        gold = tmp_path / "gold.json"
        gold.write_text(json.dumps(GOLD))
        arguments = ["--traces", f"a={folder}", "--gold", gold, "--json", "-"]
        _, strict, _ = compare(*arguments)
        _, loose, _ = compare(*arguments, "--min-score", 0.5)
        assert json.loads(strict)["variants"][0]["counts"]["pass"] == 0
        assert json.loads(loose)["variants"][0]["counts"]["pass"] == 1

    @pytest.mark.parametrize("pattern", ["(", "^(?P<name>.+)$"])
    def test_a_task_pattern_must_have_a_task(
        self, compare: Run_, tmp_path: Path, pattern: str
    ) -> None:
        folder = self.folder(tmp_path / "a", {"trip.json": []})
        gold = tmp_path / "gold.json"
        gold.write_text(json.dumps(GOLD))
        code, _, err = compare("--traces", f"a={folder}", "--gold", gold, "--task-pattern", pattern)
        assert (code, "task pattern" in err) == (2, True)

    def test_a_folder_without_traces_is_told(self, compare: Run_, tmp_path: Path) -> None:
        gold = tmp_path / "gold.json"
        gold.write_text(json.dumps(GOLD))
        for folder, reason in (
            (tmp_path / "none", "no such folder"),
            (tmp_path, "no *.json trace"),
        ):
            code, _, err = compare("--traces", f"a={folder}", "--gold", gold)
            assert (code, reason in err) == (2, True)


class Outline(HTMLParser):
    """Tags opened and closed, and what a page loads from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.loads += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br", "path", "use", "image"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("path", "use", "image"):
            assert self.open.pop() == tag


NASTY = "<script>alert(1)</script>|*$x_1$\nend"


def nasty_comparison() -> Any:
    runs = [Run(NASTY, "t|1", "pass" if i % 2 else "fail", 0.1, 1.0) for i in range(12)]
    return compare_runs([*runs, *(Run("b", "t|1", "pass", 0.2, 1.0) for _ in range(12))], k=3)


class TestDocuments:
    def test_no_name_acts_on_what_shows_it(self, compare: Run_, tmp_path: Path) -> None:
        token = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7xY9zA2cD4fG6"
        names = {f"{kind} {token}\x1b[31m\u202e": n for n, kind in enumerate("ab")}
        rows = [
            {"variant": name, "task": f"{name}{i % 3}", "passed": bool(i % (2 + n))}
            for name, n in names.items()
            for i in range(12)
        ]
        files = [tmp_path / "c.md", tmp_path / "c.html"]
        code, shown, _ = compare(
            "--runs", write_rows(tmp_path / "r.jsonl", rows),
            "--markdown", files[0], "--html", files[1], "--charts", tmp_path / "pictures",
        )  # fmt: skip
        assert code == 0
        pictures = [path.read_text("utf-8") for path in (tmp_path / "pictures").glob("*.svg")]
        assert len(pictures) == 3
        for text in (shown, *(file.read_text("utf-8") for file in files), *pictures):
            assert token[4:20] not in text
            assert "\x1b" not in text
            assert "\u202e" not in text
            assert "REDACTED" in text

    def test_markdown_keeps_each_row_on_one_line_with_its_cells(self) -> None:
        text = to_markdown(nasty_comparison())
        assert "<script>" not in text
        table = text.split("## Variants\n\n")[1].split("\n\n")[0].splitlines()
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table}
        assert len(table) == 4
        assert len(widths) == 1

    def test_html_is_one_page_that_loads_and_runs_nothing(self) -> None:
        page = to_html(nasty_comparison(), title="A & B")
        outline = Outline(page)
        assert outline.open == []
        assert outline.scripts == 0
        assert all(link.startswith(("#", "data:")) for link in outline.loads)
        assert page.count("<svg") == 3
        assert re.search(r"6/12\s+<small>50%", page)  # the table of tasks, in text
        assert "A &amp; B" in page

    def test_both_state_their_estimators_and_settings(self) -> None:
        for text in (to_markdown(nasty_comparison()), to_html(nasty_comparison())):
            assert "Wilson score interval" in text
            assert "alpha 0.05, all pairs" in text.replace("\\", "")


class TestCharts:
    @pytest.mark.parametrize("name", list(charts.CHARTS))
    def test_pictures_are_well_formed_and_come_out_the_same_twice(self, name: str) -> None:
        draw = charts.CHARTS[name]
        comparison = nasty_comparison()
        png, svg = draw(comparison, "png"), draw(comparison, "svg")
        assert png.startswith(b"\x89PNG\r\n")
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert svg == draw(comparison, "svg")
        assert png == draw(comparison, "png")
        assert b"<dc:date>" not in svg

    def test_names_are_drawn_as_they_stand(self) -> None:
        text = charts.forest_plot(nasty_comparison()).decode()
        assert "$x_1$" in text  # no mathematics is made of it

    def test_the_front_of_cost_and_pass_rate_is_marked(self) -> None:
        text = charts.cost_plot(nasty_comparison()).decode()
        assert "mean cost of a run, US dollars" in text

    def test_a_variant_without_cost_is_named_below(self) -> None:
        runs = [Run("a", "t", "pass", 0.1), Run("dark", "t", "pass")]
        assert "without a known cost: dark" in charts.cost_plot(compare_runs(runs)).decode()

    def test_many_tasks_are_cut_to_those_that_differ_most(self) -> None:
        runs = [
            Run(variant, f"task{i:03}", "pass" if variant == "a" or i % 2 else "fail")
            for variant in "ab"
            for i in range(100)
        ]
        text = charts.heat_map(compare_runs(runs)).decode()
        assert "40 of 100 that differ most" in text
        assert "task000" in text  # fails under b only
        assert "task001" not in text  # passes under both

    def test_only_what_has_data_is_drawn(self) -> None:
        comparison = compare_runs([Run("a", "t", "pass"), Run("b", "t", "fail")])
        assert list(charts.all_charts(comparison, "svg")) == ["pass-rates", "pass-hat-k", "tasks"]
        assert charts.all_charts(compare_runs([]), "svg") == {}

    def test_what_cannot_be_drawn_is_said(self) -> None:
        comparison = compare_runs([Run("a", "t", "pass")])
        with pytest.raises(UsageError, match="unknown picture format 'gif'"):
            charts.forest_plot(comparison, "gif")
        with pytest.raises(UsageError, match="no variant has a known cost"):
            charts.cost_plot(comparison)
        with pytest.raises(UsageError, match="no variants"):
            charts.heat_map(compare_runs([]))

    def test_the_command_writes_pictures_in_both_formats(
        self, compare: Run_, rows: Path, tmp_path: Path
    ) -> None:
        code, _, _ = compare(
            "--runs", rows, "--charts", tmp_path / "pictures", "--html", tmp_path / "r.html"
        )
        assert code == 0
        written = {path.name for path in (tmp_path / "pictures").iterdir()}
        assert written == {f"{n}.{f}" for n in charts.CHARTS for f in charts.FORMATS}
        assert "<svg" in (tmp_path / "r.html").read_text()


def is_stored(run: dict[str, Any]) -> bool:
    """Every keyword stands in the joined observations of the entity named as the run's target."""
    for line in run["file_after"].splitlines():
        record = json.loads(line)
        if record.get("type") == "entity" and record["name"].lower() == run["target"].lower():
            observations = " ".join(record["observations"]).lower()
            if all(keyword.lower() in observations for keyword in run["keywords"]):
                return True
    return False


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    document = json.loads(RECORDED.read_text(encoding="utf-8"))
    rows = [
        {
            "variant": run["server"],
            "model": run["model"],
            "task": run["scenario"],
            "repetition": run["rep"],
            "passed": is_stored(run),
            "cost_usd": run["cost_usd"],
            "duration_s": run["seconds"],
        }
        for run in document["runs"]
        if run["kind"] == "update"
    ]
    return write_rows(tmp_path_factory.mktemp("recorded") / "rows.jsonl", rows)


@pytest.mark.skipif(not RECORDED.is_file(), reason="the recorded runs are not on this machine")
class TestPublishedTable:
    def report(self, compare: Run_, rows: Path, *where: str) -> dict[str, Any]:
        code, out, err = compare(
            "--runs", rows, "--baseline", "main", "-k", 3, "--json", "-", *where
        )
        assert (code, err) == (0, "")
        found: dict[str, Any] = json.loads(out)
        return found

    @pytest.mark.parametrize(
        ("model", "runs", "main", "c1", "p", "is_called", "paired"),
        [
            (
                "gpt-5.6-luna",
                50,
                24,
                46,
                "2.1e-6",
                True,
                "0.0020",
            ),  # all 10 scenarios rose: 2 / 2^10
            ("gpt-4.1-mini", 50, 29, 47, "3.6e-5", True, "0.062"),
            ("gpt-5.4-mini", 30, 16, 23, "0.10", False, "0.062"),
            (None, 130, 69, 116, "1.0e-10", True, "0.0020"),
        ],
    )
    def test_the_published_table_comes_out(
        self,
        compare: Run_,
        recorded: Path,
        model: str | None,
        runs: int,
        main: int,
        c1: int,
        p: str,
        is_called: bool,
        paired: str,
    ) -> None:
        report = self.report(compare, recorded, *(["--where", f"model={model}"] if model else []))
        counts = {v["variant"]: (v["n"], v["counts"]["pass"]) for v in report["variants"]}
        assert counts == {"main": (runs, main), "c1": (runs, c1)}
        [pair] = report["pairs"]
        assert format_p(pair["p_value"]) == p
        assert pair["distinguishable"] is is_called
        assert pair["paired"]["tasks"] == 10
        assert pair["paired"]["method"] == "exact permutation"
        assert format_p(pair["paired"]["p_value"]) == paired
        assert pair["clustered"]["clusters"] == 10
        assert pair["clustered"]["low"] < pair["difference"] < pair["clustered"]["high"]
        assert report["duplicates"] == []
