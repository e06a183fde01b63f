"""What lies in the files of a project: have they changed, and are they being written just now.

A file counts as changed when its bytes did: looked at are names, sizes and times first, and only
where these are others the bytes, unless the warehouse has read that very file.
"""

from __future__ import annotations

import glob
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from toolscore_pipeline.connecting import connect
from toolscore_pipeline.errors import InputError
from toolscore_pipeline.hashing import file_sha256, json_sha256
from toolscore_pipeline.loading import find_files

if TYPE_CHECKING:
    from toolscore_pipeline.project import Project

# A file written less than this many seconds ago may still be written to.
SETTLE_SECONDS = 3.0

SOURCES, JUDGMENTS = "sources", "judgments"


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """A file of a project.

    Attributes:
        part: ``sources`` for what runs are read from, ``judgments`` for all that decides grades,
            comparisons and exports.
        path: the file.
        shown: its path from the project's folder.
        bytes, modified_ns: its size and time; -1 when it is gone.
        changed_ns: the later of its own time and that of its entry, which a copy cannot set back.
    """

    part: str
    path: Path
    shown: str
    bytes: int
    modified_ns: int
    changed_ns: int


def watched_files(project: Project) -> list[WatchedFile]:
    """Every file that a project is made of, by part and path."""
    found: dict[tuple[str, Path], None] = {}
    for source in project.sources:
        if source.path is not None:
            try:
                found.update(dict.fromkeys((SOURCES, path) for path in find_files(source)))
            except InputError:  # nothing is there yet
                continue
    others: list[Path | None] = [project.file, project.grading.forbidden, project.grading.honesty]
    others += [comparison.protocol for comparison in project.comparisons]
    for pattern in project.contracts:
        others += [Path(path) for path in glob.glob(str(project.root / pattern), recursive=True)]
    found.update(dict.fromkeys((JUDGMENTS, path) for path in others if path is not None))
    files = [_look_at(project.root, part, path) for part, path in found]
    return sorted(files, key=lambda file: (file.part, file.shown))


def _look_at(root: Path, part: str, path: Path) -> WatchedFile:
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    try:
        stat = path.stat()
    except OSError:
        return WatchedFile(part, path, shown, -1, -1, 0)
    changed = max(stat.st_mtime_ns, stat.st_ctime_ns)
    return WatchedFile(part, path, shown, stat.st_size, stat.st_mtime_ns, changed)


def is_settled(files: Iterable[WatchedFile], now: float | None = None) -> bool:
    """Whether no file was written within the last seconds."""
    limit = ((time.time() if now is None else now) - SETTLE_SECONDS) * 1e9
    return all(file.changed_ns <= limit for file in files)


Known = Mapping[tuple[str, int, int], str]


def known_hashes(published: Path) -> Known:
    """The SHA-256 of files that a published warehouse has read, by path, size and time."""
    if not published.is_file():
        return {}
    try:
        with connect(str(published), read_only=True) as connection:
            rows = connection.execute(
                "select path, bytes, modified_ns, sha256 from raw.documents"
            ).fetchall()
    except duckdb.Error:
        return {}
    return {(path, size, modified): sha256 for path, size, modified, sha256 in rows}


def content_hash(files: Iterable[WatchedFile], known: Known | None = None) -> str:
    """A hash over the names and bytes of files; times play no part."""
    known = known or {}
    return json_sha256([[file.shown, _sha256(file, known)] for file in files])


def _sha256(file: WatchedFile, known: Known) -> str | None:
    found = known.get((file.shown, file.bytes, file.modified_ns))
    if found is not None:
        return found
    try:
        return file_sha256(file.path)[0]
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Glance:
    """What was seen of a project's files at the last look, as a cursor keeps it.

    Attributes:
        looks: a hash over names, sizes and times, of files that had settled.
        unsettled: the same of files that had not.
        sources, judgments: hashes over the bytes of each part.
        changes: how often a change was found.
    """

    looks: str = ""
    unsettled: str = ""
    sources: str = ""
    judgments: str = ""
    changes: int = 0

    @classmethod
    def read(cls, text: str | None) -> Glance:
        """The glance of a cursor; a blank one when there is none, or none of this form."""
        try:
            found = json.loads(text or "{}")
            return cls(**found)
        except (ValueError, TypeError):
            return cls()

    def write(self) -> str:
        """The cursor."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at the files found.

    Attributes:
        glance: what to remember.
        changed: the parts whose bytes changed, sorted.
        reason: why there is nothing to do; empty when there is.
    """

    glance: Glance
    changed: tuple[str, ...] = ()
    reason: str = ""


def look(project: Project, before: Glance, now: float | None = None) -> Look:
    """Compare a project's files with what was seen of them before.

    Args:
        project: the project.
        before: what was seen.
        now: seconds since 1970; default the clock's.
    """
    files = watched_files(project)
    looks = json_sha256([[f.part, f.shown, f.bytes, f.modified_ns] for f in files])
    if looks == before.looks:
        return Look(replace(before, unsettled=""), reason="no name, size or time changed")
    # Clocks of other machines may be ahead: what looks the same twice has settled too.
    if not is_settled(files, now) and looks != before.unsettled:
        return Look(replace(before, unsettled=looks), reason="files are being written")
    known = known_hashes(project.published)
    parts = {
        part: content_hash([file for file in files if file.part == part], known)
        for part in (SOURCES, JUDGMENTS)
    }
    changed = tuple(part for part in sorted(parts) if parts[part] != getattr(before, part))
    glance = Glance(
        looks=looks,
        sources=parts[SOURCES],
        judgments=parts[JUDGMENTS],
        changes=before.changes + bool(changed),
    )
    return Look(glance, changed, "" if changed else "times changed, the bytes did not")
