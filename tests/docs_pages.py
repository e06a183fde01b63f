"""The code blocks of README, docs and examples, and how each kind is run.

A page is run from top to bottom in a folder of its own: the example project, built, with copies of
``examples/`` and of a gold list, contract, trace and file of run rows. What is printed below a
command is what the command prints; ``...`` stands for anything. A command or block that cannot be
run here says so where readers see it, in a comment: ``# not run: REASON``.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_NOT_RUN = re.compile(r"#\s*not run: (\S.*)")
LANGUAGES = {"console", "python", "py", "yaml", "json", "sql", "text"}


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its page, line, language, text, and the block that follows at once."""

    page: Path
    line: int
    language: str
    text: str
    output: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def reason_not_run(self) -> str | None:
        """Why the whole block is not run: its first line says it."""
        match = _NOT_RUN.match(self.text)
        return match[1] if match else None


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order; an output is part of the SQL block above it."""
    text = page.read_text(encoding="utf-8")
    found: list[Block] = []
    end = 0
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        is_output = match[1] == "text" and not text[end : match.start()].strip()
        if is_output and found and found[-1].language == "sql":
            found[-1] = Block(*_fields(found[-1]), match[2])
        else:
            found.append(Block(page, line, match[1], match[2]))
        end = match.end()
    return found


def _fields(block: Block) -> tuple[Path, int, str, str]:
    return block.page, block.line, block.language, block.text


@dataclass(slots=True)
class Command:
    """A command of a console block and the lines shown below it."""

    text: str
    shown: list[str] = field(default_factory=list)

    @property
    def reason_not_run(self) -> str | None:
        match = _NOT_RUN.search(self.text)
        return match[1] if match else None


def commands(text: str) -> list[Command]:
    """The commands of a console block; a line that ends in a backslash goes on."""
    found: list[Command] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
        elif found and not found[-1].shown and found[-1].text.endswith("\\"):
            found[-1].text = found[-1].text[:-1] + line.strip()
        else:
            assert found, f"a console block starts with output: {line!r}"
            found[-1].shown.append(line)
    return found


def not_run() -> list[tuple[str, str]]:
    """Every block and command that is not run, with its reason."""
    found = []
    for page in PAGES:
        for block in blocks(page):
            if block.reason_not_run:
                found.append((block.place, block.reason_not_run))
            elif block.language == "console":
                found += [
                    (block.place, command.reason_not_run)
                    for command in commands(block.text)
                    if command.reason_not_run
                ]
    return found


def matches(shown: list[str], printed: list[str]) -> str | None:
    """The first line shown that is not printed, or None; ``...`` stands for anything."""
    lines = [line.rstrip() for line in printed]
    position, is_free = 0, False
    while lines and not lines[0]:
        lines.pop(0)
    for line in (line.rstrip() for line in shown):
        if line.strip() == "...":
            is_free = True
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in re.split(r"\.\.\.|…$", line)))
        end = len(lines) if is_free else min(position + 1, len(lines))
        hit = next((i for i in range(position, end) if pattern.fullmatch(lines[i])), None)
        if hit is None:
            return line
        position, is_free = hit + 1, False
    rest = [line for line in lines[position:] if line]
    return None if is_free or not rest or not shown else f"nothing more, but it prints {rest[0]!r}"


class Reader:
    """Someone who reads a page and does what it says.

    Args:
        folder: where they are.
        page: what they read.
    """

    def __init__(self, folder: Path, page: Path) -> None:
        # The page of an example is read in its folder.
        inside = page.parent.relative_to(ROOT) if "examples" in page.parts else "."
        self.folder = folder / inside
        self.page = page
        self.names: dict[str, Any] = {"__name__": "page", **prepare(page, folder)}
        self.environment = {
            "LC_ALL": "C",
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def follow(self, block: Block) -> None:
        """Run a block and hold what it prints against what is shown."""
        assert block.language in LANGUAGES, f"{block.place}: unknown language {block.language!r}"
        if block.reason_not_run:
            return
        with contextlib.chdir(self.folder):
            getattr(self, "_" + {"py": "python"}.get(block.language, block.language))(block)
            self.folder = Path.cwd()

    def _text(self, block: Block) -> None:
        """Something to look at: nothing is claimed to run."""

    # --- console ----------------------------------------------------------------------------------

    def _console(self, block: Block) -> None:
        for command in commands(block.text):
            if command.reason_not_run:
                continue
            code, printed = self._run(command.text)
            assert code == 0, f"{block.place}: {command.text}: exit code {code}: {printed}"
            problem = matches(command.shown, printed.splitlines())
            assert problem is None, f"{block.place}: {command.text}: expected {problem}\n{printed}"

    def _run(self, text: str) -> tuple[int, str]:
        words = shlex.split(text, comments=True)
        if words[0] == "cd":
            os.chdir(words[1])
            return 0, ""
        if words[0] == "make":
            # What the targets run is run elsewhere; here they have to exist.
            done = subprocess.run(
                ["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False
            )
            return done.returncode, "" if done.returncode == 0 else done.stderr
        if words[0] == "toolscore" and not set("|;&><") & set(words):
            return _toolscore(words[1:])
        done = subprocess.run(
            ["bash", "-ec", text], env=self.environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + (done.stderr if done.returncode else "")

    # --- Python -----------------------------------------------------------------------------------

    def _python(self, block: Block) -> None:
        if ">>> " in block.text:
            test = doctest.DocTestParser().get_doctest(
                block.text, self.names, block.place, str(block.page), block.line
            )
            runner = doctest.DocTestRunner(verbose=False)
            out = io.StringIO()
            runner.run(test, out=out.write, clear_globs=False)
            self.names.update(test.globs)
            assert runner.failures == 0, out.getvalue()
            return
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, block.place, "exec"), self.names)
        # What a block prints stands below it as comments.
        lines = block.text.rstrip().splitlines()
        shown: list[str] = []
        while lines and lines[-1].startswith("# "):
            shown.insert(0, lines.pop()[2:])
        if printed.getvalue() and shown:
            problem = matches(shown, printed.getvalue().splitlines())
            assert problem is None, f"{block.place}: expected {problem}\n{printed.getvalue()}"

    # --- data -------------------------------------------------------------------------------------

    def _json(self, block: Block) -> None:
        self._hold(json.loads(block.text), block, "json")

    def _yaml(self, block: Block) -> None:
        self._hold(yaml.safe_load(block.text), block, "yaml")

    def _hold(self, value: Any, block: Block, ending: str) -> None:
        """Check a file that is shown as what it is: contract, protocol, spec, project, steps."""
        from toolscore_pipeline.agent import load_agent_spec
        from toolscore_pipeline.contract import load_expected, load_forbidden_rules
        from toolscore_pipeline.honesty.config import load_honesty_config
        from toolscore_pipeline.project import load_project
        from toolscore_pipeline.stats import load_protocol

        shown = self.folder / f"shown.{ending}"
        shown.write_text(block.text, encoding="utf-8")
        keys = set(value) if isinstance(value, dict) else set()
        first = value[0] if isinstance(value, list) and value else {}
        try:
            if "contract_version" in keys or "tool" in first:
                is_rules = isinstance(value, list) and any("reason" in rule for rule in value)
                (load_forbidden_rules if is_rules else load_expected)(shown)
            elif "protocol_version" in keys:
                load_protocol(shown)
            elif "spec_version" in keys:
                load_agent_spec(shown)
            elif keys & {"sources", "comparisons", "warehouse", "studies"}:
                load_project(shown)
            elif "disclosure" in keys:
                load_honesty_config(shown)
            elif keys & {"jobs"} or {"uses", "run"} & set(first):
                check_steps(value)
            else:
                assert keys & {"calls", "faults"}, f"{block.place}: nobody checks this: {value}"
        finally:
            shown.unlink()

    def _sql(self, block: Block) -> None:
        """Each statement on the published copy, as a client without this project opens it."""
        from toolscore_pipeline.asking import Answer
        from toolscore_pipeline.cli.sql import show_answer

        with duckdb.connect(":memory:") as connection:
            if self.page.stem == "credentials":
                # What the page shows of the models' own functions: they are made by Python.
                from toolscore_pipeline.udfs import register_all

                register_all(connection)
            connection.execute("attach 'warehouse.published.duckdb' as warehouse (read_only)")
            connection.execute("use warehouse")
            for statement in connection.extract_statements(block.text):
                result = connection.execute(statement)
                rows = result.fetchall()
                names = [column[0] for column in result.description or []]
        if block.output is not None:
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                show_answer(Answer(names, rows, is_cut=False), "table")
            problem = matches(block.output.splitlines(), printed.getvalue().splitlines())
            assert problem is None, f"{block.place}: expected {problem}\n{printed.getvalue()}"
        elif self.page.stem == "cookbook":
            assert rows == [], f"{block.place}: its {len(rows)} rows are not shown"


def _toolscore(arguments: list[str]) -> tuple[int, str]:
    from toolscore_pipeline.cli import main

    printed = io.StringIO()
    errors = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
        code = main(arguments)
    return code, printed.getvalue() + (errors.getvalue() if code else "")


def check_steps(value: Any) -> None:
    """Steps of a workflow: inputs and outputs of this action are those that it has."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    jobs = value["jobs"].values() if isinstance(value, dict) else [{"steps": value}]
    for job in jobs:
        for step in job["steps"]:
            assert {"uses", "run"} & set(step), step
            if step.get("uses", "") in ("./",) or "toolscore" in step.get("uses", ""):
                given = step.get("with", {})
                assert set(given) <= set(action["inputs"]), given
                needed = {n for n, spec in action["inputs"].items() if spec.get("required")}
                assert needed <= set(given), given
    text = json.dumps(value)
    for output in re.findall(r"steps\.toolscore\.outputs\.([a-z-]+)", text):
        assert output in action["outputs"], output


