"""An engineer's day in the UI: Debian's Chromium drives the real ``toolscore ui``.

What each test saw is kept as a picture in ``test-artifacts/``, or in the folder that the variable
TOOLSCORE_TEST_ARTIFACTS names.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.project_helpers import ask
from tests.ui_helpers import DONE, ROOT, UiProcess, graphql, patience, processes_on, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

ARTIFACTS = Path(os.environ.get("TOOLSCORE_TEST_ARTIFACTS", ROOT / "test-artifacts"))
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
# Nothing but the page is loaded: no update, no account, no other protocol.
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LOCATION = "toolscore_pipeline.definitions"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium on this machine; apt-get install chromium"
    ),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
]

SENSORS = """{ repositoriesOrError { ... on RepositoryConnection { nodes { sensors {
  name sensorState { status } } } } } }"""
MATERIALIZED = """query Made($run: ID!) { runOrError(runId: $run) { ... on Run {
  status assets { key { path } } } } }"""


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UiProcess]:
    folder = tmp_path_factory.mktemp("browser") / "helpdesk"
    made = ("*.duckdb", "*.wal", "exports", "reports", ".toolscore")
    shutil.copytree(ROOT / "examples/helpdesk", folder, ignore=shutil.ignore_patterns(*made))
    running = UiProcess(folder)
    try:
        wait_for("the webserver", running.is_up, 4 * patience())
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def context(
    ui: UiProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BrowserContext, set[str]]]:
    """A browser with nothing in it, and the hosts that its pages ask for something."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    hosts: set[str] = set()
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=CHROMIUM,
            args=ARGUMENTS,
            viewport={"width": 1500, "height": 1000},
        )
        opened.set_default_timeout(1000 * min(patience(), 120))
        opened.on("request", lambda request: hosts.add(urlsplit(request.url).hostname or ""))
        yield opened, hosts
        opened.close()


class Seat:
    """A page of the browser on the UI."""

    def __init__(self, page: Page, ui: UiProcess, name: str) -> None:
        self.page, self.ui, self.name, self.count = page, ui, name, 0

    def go(self, path: str) -> None:
        self.page.goto(self.ui.address + path, wait_until="domcontentloaded")

    def see(self, text: str | re.Pattern[str]) -> Locator:
        """Wait until a text is shown."""
        found = self.page.get_by_text(text).first
        found.wait_for()
        return found

    def press(self, text: str) -> None:
        self.page.get_by_role("button").filter(has_text=text).last.click()

    def keep(self, what: str = "") -> None:
        """Keep a picture of what is seen."""
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        name = "-".join(filter(None, (self.name.removeprefix("test_"), what)))
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")

    def follow(self, status: str) -> str:
        """Go to the run that was launched just now and wait until it ends so; returns its id."""
        self.see(re.compile("^Launched run"))
        self.page.get_by_text("View", exact=True).click()
        self.page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}"))
        ended = self.page.get_by_text(re.compile("^(Success|Failure|Canceled)$")).first
        ended.wait_for()
        assert ended.inner_text() == status
        return urlsplit(self.page.url).path.rsplit("/", 1)[1]


@pytest.fixture
def seat(
    context: tuple[BrowserContext, set[str]], ui: UiProcess, request: pytest.FixtureRequest
) -> Iterator[Seat]:
    taken = Seat(context[0].new_page(), ui, request.node.name)
    try:
        yield taken
    finally:
        taken.keep()  # also of a test that failed
        taken.page.close()


@pytest.fixture(scope="module")
def quiet(context: tuple[BrowserContext, set[str]], ui: UiProcess) -> None:
    """Automation is switched off on its page, so that runs are those that the tests launch."""

    def running() -> set[str]:
        [repository] = graphql(ui.address, SENSORS)["repositoriesOrError"]["nodes"]
        return {
            sensor["name"]
            for sensor in repository["sensors"]
            if sensor["sensorState"]["status"] == "RUNNING"
        }

    assert running() == {"changed_files", "content_flow"}
    seat = Seat(context[0].new_page(), ui, "automation_is_switched_off")
    for _ in range(8):  # a click is lost when the list is drawn anew beneath it
        on = running()
        if not on:
            break
        seat.go("/automation")
        for name in ("changed_files", "content_flow", "nightly_regrade"):
            seat.see(name)
        # The switches that are on, in the order of their names; the schedule's is the last.
        seat.page.locator("label:has(input:checked)").first.click()
        with suppress(AssertionError):
            wait_for("one is off", lambda on=on: running() != on, patience() / 4)  # type: ignore[misc]
    seat.keep()
    assert running() == set()
    seat.page.close()
    wait_for("no run is going on", lambda: all(run["status"] in DONE for run in ui.runs()))


