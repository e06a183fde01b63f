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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.export.manifest import ManifestBuilder, media_type
from toolscore_pipeline.export.records import plain
from toolscore_pipeline.hashing import canonical_json, file_sha256

FOLDER = "artifacts"
_SUFFIXES = re.compile(r"(\.[A-Za-z0-9]{1,10}){1,2}$")
_PLACE = re.compile(r"(?:(?P<unit>line|row) (?P<number>\d+))? ?(?P<path>\$.*)?", re.DOTALL)
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
            kept[sha256] = _entry(file, "source", own, size, media_type(path))
        return kept

    def _query_file(self, sha256: str) -> Path:
        return self.folder / FOLDER / f"{sha256}.evidence.jsonl"


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

    def _parquet_row(self, entry: Mapping[str, Any], number: int) -> Any:
        import pyarrow.parquet as parquet

        name = entry["file"]
        if name not in self._values:
            self._values[name] = parquet.read_table(self.folder / name)
        rows = self._values[name].slice(number - 1, 1).to_pylist()
        if not rows:
            raise InputError(f"has no row {number}", path=name)
        row = rows[0]
        for key in ("calls", "messages"):
            if isinstance(row.get(key), str):
                row[key] = json.loads(row[key])
        return row


def _follow(value: Any, path: str, name: str) -> Any:
    """The value at a JSON path."""
    position = 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise InputError(f"the locator {path!r} cannot be followed", path=name)
        key: Any = step[1] or (int(step[2]) if step[2] else json.loads(step[3]))
        if isinstance(value, str) and key in ("calls", "messages"):
            value = json.loads(value)
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            raise InputError(f"nothing stands at {path!r}", path=name) from None
        position = step.end()
    return value
