"""The site of the documentation: its links lead somewhere, and its pages load nothing from afar."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml

from tests.docs_pages import check_steps
from toolscore_pipeline.cli import verbs
from toolscore_pipeline.plan import load_plan

ROOT = Path(__file__).resolve().parent.parent
# Loading these from elsewhere would tell somebody who reads what.
LOADING = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}


@dataclass
class Page(HTMLParser):
    """What a page links to, loads and can be linked at."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if given.get(LOADING.get(tag, "")):
            self.loaded.append(given[LOADING[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    found = {}
    for path in sorted(site.rglob("*.html")):
        found[path] = Page()
        found[path].feed(path.read_text(encoding="utf-8"))
    return found


def test_every_link_and_anchor_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    broken, count = [], 0
    for path, page in pages.items():
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                broken.append(f"{path.relative_to(site)}: {link}")
            elif parts.fragment and target.suffix == ".html":
                anchors = pages[target].anchors
                if unquote(parts.fragment) not in anchors and parts.fragment != "__skip":
                    broken.append(f"{path.relative_to(site)}: {link}, no such anchor")
    assert not broken, "\n".join(broken)
    assert count > 3000


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert not [link for link in page.loaded if urlsplit(link).netloc], path
    for path in site.rglob("*.css"):
        asked = re.findall(r"(?:url\(|@import\s)\s*['\"]?([^)'\"]+)", path.read_text("utf-8"))
        outside = [target for target in asked if re.match(r"(?:https?:)?//", target)]
        assert not outside, path


def outward(text: str) -> Iterator[str]:
    """Relative targets of the links of a Markdown text that lie outside of its own page."""
    bare = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", bare):
        if not urlsplit(target).scheme and not target.startswith("#"):
            yield target.partition("#")[0]


def test_links_between_files_hold_where_git_shows_them() -> None:
    texts = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    texts += (ROOT / "examples").rglob("*.md")
    missing = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in texts
        for target in outward(path.read_text(encoding="utf-8"))
        if not (path.parent / target).exists()
    ]
    assert not missing, "\n".join(missing)


def test_paths_that_pages_name_are_there() -> None:
    missing = []
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = path.read_text(encoding="utf-8")
        for name in re.findall(
            r"`((?:examples|docs|sql|toolscore_pipeline|tests)/[\w./-]+\w)`", text
        ):
            if not (ROOT / name).exists():
                missing.append(f"{path.relative_to(ROOT)}: {name}")
    assert not missing, "\n".join(missing)


def test_the_reference_is_made_of_the_code_and_the_sql(site: Path) -> None:
    def text(name: str) -> str:
        raw = (site / "reference" / name).read_text(encoding="utf-8")
        return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", raw))

    tables, commands, macros = text("tables.html"), text("commands.html"), text("macros.html")
    for model in load_plan():
        assert f"{model.full_name}" in tables
        assert all(column.name in tables for column in model.columns)
    assert all(f"toolscore {verb}" in commands for verb in verbs())
    assert "--unsafe" in commands
    assert "fisher_p(9, 1, 3, 7)" in macros
    front = text("python.html")
    assert all(name in front for name in ("evaluate_many", "compare_runs(", "select_variant("))
    assert "receipt-v1.schema.json" in text("schemas.html")
    assert "allow_paid" in text("project-file.html")


def test_no_page_is_made_in_the_tree(site: Path) -> None:
    assert (site / "index.html").is_file()
    assert not (ROOT / "docs/index.md").exists()
    assert not (ROOT / "docs/reference").exists()


def test_the_workflow_that_gates_uses_the_action_as_it_is() -> None:
    workflow = yaml.safe_load((ROOT / "examples/workflows/gate.yml").read_text(encoding="utf-8"))
    check_steps(workflow)
    [step] = [s for s in workflow["jobs"]["agent"]["steps"] if s.get("id") == "toolscore"]
    step["with"]["gold-fiel"] = step["with"].pop("gold-file")
    with pytest.raises(AssertionError, match="gold-fiel"):
        check_steps(workflow)


def test_the_commands_of_the_workflow_run(demo: Path, tmp_path: Path) -> None:
    """Its SQL gate passes a project without findings, stops one with a row too many or an error."""
    workflow = yaml.safe_load((ROOT / "examples/workflows/gate.yml").read_text(encoding="utf-8"))
    [gate] = [s for s in workflow["jobs"]["project"]["steps"] if "marts.leaks" in s.get("run", "")]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    # What GitHub runs: without a shell that is named, a pipe hides what fails in it.
    options = "-eo pipefail" if gate.get("shell") == "bash" else "-e"

    def code(script: str) -> int:
        script = script.replace("toolscore sql", f"toolscore sql --project {demo}")
        return subprocess.run(
            ["bash", *options.split(), "-c", script], cwd=tmp_path, env=environment,
            capture_output=True, check=False,
        ).returncode  # fmt: skip

    assert code(gate["run"]) == 0
    worse = gate["run"].replace("marts.regressions", "marts.failing_runs, (select '' as reason)")
    assert code(worse) == 1
    one_worse = worse.replace("(select '' as reason)", "(select '' as reason) limit 1")
    assert code(one_worse.replace("marts.leaks", "marts.no_such")) == 2
