"""The prompt of `toolscore sql`, typed into as a person would."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from toolscore_pipeline.asking import ask
from toolscore_pipeline.cli._prompt import Names, completions, read_names, run_prompt
from toolscore_pipeline.cli.sql import show_answer
from toolscore_pipeline.errors import WarehouseError
from toolscore_pipeline.warehouse import Warehouse

Typed = Callable[[str], str]
END = ".quit\r"


@pytest.fixture(scope="module")
def warehouse(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = tmp_path_factory.mktemp("prompted")
    shutil.copy(demo / "warehouse.published.duckdb", folder)
    return Warehouse(folder / "warehouse.duckdb")


@pytest.fixture(scope="module")
def names(warehouse: Warehouse) -> Names:
    return read_names(warehouse)


@pytest.fixture
def typed(warehouse: Warehouse, capsys: pytest.CaptureFixture[str]) -> Iterator[Typed]:
    """A function that types keys at the prompt and returns what is printed."""
    with create_pipe_input() as keys:

        def type_in(text: str) -> str:
            keys.send_text(text)
            run_prompt(
                warehouse,
                lambda query: show_answer(ask(warehouse, query), "csv"),
                folder=warehouse.path.parent,
                input=keys,
                output=DummyOutput(),
            )
            return capsys.readouterr().out

        yield type_in


def test_a_query_over_several_lines_ends_with_a_semicolon(typed: Typed) -> None:
    shown = typed("select variant,\rrun_count\rfrom marts.variant_stats\rorder by variant;\r" + END)
    assert "variant,run_count\nbaseline,36\ncandidate,36\n" in shown


def test_an_error_is_told_and_does_not_end_the_prompt(typed: Typed) -> None:
    shown = typed("drop table settings.state;\rselec 1;\r.tabels\rselect 41 + 1 as x;\r" + END)
    assert "error: expected a SELECT, got DROP" in shown
    assert 'error: Parser Error: syntax error at or near "selec"' in shown
    assert "did you mean '.tables'" in shown
    assert shown.endswith("x\n42\n")


def test_the_ends_of_a_prompt(typed: Typed) -> None:
    assert typed("select 1 as one;\r\x04").endswith("one\n1\n")
    assert typed(".exit\r")
    # Ctrl-C drops the line and stays; blank lines and lone semicolons ask nothing.
    assert typed("select 'half\x03\r;\rselect 2 as two;\r" + END).endswith("two\n2\n")


def test_tables_and_columns_are_described(typed: Typed) -> None:
    shown = typed(".tables marts\r.describe marts.leaks\r.macros\r.help\r" + END)
    assert 'marts.failing_runs,view,,"The runs that fail or ended in an error' in shown
    assert "evidence.calls" not in shown
    assert "The credentials that agents passed into tools" in shown
    assert "preview,varchar,its first four and last two characters" in shown
    assert "wilson_low(passes, n)" in shown.replace('"', "")
    assert "A query ends with a semicolon" in shown
    wrong = typed(".describe marts.leak\r.tables mart\r.describe x' or '1'='1\r" + END)
    assert "did you mean 'marts.leaks'" in wrong
    assert "did you mean 'marts'" in wrong
    assert wrong.count("error:") == 3


def test_tab_completes(typed: Typed) -> None:
    assert typed("select count(*) as m from marts.lea\t;\r" + END).endswith("m\n0\n")


def test_history_is_kept_for_the_owner_alone(typed: Typed, warehouse: Warehouse) -> None:
    typed("select 123 as kept;\r" + END)
    history = warehouse.path.parent / ".toolscore" / "sql_history"
    assert "+select 123 as kept;" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    # The arrow brings the last query back, over the .quit before it.
    assert typed("\x1b[A\x1b[A\r" + END).endswith("kept\n123\n")


def told(names: Names, text: str) -> set[str]:
    return {name for name, _, _ in completions(names, text)}


@pytest.mark.parametrize(
    ("text", "offered", "not_offered"),
    [
        ("sel", {"select"}, {"marts"}),
        ("select * from mar", {"marts", "marts.leaks"}, {"from"}),
        ("select * from marts.fl", {"marts.flaky_tasks", "marts.flips"}, {"marts.leaks"}),
        ("select * from flaky", {"marts.flaky_tasks"}, set()),
        ("select * from marts.leaks where arg", {"argument_path"}, {"args_json"}),
        ("select * from evidence.calls as c where c.args", {"args_json", "args_raw"}, {"args"}),
        ("select * from evidence.calls c join evidence.runs r on r.ta", {"task"}, {"tool"}),
        ("select evidence.calls.to", {"tool"}, {"task"}),
        ("select wil", {"wilson_low", "wilson_high"}, set()),
        (".d", {".describe"}, {".tables"}),
        (".describe marts.le", {"marts.leaks"}, {"marts"}),
        (".tables ma", {"marts"}, {"marts.leaks"}),
    ],
)
def test_completion(names: Names, text: str, offered: set[str], not_offered: set[str]) -> None:
    found = told(names, text)
    assert offered <= found
    assert not not_offered & found


def test_what_is_offered_replaces_what_was_typed(names: Names) -> None:
    for text in ("select * from marts.lea", "from evidence.calls as c where c.args_j", ".desc"):
        [(name, replaced, _)] = completions(names, text)
        assert name.startswith(text[len(text) - replaced :])


def test_without_a_published_copy_there_is_no_prompt(tmp_path: Path) -> None:
    with pytest.raises(WarehouseError, match="run toolscore build"):
        run_prompt(Warehouse(tmp_path / "w.duckdb"), print, folder=tmp_path)


def test_a_query_on_the_command_line_does_not_load_the_prompt(warehouse: Warehouse) -> None:
    (warehouse.path.parent / "toolscore.yaml").write_text("sources: []\n")
    program = (
        "import sys; from toolscore_pipeline.cli import main;"
        f"code = main(['sql', '--project', {str(warehouse.path.parent)!r}, 'select 1']);"
        "print(code, 'prompt_toolkit' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.endswith("0 False\n"), done.stderr