@pytest.fixture(scope="module")
def everything(context: tuple[BrowserContext, set[str]], ui: UiProcess, quiet: None) -> str:
    """The id of the run that the button of the lineage launched, when it has succeeded."""
    # Whatever ran before automation was switched off, here is something new to grade.
    traces = ui.folder / "traces/candidate"
    trace = (traces / "refund-order-r1.json").read_text(encoding="utf-8")
    (traces / "refund-order-r4.json").write_text(trace.replace("R-956", "R-957"), encoding="utf-8")
    seat = Seat(context[0].new_page(), ui, "everything_is_materialised")
    seat.go("/asset-groups")
    seat.press("Materialize all")
    run_id = seat.follow("Success")
    seat.page.get_by_placeholder("Filter…").fill("pairs of run and contract")
    # How far it came, in the log of the step.
    seat.see(re.compile(r"graded (\d+) of \1 pairs of run and contract, [\d,]+ a second; nothing"))
    seat.keep()
    seat.page.close()
    return run_id


@pytest.fixture(scope="module")
def backfill(context: tuple[BrowserContext, set[str]], ui: UiProcess, everything: str) -> str:
    """The id of a backfill of all sources, just launched: Dagster takes half a minute to begin."""
    seat = Seat(context[0].new_page(), ui, "a_backfill_is_launched")
    seat.go(f"/locations/{LOCATION}/jobs/one_source/partitions")
    seat.see("Missing partitions")
    seat.press("Launch backfill")
    seat.page.get_by_role("button", name="All", exact=True).click()
    seat.keep("form")
    seat.press("Submit 2 runs")
    seat.see("2 partitions")
    link = seat.page.locator("a[href*='/runs/b/']").first
    backfill_id = str(link.get_attribute("href")).split("/runs/b/")[1].split("?")[0]
    seat.keep()
    seat.page.close()
    return backfill_id


def test_the_lineage_shows_the_layers(seat: Seat) -> None:
    seat.go("/asset-groups")
    for group in ("evidence", "judgments", "grades", "receipts", "marts", "exports", "published"):
        # Once in the list at the side, once as a node of the graph.
        wait_for(
            f"group {group} in the graph",
            lambda group=group: seat.page.get_by_text(group, exact=True).count() >= 2,  # type: ignore[misc]
        )
    seat.keep("groups")
    seat.page.get_by_text("evidence", exact=True).last.click()
    seat.see("documents")


def test_everything_is_materialised_by_the_button(
    seat: Seat, everything: str, backfill: str
) -> None:
    made = graphql(seat.ui.address, MATERIALIZED, {"run": everything})["runOrError"]
    assert made["status"] == "SUCCESS"
    keys = {tuple(asset["key"]["path"]) for asset in made["assets"]}
    assert {("evidence", "runs"), ("marts", "flips"), ("published", "warehouse")} <= keys
    assert (seat.ui.folder / "exports/records.jsonl").read_bytes().count(b"\n") == 79
    seat.go("/asset-groups")
    seat.see("evidence")


def test_an_asset_shows_rows_columns_preview_and_picture(seat: Seat, everything: str) -> None:
    seat.go("/assets/marts/variant_stats?view=overview")
    row_count = seat.see("Row count").locator("xpath=..")
    assert "2" in row_count.inner_text().split()
    seat.see("The summary of each variant of a comparison.")
    seat.see("runs that passed")  # what a column holds
    seat.see("variant_stats.sql")  # where it is written
    seat.keep("overview")
    seat.go("/assets/marts/variant_stats?view=events")
    seat.see("preview")
    table = seat.page.locator("table table, td div table").filter(has_text="candidate").first
    table.wait_for()
    assert table.locator("th").first.inner_text() == "comparison"
    cells = table.locator("tr").filter(has_text="candidate").locator("td").all_inner_texts()
    assert cells[:4] == ["versions", "candidate", "36", "35"]
    seat.page.get_by_text("[Show Markdown]").first.click()
    picture = seat.page.locator("img[src^='data:image/png']").first
    picture.wait_for()
    assert picture.evaluate("image => image.naturalWidth") > 200
    # The window has come to rest when its button could be pressed.
    seat.page.get_by_role("button").filter(has_text="Close").click(trial=True)


def test_grades_show_their_evidence_as_figures(seat: Seat, everything: str) -> None:
    seat.go("/assets/grades/grades?view=events")
    [(passed, failed)] = ask(
        seat.ui.folder, "select sum(pass_count), sum(fail_count) from grades.grades"
    )
    for name, value in {"evidence_pass": passed, "evidence_fail": failed}.items():
        row = seat.page.locator("tr").filter(has_text=name).last
        row.wait_for()
        assert row.inner_text().split() == [name, str(value)]
    assert passed > failed > 0


def test_a_check_that_fails_says_why_and_what_to_do(seat: Seat, everything: str) -> None:
    broken = seat.ui.folder / "runs/broken.jsonl"
    broken.write_text('{"task_id": "refund-order", "calls": [\n', encoding="utf-8")
    try:
        seat.go("/assets/raw/rejects")
        seat.see("Latest materialization")
        seat.press("Materialize")
        seat.follow("Success")
    finally:
        broken.unlink()
    seat.go("/assets/raw/rejects?view=checks")
    seat.see("every_record_was_read")
    told = seat.see(re.compile("^1 row is against it")).inner_text()
    assert "path = runs/broken.jsonl, line = 1, reason = not JSON" in told
    assert told.endswith("it is read again when it changes.")
    seat.see(re.compile("^Failed$"))


