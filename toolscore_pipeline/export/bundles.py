"""Evidence kept beside the records: the sources' bytes, and opening them where a record points.

A bundle is a folder with the records, their manifest and ``artifacts/``. A source that is a file
is kept byte for byte. A query has no bytes of its own: what it yielded for the exported runs is
kept as JSON Lines, one line per run, with the value that each locator names.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.export.manifest import ManifestBuilder, media_type
from toolscore_pipeline.export.records import plain
from toolscore_pipeline.hashing import canonical_json, file_sha256

FOLDER = "artifacts"
_SUFFIXES = re.compile(r"(\.[A-Za-z0-9]{1,10}){1,2}$")
_PLACE = re.compile(
    r"(?:(?P<unit>line|row) (?P<number>\d+)|(?P<member>[^$].*\.json))? ?(?P<path>\$.*)?", re.DOTALL
)
_STEP = re.compile(r'\.([A-Za-z_$][\w$-]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')


class Bundle:
    """The folder of an export whose evidence is kept with it.

    Args:
        folder: where the records and ``artifacts/`` go; it is made when it is not there.
        root: the folder that relative source paths start from; default the current one.
    """

    def __init__(self, folder: str | Path, root: Path | None = None) -> None:
        self.folder = Path(folder)
        self.root = root or Path()
        self._queries: dict[str, io.BufferedWriter] = {}
        try:
            (self.folder / FOLDER).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot be made: {error.strerror}", path=folder) from None

    def take(self, record: Mapping[str, Any]) -> None:
        """Keep what a query yielded for a record; files are kept whole in the end."""
        source = record["source"]
        if source["kind"] != "query":
            return
        sha256 = source["sha256"]
        if sha256 not in self._queries:
            self._queries[sha256] = open(self._query_file(sha256), "wb")  # noqa: SIM115 - see keep
        values: dict[str, Any] = {}
        for call in record["requested_calls"]:
            values[call["source"]["locator"]] = {
                "tool": call["tool"],
                "args": call["arguments"],
            }
        for call in record["completed_calls"]:
            if call["source"] is not None:
                found = values.setdefault(call["source"]["locator"], {})
                found |= {
                    name: call[name] for name in ("result", "error") if call[name] is not None
                }
        line = {"locator": source["locator"], "run_id": record["run_id"], "values": values}
        line["final_answer"] = record["final_answer"]["value"]
        self._queries[sha256].write(canonical_json(plain(line)) + b"\n")

    def keep(self, builder: ManifestBuilder) -> dict[str, dict[str, Any]]:
        """Copy the sources of an export; returns the kept files by the hash of their source.

        Raises:
            InputError: a source that is gone, or whose bytes are not those the records were made
                from.
        """
        kept: dict[str, dict[str, Any]] = {}
        for sha256, path, kind in builder.sources:
            if kind == "query":
                self._queries[sha256].close()
                file = self._query_file(sha256)
                own, size = file_sha256(file)
                kept[sha256] = _entry(file, "evidence", own, size, "application/x-ndjson")
                continue
            source = self.root / path
            kept[sha256] = self._copy(source, sha256, path)
            for trace, named, digest in _trace_of_receipt(source):
                kept.setdefault(digest, self._copy(trace, digest, named))
        return kept

    def _copy(self, source: Path, sha256: str, path: str) -> dict[str, Any]:
        if not source.is_file():
            raise InputError("the source is gone, so it cannot be kept", path=path)
        suffix = _SUFFIXES.search(source.name)
        file = self.folder / FOLDER / f"{sha256}{suffix[0] if suffix else ''}"
        aside = file.with_name(f".{file.name}.new")
        shutil.copyfile(source, aside)
        own, size = file_sha256(aside)
        if own != sha256:
            aside.unlink()
            raise InputError(
                "the source changed since its runs were read; load it again first", path=path
            )
        aside.replace(file)
        return _entry(file, "source", own, size, media_type(path))

    def _query_file(self, sha256: str) -> Path:
        return self.folder / FOLDER / f"{sha256}.evidence.jsonl"


def _trace_of_receipt(source: Path) -> Iterator[tuple[Path, str, str]]:
    """The trace that a source names when it is a receipt: its file, path and SHA-256."""
    from toolscore_pipeline.formats import receipts as format
    from toolscore_pipeline.receipts import is_receipt

    if source.suffix != ".json" or not is_receipt(source):
        return
    trace = json.loads(source.read_bytes())["inputs"]["trace"]
    file = format.trace_file(trace, source)
    if file is not None:
        yield file, trace["path"], trace["sha256"]


def _entry(file: Path, kind: str, sha256: str, size: int, media: str) -> dict[str, Any]:
    return {
        "file": f"{FOLDER}/{file.name}",
        "kind": kind,
        "file_sha256": sha256,
        "bytes": size,
        "media_type": media,
    }


class Evidence:
    """The kept artifacts of an export, opened where its records point.

    Args:
        folder: the folder of the export.
        manifest: its manifest.
    """

    def __init__(self, folder: str | Path, manifest: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self._entries = {entry["sha256"]: entry for entry in manifest["artifacts"]}
        self._lines: dict[str, list[bytes]] = {}
        self._values: dict[str, Any] = {}
        self._rows: dict[str, dict[str, Any]] = {}

    def path(self, sha256: str) -> Path | None:
        """The kept file of a source; None when it was not kept."""
        entry = self._entries.get(sha256)
        return self.folder / entry["file"] if entry is not None else None

    def problems(self) -> list[str]:
        """Kept files that are gone or do not have the bytes they had; a sentence each."""
        found = []
        for entry in self._entries.values():
            path = self.folder / entry["file"]
            if not path.is_file():
                found.append(f"{entry['file']}: the kept source is gone")
            elif file_sha256(path)[0] != entry["file_sha256"]:
                found.append(f"{entry['file']}: the kept source was changed")
        return found

    def open(self, sha256: str, locator: str | None) -> Any:
        """The value that stands at a locator of a kept source.

        Raises:
            InputError: the source was not kept, or nothing stands there.
        """
        entry = self._entries.get(sha256)
        if entry is None:
            raise InputError(f"the source {sha256[:12]}... was not kept")
        if entry["kind"] == "evidence":
            return self._open_row(entry, locator or "")
        place = _PLACE.fullmatch(locator or "$")
        if place is None:
            raise InputError(f"the locator {locator!r} cannot be followed", path=entry["file"])
        if place["unit"] == "row":
            value = self._parquet_row(entry, int(place["number"]))
        elif place["member"]:
            value = self._archived(entry, place["member"])
        elif place["unit"] == "line":
            value = self._line(entry, int(place["number"]))
        else:
            value = self._whole(entry)
        return _follow(value, place["path"] or "$", entry["file"])

    def _open_row(self, entry: Mapping[str, Any], locator: str) -> Any:
        name = entry["file"]
        if name not in self._rows:
            self._rows[name] = {}
            for line in self._read(entry).splitlines():
                row = json.loads(line)
                self._rows[name][row["locator"]] = row
                self._rows[name] |= row["values"]
        if locator not in self._rows[name]:
            raise InputError(f"nothing stands at {locator!r}", path=name)
        return self._rows[name][locator]

    def _read(self, entry: Mapping[str, Any]) -> bytes:
        data: bytes = (self.folder / entry["file"]).read_bytes()
        if data[:2] == b"\x1f\x8b":
            return gzip.decompress(data)
        if data[:4] == b"\x28\xb5\x2f\xfd":
            import zstandard

            with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)) as reader:
                return bytes(reader.read())
        return data

    def _whole(self, entry: Mapping[str, Any]) -> Any:
        name = entry["file"]
        if name not in self._values:
            text = self._read(entry).decode("utf-8-sig", "replace")
            try:
                self._values[name] = json.loads(text)
            except ValueError as error:
                raise InputError(f"is no JSON document: {error}", path=name) from None
        return self._values[name]

    def _line(self, entry: Mapping[str, Any], number: int) -> Any:
        name = entry["file"]
        if name not in self._lines:
            self._lines[name] = self._read(entry).split(b"\n")
        lines = self._lines[name]
        if not 1 <= number <= len(lines):
            raise InputError(f"has no line {number}", path=name)
        try:
            return json.loads(lines[number - 1].decode("utf-8-sig", "replace"))
        except ValueError as error:
            raise InputError(f"line {number} is no JSON: {error}", path=name) from None

    def _archived(self, entry: Mapping[str, Any], member: str) -> Any:
        name = entry["file"]
        try:
            with zipfile.ZipFile(self.folder / name) as archive:
                return json.loads(archive.read(member))
        except (KeyError, zipfile.BadZipFile, ValueError):
            raise InputError(f"the archive has no readable {member}", path=name) from None

    def _parquet_row(self, entry: Mapping[str, Any], number: int) -> Any:
        import pyarrow.parquet as parquet

        name = entry["file"]
        if name not in self._values:
            self._values[name] = parquet.read_table(self.folder / name)
        rows = self._values[name].slice(number - 1, 1).to_pylist()
        if not rows:
            raise InputError(f"has no row {number}", path=name)
        return rows[0]


def _follow(value: Any, path: str, name: str) -> Any:
    """The value at a JSON path, which names things as the readers of trace formats see them."""
    position = 1
    value = _opened(value)
    while position < len(path):
        for end in _step_ends(path, position):
            found = _member(value, path[position:end])
            if found is not _NOTHING:
                value, position = _opened(found), end
                break
        else:
            raise InputError(f"nothing stands at {path!r}", path=name)
    return value


_NOTHING = object()
# Containers that a format puts around what the readers see.
_WRAPPERS = ("data", "kwargs", "body", "message", "attributes")


def _step_ends(path: str, start: int) -> Iterator[int]:
    """Where the next step of a path may end: keys may hold dots, so the longest comes last."""
    step = _STEP.match(path, start)
    while step is not None:
        yield step.end()
        if path[start] != "." or path[step.end() : step.end() + 1] != ".":
            return
        step = _STEP.match(path, step.end())


def _member(value: Any, step: str) -> Any:
    """What one step leads to; ``_NOTHING`` when it leads nowhere."""
    key: Any = step[1:]
    if step[0] == "[":
        key = json.loads(step[1:-1])
    if isinstance(key, int):
        return value[key] if isinstance(value, list) and key < len(value) else _NOTHING
    if isinstance(value, list):  # attributes of OpenTelemetry: a list of keys and values
        pairs = {item.get("key"): item.get("value") for item in value if isinstance(item, dict)}
        return _member(pairs, step) if pairs.keys() - {None} else _NOTHING
    if not isinstance(value, dict):
        return _NOTHING
    if key in value:
        return value[key]
    for wrapper in _WRAPPERS:
        if wrapper in value:
            found = _member(_opened(value[wrapper]), step)
            if found is not _NOTHING:
                return found
    return _NOTHING


def _opened(value: Any) -> Any:
    """A value without the AnyValue of OpenTelemetry around it, and JSON text as what it says."""
    while isinstance(value, dict) and len(value) == 1:
        (kind,) = value
        if kind in ("kvlistValue", "arrayValue"):
            value = value[kind].get("values", [])
        elif kind == "stringValue":
            value = value[kind]
        else:
            break
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