@contextlib.contextmanager
def workspace(demo: Path, folder: Path) -> Iterator[Path]:
    """The folder that a page is read in."""
    shutil.copytree(demo, folder)
    shutil.copytree(
        ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("*.duckdb*")
    )
    for name in ("gold.json", "contract.json", "trace.json"):
        shutil.copy(ROOT / "examples/contracts" / name, folder)
    shutil.copy(ROOT / "examples/agent_harness/offline.yaml", folder / "study.yaml")
    shutil.copy(ROOT / "examples/agent_harness/offline.yaml", folder)
    shutil.copy(ROOT / "examples/agent_harness/memory-anthropic.yaml", folder)
    rows = [(folder / "runs" / f"{name}.jsonl").read_text() for name in ("baseline", "candidate")]
    (folder / "runs.jsonl").write_text("".join(rows))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def prepare(page: Path, folder: Path) -> dict[str, Any]:
    """What a page takes for granted beyond the workspace; returns names its Python blocks use."""
    name = page.relative_to(ROOT).as_posix()
    if name == "docs/agent-harness.md":
        (folder / "runs.jsonl").unlink()  # the page makes its own
        study = folder / "study.yaml"
        study.write_text(study.read_text().replace("repetitions: 3", "repetitions: 1"))
    elif name == "docs/credentials.md":
        (folder / "sql/macros").mkdir(parents=True)
    elif name == "docs/exporting.md":
        with contextlib.chdir(folder):
            _toolscore(["eval", "gold.json", "trace.json", "--receipt", "run.receipt.json"])
    elif name == "docs/formats/run_rows.md":
        row = {"task": "t", "arm": "a", "rep": 0, "calls": [{"tool": "x"}], "answer": "Done."}
        (folder / "runs/one.json").write_text(json.dumps(row))
    elif name == "docs/reports.md":
        (folder / "toolscore-demo").symlink_to(".")
    elif name == "docs/formats/openai.md":
        from openai.types.chat import ChatCompletion

        message = {"role": "assistant", "content": "Hello, Ada."}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        answer = {"id": "c", "created": 0, "model": "m", "object": "chat.completion"}
        response = ChatCompletion.model_validate({**answer, "choices": [choice]})
        return {"messages": [{"role": "user", "content": "Hi"}], "model": "m", "response": response}
    elif name == "docs/formats/openai_responses.md":
        from openai.types.responses import Response

        made = {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": []}
        more = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return {"log": [], "new_items": [], "response": Response.model_validate({**made, **more})}
    return {}


def pages_with_blocks() -> list[Any]:
    """Every page that has a block, as parameters of a test."""
    return [
        pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in PAGES if blocks(page)
    ]