def test_a_contract_that_is_wrong_stops_with_a_sentence(seat: Seat, everything: str) -> None:
    contract = seat.ui.folder / "contracts/refund-order.yaml"
    before = contract.read_text(encoding="utf-8")
    contract.write_text(before.replace("required:", "requird:"), encoding="utf-8")
    try:
        seat.go("/assets/judgment/judgments")
        seat.see("Latest materialization")
        seat.press("Materialize")
        seat.follow("Failure")
    finally:
        contract.write_text(before, encoding="utf-8")
    told = seat.see(re.compile("did you mean 'required'")).inner_text()
    assert re.search(r"refund-order\.yaml:\d+: at \$\.requird: unknown key 'requird'", told)
    assert "Mend the file and save it" in told


def test_the_job_of_the_schedule_is_launched(seat: Seat, everything: str) -> None:
    seat.go("/automation")
    seat.page.get_by_text("nightly_regrade").first.click()
    seat.page.get_by_role("link", name="regrade", exact=True).first.click()
    seat.press("Materialize all")
    run_id = seat.follow("Success")
    [run] = [run for run in seat.ui.runs() if run["runId"] == run_id]
    assert run["jobName"] == "regrade"


def test_a_backfill_runs_each_source(seat: Seat, backfill: str) -> None:
    def of_backfill() -> list[dict[str, Any]]:
        return [
            run
            for run in seat.ui.runs()
            if {"key": "dagster/backfill", "value": backfill} in run["tags"]
        ]

    wait_for(
        "the runs of the backfill",
        lambda: len(of_backfill()) == 2 and all(run["status"] in DONE for run in of_backfill()),
        3 * patience(),
    )
    assert {run["status"] for run in of_backfill()} == {"SUCCESS"}
    sources = {
        tag["value"]
        for run in of_backfill()
        for tag in run["tags"]
        if tag["key"] == "dagster/partition"
    }
    assert sources == {"studies", "logs"}
    seat.go(f"/locations/{LOCATION}/jobs/one_source/partitions")
    seat.see("Run duration")


def test_nothing_is_asked_of_other_machines_and_nothing_listens_to_them(
    seat: Seat, context: tuple[BrowserContext, set[str]]
) -> None:
    seat.go("/deployment/locations")
    seat.see(LOCATION)
    assert context[1] - {""} == {"127.0.0.1"}  # pictures within a page have no host
    processes = processes_on(seat.ui.folder)
    assert len(processes) > 2  # the command, Dagster, its servers and its daemon
    sockets = [found for process in processes for found in sockets_of(process)]
    listening = [address for address, _, state in sockets if state == LISTENING]
    assert ("127.0.0.1", seat.ui.port) in listening
    assert {host for host, _ in listening} == {"127.0.0.1"}
    assert {host for _, (host, port), _ in sockets if port} <= {"127.0.0.1"}


LISTENING = "0A"


def sockets_of(process: int) -> Iterator[tuple[tuple[str, int], tuple[str, int], str]]:
    """The TCP sockets of a process: both addresses and the state, as the kernel tells it."""
    inodes = set()
    try:
        for entry in Path(f"/proc/{process}/fd").iterdir():
            target = os.readlink(entry)
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    except OSError:  # it has just ended
        return
    for table in ("tcp", "tcp6"):
        path = Path(f"/proc/{process}/net/{table}")
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[9] in inodes:
                yield read_address(fields[1]), read_address(fields[2]), fields[3]


def read_address(text: str) -> tuple[str, int]:
    """An address of /proc/net: words of four bytes, the lowest first; 1.2.3.4 also within IPv6."""
    host, port = text.split(":")
    packed = b"".join(bytes.fromhex(host[i : i + 8])[::-1] for i in range(0, len(host), 8))
    if len(packed) == 16 and packed.startswith(bytes(10) + b"\xff\xff"):
        packed = packed[12:]
    family = socket.AF_INET if len(packed) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, packed), int(port, 16)


def test_the_terminal_shows_what_steps_say_and_no_events(ui: UiProcess, everything: str) -> None:
    said = ui.log.read_text(encoding="utf-8", errors="replace")
    assert re.search(r"graded (\d+) of \1 pairs of run and contract", said)
    assert " - DEBUG - " not in said


def test_it_stops_with_all_its_children(ui: UiProcess) -> None:
    assert len(processes_on(ui.folder)) > 2
    ui.process.send_signal(signal.SIGTERM)
    # The second signal of somebody impatient leaves nobody behind either.
    ui.process.send_signal(signal.SIGTERM)
    assert ui.process.wait(60) == 0
    wait_for("the end of every child", lambda: processes_on(ui.folder) == [], 30)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", ui.port)) != 0
