"""Loading traces and run rows from files, folders, globs and queries into Arrow batches.

Whatever cannot be read is set aside with its file, line and reason, and the rest loads: a bad
record is a reject; a file with nothing readable in it is also a run of status ``error``, so that it
stays in the population. Files already loaded are recognised by size and time without being read,
or by their bytes.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from toolscore_pipeline import formats, jsonio
from toolscore_pipeline.arrays import empty_table, rows_table
from toolscore_pipeline.connecting import connect
from toolscore_pipeline.errors import InputError, UsageError
from toolscore_pipeline.evidence_tables import CALLS_SCHEMA, RUNS_SCHEMA, Ordinals, TableBuilder
from toolscore_pipeline.formats import plain, run_rows
from toolscore_pipeline.formats._common import integer
from toolscore_pipeline.formats._fast_rows import RowTables
from toolscore_pipeline.hashing import file_sha256
from toolscore_pipeline.jsonio import FLAG_SENTENCES
from toolscore_pipeline.model import Run

#: How a task's name is taken from a file's name when a source does not say otherwise.
DEFAULT_TASK_PATTERN = r"^(?P<task>.+?)(?:[-_.]r?\d+)?$"

DOCUMENTS_SCHEMA = pa.schema(
    [
        ("document_id", pa.string()),
        ("source", pa.string()),
        ("path", pa.string()),
        ("sha256", pa.string()),
        ("bytes", pa.int64()),
        ("modified_ns", pa.int64()),
        ("format", pa.string()),
        ("loader_version", pa.string()),
        ("run_count", pa.int64()),
        ("reject_count", pa.int64()),
        ("error", pa.string()),
        ("warnings", pa.list_(pa.string())),
    ]
)

REJECTS_SCHEMA = pa.schema(
    [
        ("document_id", pa.string()),
        ("path", pa.string()),
        ("line", pa.int64()),
        ("json_path", pa.string()),
        ("reason", pa.string()),
        ("excerpt", pa.string()),
    ]
)

_BATCH_RUNS = 50_000
_BATCH_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 18
_EXCERPT = 120
#: What has to be held in memory whole (a JSON document; the messages or spans of one file of lines)
#: may be this large; parsed, it takes several times as much.
MAX_DOCUMENT_BYTES = 256 << 20
_TOO_MANY_PARTS = (
    f"a file with more than {MAX_DOCUMENT_BYTES >> 20} MB of messages, spans or events is not read "
    "to its end; split it"
)
# Formats whose runs take the model's name for their variant when they name none.
_NAMED_BY_MODEL = (plain.NAME, run_rows.NAME)
_LINE_SUFFIXES = (".jsonl", ".ndjson", ".jsonlines")
_PACKED_SUFFIXES = (".gz", ".zst", ".zstd")
_TRACE_SUFFIXES = (".json", *_LINE_SUFFIXES, ".eval", ".parquet")
_GZIP, _ZSTD, _ZIP, _PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"PAR1"


@dataclass(frozen=True, slots=True)
class Source:
    """Where runs come from.

    Attributes:
        name: the source's name.
        path: a file, a folder (read whole) or a glob, relative to ``root``.
        query: a DuckDB query that yields run-row columns, instead of a path.
        format: a trace format's name, or ``auto``.
        variant: the variant of runs that name none, made of ``{parent}``, ``{grandparent}``,
            ``{stem}``, ``{name}`` and ``{source}``; None leaves it unknown.
        task: a regular expression on the file's stem with a group ``task`` (and, if wanted,
            ``repetition``) for runs that name none; None takes ``DEFAULT_TASK_PATTERN``.
        root: the folder that relative paths start from; None is the current one.
    """

    name: str
    path: str | None = None
    query: str | None = None
    format: str = formats.AUTO
    variant: str | None = None
    task: str | None = None
    root: Path | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a file loaded before: its size, time, content and the loader's version."""

    bytes: int
    modified_ns: int
    sha256: str
    loader_version: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far loading has come.

    Attributes:
        path: the file being read.
        file_count, files_done: files in all, and finished.
        byte_count, bytes_done: their bytes in all, and read or skipped.
        run_count: runs found so far.
    """

    path: str
    file_count: int
    files_done: int
    byte_count: int
    bytes_done: int
    run_count: int


@dataclass(slots=True)
class Batch:
    """Some of what was loaded; a document's row comes with the last of its runs.

    Attributes:
        documents: rows of ``DOCUMENTS_SCHEMA``, one for each document finished.
        runs: rows of ``evidence_tables.RUNS_SCHEMA``.
        calls: rows of ``evidence_tables.CALLS_SCHEMA``.
        rejects: rows of ``REJECTS_SCHEMA``.
        unchanged: paths that were skipped, their size and time being as known.
        touched: paths with a new time and the same bytes; their documents stand here again without
            runs.
        changed: paths whose bytes, or whose loader, changed; their former runs are replaced.
    """

    documents: pa.Table = field(default_factory=lambda: empty_table(DOCUMENTS_SCHEMA))
    runs: pa.Table = field(default_factory=lambda: empty_table(RUNS_SCHEMA))
    calls: pa.Table = field(default_factory=lambda: empty_table(CALLS_SCHEMA))
    rejects: pa.Table = field(default_factory=lambda: empty_table(REJECTS_SCHEMA))
    unchanged: list[str] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


@functools.cache
def code_version() -> str:
    """A hash over the sources that decide what is read from a document."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for file in [
        *sorted((folder / "formats").glob("*.py")),
        folder / "jsonio.py",
        folder / "evidence_tables.py",
        folder / "loading.py",
    ]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def loader_version(source: Source) -> str:
    """The version of the loader for one source: its code, and the settings that shape its runs."""
    settings = f"{code_version()}\0{source.format}\0{source.variant}\0{source.task}"
    return hashlib.sha256(settings.encode()).hexdigest()[:16]


def load_documents(
    sources: Iterable[Source],
    known: Mapping[str, Known | tuple[int, int, str, str]] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Iterator[Batch]:
    """Load every document of every source that is new or changed.

    Args:
        sources: where to look, in order. A file found twice is loaded once.
        known: what was loaded before, by path.
        on_progress: called as files are read.

    Yields:
        Batches of at most 50,000 runs or about 64 MB of documents.

    Raises:
        InputError: when a source's file or folder does not exist or its glob matches nothing, or
            its query fails or lacks a column.
        UsageError: when a format, task or variant pattern is wrong.
    """
    sources = list(sources)
    for source in sources:
        check_source(source)
    found: dict[str, tuple[Source, Path]] = {}
    for source in sources:
        if source.path is not None:
            for file in find_files(source):
                found.setdefault(_shown(source, file), (source, file))
    loader = _Loader(known or {}, on_progress, [file for _, file in found.values()])
    for path, (source, file) in found.items():
        yield from loader.load_file(source, file, path)
    for source in sources:
        if source.query is not None:
            yield from loader.load_query(source)
    yield from loader.flush(is_last=True)


def read_file(path: str | Path, format: str = formats.AUTO) -> list[Run]:
    """The runs of one file, as objects.

    Args:
        path: a trace file, run rows, or any other document that :func:`load_documents` reads.
        format: its format; ``auto`` detects it.

    Raises:
        InputError: when the file, or any record of it, cannot be read.
        UsageError: when nobody knows the format.
    """
    runs, refused = read_readable(path, format)
    if refused:
        raise refused[0]
    return runs


def read_readable(
    path: str | Path, format: str = formats.AUTO
) -> tuple[list[Run], list[InputError]]:
    """The runs of one file, and why each record that could not be read was refused.

    Args:
        path, format: as for :func:`read_file`.

    Raises:
        InputError: when nothing in the file can be read.
        UsageError: when nobody knows the format.
    """
    file = Path(path)
    if not os.path.isfile(file):
        got = "a folder" if os.path.isdir(file) else "a pipe or device"
        raise InputError(
            f"expected a file, got {got}" if os.path.exists(file) else "there is no such file",
            path=path,
        )
    source = Source(name=file.name, path=str(file), format=format)
    check_source(source)
    reader = _RunReader({}, None, [file])
    for _ in reader.load_file(source, file, str(path)):
        pass
    refused = [
        InputError(reason, path=path, line=line, json_path=json_path)
        for reason, line, json_path in reader.refused
    ]
    if reader.has_failed:
        raise refused[0]
    return reader.runs, refused


def _shown(source: Source, file: Path) -> str:
    """The path that a document is known by: relative to the source's root when below it."""
    root = source.root
    if root is not None and file.is_relative_to(root):
        return file.relative_to(root).as_posix()
    return str(file)


def check_source(source: Source) -> None:
    """Look at a source's settings without reading anything.

    Raises:
        UsageError: when its format, task or variant pattern is wrong.
    """
    if (source.path is None) == (source.query is None):
        raise UsageError(f"source {source.name!r} needs a path or a query, and only one of them")
    if source.format != formats.AUTO:
        formats.choose(None, source.format)
    if source.task is not None:
        _task_pattern(source.task)
    if source.variant is not None:
        _variant_of(source, Path("folder/file.json"))


@functools.lru_cache(maxsize=64)
def _task_pattern(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"task pattern {pattern!r} is no regular expression: {error}") from None
    if "task" not in compiled.groupindex:
        raise UsageError(f"task pattern {pattern!r} has no group named 'task'")
    return compiled


def find_files(source: Source) -> list[Path]:
    """The files of a source, sorted by path.

    A folder gives its trace files at any depth (``.json``, ``.jsonl``, ``.ndjson``, ``.eval``,
    ``.parquet``, also with ``.gz`` or ``.zst``); a file or a glob is taken as it says.

    Raises:
        InputError: when there is no such file or folder, or nothing matches.
    """
    text = str(source.path)
    full = text if source.root is None else str(source.root / text)
    path = Path(full)
    if path.is_dir():
        files = [file for file in path.rglob("*") if file.is_file() and _is_trace(file)]
        if not files:
            raise InputError("the folder holds no trace files", path=text)
        return sorted(files)
    if path.exists():
        return [path]
    if glob.has_magic(text):
        # Only the pattern is one: a folder above it may be called "a[1]".
        found = glob.glob(text, root_dir=source.root, recursive=True)
        files = [(source.root or Path()) / match for match in found]
        files = [file for file in files if file.is_file()]
        if not files:
            raise InputError("no file matches", path=text)
        return sorted(files)
    raise InputError("no such file or folder", path=text)


def _is_trace(file: Path) -> bool:
    name = file.name.lower()
    if name.startswith("."):
        return False
    for suffix in _PACKED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name.endswith(_TRACE_SUFFIXES)


def stem_of(file: Path) -> str:
    """The file's name without its suffixes for format and compression."""
    name = file.name
    for suffix in (*_PACKED_SUFFIXES, *_TRACE_SUFFIXES):
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            name = name[: -len(suffix)]
    return name


def _variant_of(source: Source, file: Path) -> str | None:
    if source.variant is None:
        return None
    try:
        return source.variant.format(
            parent=file.parent.name,
            grandparent=file.parent.parent.name,
            stem=stem_of(file),
            name=file.name,
            source=source.name,
        )
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise UsageError(
            f"variant pattern {source.variant!r} is wrong ({error}); it may hold {{parent}}, "
            "{grandparent}, {stem}, {name} and {source}"
        ) from None


@dataclass(slots=True)
class _Document:
    """One document while it is being read."""

    source: Source
    path: str
    file: Path | None
    document_id: str
    size: int
    modified_ns: int | None
    run_count: int = 0
    error: str | None = None
    warnings: list[str] = field(default_factory=list)
    rejects: list[tuple[Any, ...]] = field(default_factory=list)
    ordinals: Ordinals = field(default_factory=dict)
    formats: set[str] = field(default_factory=set)
    # What was odd about the JSON of records that are parts of runs, by line.
    part_flags: dict[int, jsonio.Flags] = field(default_factory=dict)

    @property
    def variant(self) -> str | None:
        """The variant that the source's pattern makes of the document's path."""
        return None if self.file is None else _variant_of(self.source, self.file)

    @property
    def row_task(self) -> str | None:
        """The task for rows that name none; only a source that asks for it takes it from a path."""
        if self.source.task is None or self.file is None:
            return None
        match = _task_pattern(self.source.task).search(stem_of(self.file))
        return match.group("task") if match is not None else None

    def reject(
        self, reason: str, line: int | None, json_path: str | None, raw: bytes | None
    ) -> None:
        self.rejects.append((self.document_id, self.path, line, json_path, reason, excerpt_of(raw)))


def excerpt_of(raw: bytes | None) -> str | None:
    """The first 120 characters of a record with every letter and digit masked."""
    if raw is None:
        return None
    text = raw[: _EXCERPT * 4].decode("utf-8", "replace")[:_EXCERPT]
    return re.sub(r"[^\W_]", "x", text)


class _Loader:
    """Reads documents one after another and hands out batches."""

    # Run rows go straight into columns, without an object for each run.
    in_bulk = True

    def __init__(
        self,
        known: Mapping[str, Known | tuple[int, int, str, str]],
        on_progress: Callable[[Progress], None] | None,
        files: list[Path],
    ) -> None:
        self._known = {
            path: entry if isinstance(entry, Known) else Known(*entry)
            for path, entry in known.items()
        }
        self._on_progress = on_progress
        self._file_count = len(files)
        self._byte_count = sum(_size(file) for file in files) if on_progress else 0
        self._files_done = self._bytes_done = self._run_count = 0
        self._builder = TableBuilder(is_strict_json=True)
        self._rows = RowTables()
        self._documents: list[tuple[Any, ...]] = []
        self._rejects: list[tuple[Any, ...]] = []
        self._pending_bytes = 0
        self._batch = Batch()

    # --- batches ----------------------------------------------------------------------------------

    def flush(self, *, is_last: bool = False) -> Iterator[Batch]:
        """Hand out what has been collected."""
        batch, self._batch = self._batch, Batch()
        fast, plain = self._rows.finish(), self._builder.finish()
        batch.runs = pa.concat_tables([fast[0], plain[0]])
        batch.calls = pa.concat_tables([fast[1], plain[1]])
        batch.documents = rows_table(self._documents, DOCUMENTS_SCHEMA)
        batch.rejects = rows_table(self._rejects, REJECTS_SCHEMA)
        self._documents, self._rejects, self._pending_bytes = [], [], 0
        is_empty = not (
            batch.documents.num_rows
            or batch.runs.num_rows
            or batch.rejects.num_rows
            or batch.unchanged
        )
        if not (is_last and is_empty):
            yield batch

    def _flush_if_full(self) -> Iterator[Batch]:
        is_full = len(self._builder) + len(self._rows) >= _BATCH_RUNS
        if is_full or self._pending_bytes >= _BATCH_BYTES:
            yield from self.flush()

    def _report(self, path: str) -> None:
        if self._on_progress is not None:
            self._on_progress(
                Progress(
                    path, self._file_count, self._files_done, self._byte_count, self._bytes_done,
                    self._run_count,
                )
            )  # fmt: skip

    # --- files ------------------------------------------------------------------------------------

    def load_file(self, source: Source, file: Path, path: str) -> Iterator[Batch]:
        """Load one file, unless it is known."""
        self._report(path)
        version = loader_version(source)
        known = self._known.get(path)
        try:
            stat = file.stat()
            size, modified = stat.st_size, stat.st_mtime_ns
            if known is not None and known == Known(size, modified, known.sha256, version):
                self._batch.unchanged.append(path)
                self._done(size)
                return
            sha256, size = file_sha256(file)
        except OSError as error:
            document = _Document(source, path, file, "", 0, None)
            document.document_id = hashlib.sha256(path.encode("utf-8", "replace")).hexdigest()
            self._fail(document, InputError(error.strerror or str(error)))
            self._finish(document, version)
            return
        document = _Document(source, path, file, sha256, size, modified)
        if known is not None and (known.sha256, known.loader_version) == (sha256, version):
            self._batch.touched.append(path)
            self._finish(document, version)
            self._done(size)
            return
        if known is not None:
            self._batch.changed.append(path)
        try:
            yield from self._read(document, file)
        except InputError as error:
            self._fail(document, error)
        except (OSError, pa.ArrowException) as error:
            self._fail(document, InputError(f"the file cannot be read: {_reason(error)}"))
        self._finish(document, version)
        self._done(0)
        self._report(path)
        yield from self._flush_if_full()

    def _done(self, size: int) -> None:
        self._files_done += 1
        self._bytes_done += size

    def _fail(self, document: _Document, error: InputError) -> None:
        """A document that cannot be read: a reject, and a run of status ``error``."""
        document.reject(error.reason, error.line, error.json_path, None)
        document.error = str(
            InputError(error.reason, path=document.path, line=error.line, json_path=error.json_path)
        )
        run = Run(
            format=_format_name(document.source),
            status="error",
            recorded_outcome="error",
            error=document.error,
        )
        self._add(document, [run])

    def _finish(self, document: _Document, version: str) -> None:
        self._rejects.extend(document.rejects)
        found = sorted(document.formats)
        self._documents.append(
            (
                document.document_id, document.source.name, document.path, document.document_id,
                document.size, document.modified_ns, ", ".join(found) or None, version,
                document.run_count, len(document.rejects), document.error, document.warnings,
            )
        )  # fmt: skip

    def _add(self, document: _Document, runs: list[Run]) -> None:
        source, file = document.source, document.file
        for run in runs:
            document.formats.add(run.format)
            if file is None:
                continue
            if source.variant is not None and (
                run.variant is None or (run.format in _NAMED_BY_MODEL and run.variant == run.model)
            ):
                run.variant = _variant_of(source, file)
            if run.task is None and (run.format != run_rows.NAME or source.task is not None):
                match = _task_pattern(source.task or DEFAULT_TASK_PATTERN).search(stem_of(file))
                if match is not None:
                    run.task = match.group("task")
                    if run.repetition is None and "repetition" in match.re.groupindex:
                        run.repetition = integer(match.group("repetition"))
        self._builder.add(runs, document.document_id, source.name, document.path, document.ordinals)
        document.run_count += len(runs)
        self._run_count += len(runs)

    # --- kinds of documents -----------------------------------------------------------------------

    def _read(self, document: _Document, file: Path) -> Iterator[Batch]:
        if document.size == 0:
            raise InputError("the file is empty")
        with open(file, "rb") as raw:
            head = raw.read(4)
            raw.seek(0)
            if head == _PARQUET:
                yield from self._read_parquet(document, file)
            elif head == _ZIP:
                yield from self._read_archive(document, file)
            elif head[:2] == _GZIP:
                yield from self._read_stream(document, pa.input_stream(raw, compression="gzip"))
            elif head == _ZSTD:
                yield from self._read_stream(document, pa.input_stream(raw, compression="zstd"))
            else:
                yield from self._read_stream(document, raw)

    def _read_stream(self, document: _Document, stream: Any) -> Iterator[Batch]:
        reader = _LineReader(stream)
        first = reader.first_line()
        name = document.path.lower()
        for suffix in _PACKED_SUFFIXES:
            name = name.removesuffix(suffix)
        is_named_lines = name.endswith(_LINE_SUFFIXES)
        is_first_whole = _parses(first)
        if reader.is_single_line() and not is_named_lines:
            is_lines = False
        else:
            is_lines = is_first_whole
        if is_lines:
            yield from self._read_lines(document, reader)
            return
        data = reader.rest(MAX_DOCUMENT_BYTES)
        if data is None:
            if not is_named_lines:
                raise InputError(
                    f"a JSON document of more than {MAX_DOCUMENT_BYTES >> 20} MB is not read "
                    "whole; write one record a line"
                )
            yield from self._read_lines(document, reader)
            return
        try:
            value, flags = jsonio.strict_loads(data)
        except InputError:
            if not is_named_lines:
                raise
            yield from self._read_lines(document, _LineReader(io.BytesIO(data)))
            return
        self._bytes_done += len(data)
        self._pending_bytes += len(data)
        del data
        runs = formats.read_value(
            value, document.source.format, is_strict_json=True, file=document.file
        )
        for run in runs:
            run.warnings.extend(FLAG_SENTENCES[flag] for flag in sorted(flags))
        for start in range(0, len(runs), _BATCH_RUNS):
            self._add(document, runs[start : start + _BATCH_RUNS])
            yield from self._flush_if_full()

    def _read_lines(self, document: _Document, reader: _LineReader) -> Iterator[Batch]:
        parts: list[Any] = []
        part_lines: list[int] = []
        part_bytes = 0
        first_line = 1
        for chunk in reader.chunks():
            line_count = chunk.count(b"\n")
            if len(self._builder) + len(self._rows) + line_count > _BATCH_RUNS:
                yield from self.flush()
            part_count = len(parts)
            self._read_chunk(document, chunk, first_line, parts, part_lines)
            if len(parts) > part_count:
                part_bytes += len(chunk)
            if part_bytes > MAX_DOCUMENT_BYTES:
                for line in part_lines[part_count:]:
                    document.reject(_TOO_MANY_PARTS, line, None, None)
                del parts[part_count:], part_lines[part_count:]
            first_line += line_count
            self._bytes_done += len(chunk)
            self._pending_bytes += len(chunk)
            self._report(document.path)
            yield from self._flush_if_full()
        if reader.error is not None:
            document.reject(f"the file ends early: {reader.error}", first_line, None, None)
            document.warnings.append("the file could not be read to its end")
        if parts:
            self._read_parts(document, parts, part_lines)
        if document.run_count == 0:
            if not document.rejects:
                raise InputError("the file holds blank lines only")
            _, _, line, json_path, reason, _ = document.rejects[0]
            count = len(document.rejects)
            document.error = str(
                InputError(
                    f"none of {count} record(s) could be read; the first: {reason}",
                    path=document.path, line=line, json_path=json_path,
                )
            )  # fmt: skip
            run = Run(
                format=_format_name(document.source), status="error", recorded_outcome="error",
                error=document.error,
            )  # fmt: skip
            self._add(document, [run])

    def _read_chunk(
        self,
        document: _Document,
        chunk: bytes,
        first_line: int,
        parts: list[Any],
        part_lines: list[int],
    ) -> None:
        """Read whole lines; records that are parts of runs are put aside in ``parts``."""
        pattern = document.source.task
        has_repetition = pattern is not None and "repetition" in _task_pattern(pattern).groupindex
        if has_repetition or document.source.format not in (formats.AUTO, run_rows.NAME):
            self._read_records(
                document, jsonio.strict_lines(chunk), chunk, first_line, parts, part_lines
            )
            return
        if not self.in_bulk:
            self._read_records(
                document, jsonio.strict_lines(chunk), chunk, first_line, parts, part_lines
            )
            return
        count, left = self._rows.add(
            chunk,
            first_line,
            document.ordinals,
            document=(document.document_id, document.source.name, document.path),
            variant=document.variant,
            task=document.row_task,
        )
        if count:
            document.formats.add(run_rows.NAME)
            document.run_count += count
            self._run_count += count
        if not left:
            return
        if count:
            lines = chunk.split(b"\n")
            found = [(number, *jsonio.strict_line(lines[number])) for number in left]
        else:
            found = jsonio.strict_lines(chunk)
        self._read_records(document, found, chunk, first_line, parts, part_lines)

    def _read_records(
        self,
        document: _Document,
        records: list[tuple[int, Any, jsonio.Flags]],
        chunk: bytes,
        first_line: int,
        parts: list[Any],
        part_lines: list[int],
    ) -> None:
        format = document.source.format
        is_rows = format in (formats.AUTO, run_rows.NAME)
        lines: list[bytes] | None = None
        runs: list[Run] = []
        for number, value, flags in records:
            line = first_line + number
            try:
                if isinstance(value, InputError):
                    raise value
                if is_rows and run_rows.is_row(value):
                    run = run_rows.read_row(value, locator=f"line {line}")
                    if not run.calls and run.status != "error":
                        run.warnings.append(formats.NO_CALLS_WARNING)
                    found = [run]
                elif not isinstance(value, (dict, list)):
                    raise InputError("a record must be an object or a list")
                elif isinstance(value, dict) and formats.is_fragment(value):
                    parts.append(value)
                    part_lines.append(line)
                    if flags:
                        document.part_flags[line] = flags
                    continue
                else:
                    found = formats.read_value(
                        value, format, is_strict_json=True, file=document.file
                    )
                    for run in found:
                        place = f" {run.locator}" if run.locator else ""
                        run.locator = f"line {line}{place}"
            except InputError as error:
                if lines is None:
                    lines = chunk.split(b"\n")
                document.reject(error.reason, line, error.json_path, lines[number])
                continue
            if flags:
                found[0].warnings.extend(FLAG_SENTENCES[flag] for flag in sorted(flags))
            runs.extend(found)
        self._add(document, runs)

    def _read_parts(
        self, document: _Document, parts: list[Any], lines: list[int], format: str | None = None
    ) -> None:
        """Read the records that are parts of runs: a message, a span or an event a line.

        Records that fit no one format together are read format by format.
        """
        asked = document.source.format if format is None else format
        while parts:
            try:
                runs = formats.read_value(parts, asked, is_strict_json=True)
            except InputError as error:
                place = re.match(r"\$\[(\d+)\](.*)", error.json_path or "", re.DOTALL)
                if place is None or int(place.group(1)) >= len(parts):
                    if asked == formats.AUTO and len(parts) > 1:
                        self._read_groups(document, parts, lines)
                        return
                    for line in lines:
                        document.reject(error.reason, line, None, None)
                    return
                index = int(place.group(1))
                document.reject(error.reason, lines[index], f"${place.group(2)}", None)
                del parts[index], lines[index]
                continue
            for run in runs:
                _place_on_lines(run, lines)
            told = runs[0].warnings if len(runs) == 1 else document.warnings
            told.extend(_flag_sentences(document.part_flags, lines))
            self._add(document, runs)
            return

    def _read_groups(self, document: _Document, parts: list[Any], lines: list[int]) -> None:
        groups: dict[str, tuple[list[Any], list[int]]] = {}
        for part, line in zip(parts, lines, strict=True):
            try:
                chosen = formats.choose([part])
            except InputError as error:
                document.reject(error.reason, line, None, None)
                continue
            records, places = groups.setdefault(chosen.format, ([], []))
            records.append(part)
            places.append(line)
        for name, (records, places) in groups.items():
            self._read_parts(document, records, places, name)

    def _read_archive(self, document: _Document, file: Path) -> Iterator[Batch]:
        from toolscore_pipeline.formats import inspect_ai

        for entry in inspect_ai.read_archive(file):
            if isinstance(entry, InputError):
                document.reject(entry.reason, entry.line, entry.json_path, None)
                continue
            if not entry.calls and entry.status != "error":
                entry.warnings.append(formats.NO_CALLS_WARNING)
            self._add(document, [entry])
            yield from self._flush_if_full()
        self._bytes_done += document.size
        self._pending_bytes += document.size
        if document.run_count == 0:
            raise InputError("the archive holds no sample that can be read")

    def _read_parquet(self, document: _Document, file: Path) -> Iterator[Batch]:
        import pyarrow.parquet as parquet

        table = parquet.ParquetFile(file)
        row = 0
        for batch in table.iter_batches(batch_size=5_000):
            row = self._read_rows(document, batch.to_pylist(maps_as_pydicts="lossy"), row)
            self._pending_bytes += batch.nbytes
            yield from self._flush_if_full()
        self._bytes_done += document.size
        if document.run_count == 0 and not document.rejects:
            raise InputError("the file holds no rows")

    # --- rows -------------------------------------------------------------------------------------

    def _read_rows(self, document: _Document, rows: list[dict[str, Any]], first: int) -> int:
        runs = []
        for number, row in enumerate(rows, start=first):
            try:
                runs.append(_run_of_row(row, number))
            except InputError as error:
                if error.json_path is None:
                    raise
                document.reject(error.reason, None, f"$[{number}]{error.json_path[1:]}", None)
        self._add(document, runs)
        return first + len(rows)

    def load_query(self, source: Source) -> Iterator[Batch]:
        """Run a query source and load its rows."""
        import duckdb

        query = str(source.query)
        path = f"query:{source.name}"
        document_id = hashlib.sha256(query.encode("utf-8", "replace")).hexdigest()
        document = _Document(source, path, None, document_id, len(query.encode()), None)
        settings: dict[str, Any] = {}
        if source.root is not None:
            settings["file_search_path"] = str(source.root)
        connection = connect(config=settings)
        digest = hashlib.sha256()
        batches: list[pa.RecordBatch] = []
        try:
            relation: duckdb.DuckDBPyRelation | None = connection.sql(query)
            if relation is None:
                raise InputError(
                    f"the query of source {source.name!r} is no SELECT: it has no rows"
                )
            for batch in relation.to_arrow_reader(10_000):
                for column in batch.columns:
                    for buffer in column.buffers():
                        digest.update(memoryview(buffer) if buffer is not None else b"")
                batches.append(batch)
        except duckdb.Error as error:
            raise InputError(
                f"the query of source {source.name!r} failed: {str(error).splitlines()[0]}"
            ) from None
        finally:
            connection.close()
        row = 0
        for batch in batches:
            try:
                row = self._read_rows(document, batch.to_pylist(maps_as_pydicts="lossy"), row)
            except InputError as error:
                raise InputError(error.reason, path=path) from None
            yield from self._flush_if_full()
        if row == 0:
            document.warnings.append("the query yielded no rows")
        self._finish(document, loader_version(source))


def rows_to_runs(rows: Iterable[Mapping[str, Any]]) -> list[Run]:
    """The runs of rows as a query yields them.

    Args:
        rows: one mapping a run, with ``calls`` (a list of objects, or JSON text) or ``messages``,
            and any of the run-row columns; other columns become the run's attributes.

    Returns:
        The runs, in row order.

    Raises:
        InputError: naming the column when neither ``calls`` nor ``messages`` is there, or the row
            and place when one cannot be read.
    """
    return [_run_of_row(dict(row), number) for number, row in enumerate(rows)]


def _run_of_row(row: dict[str, Any], number: int) -> Run:
    if "calls" not in row and "messages" not in row:
        columns = ", ".join(sorted(map(str, row))) or "none"
        raise InputError(
            "a run row needs a column 'calls' (a list of calls, or JSON text) or 'messages'; "
            f"the columns are: {columns}"
        )
    run = run_rows.read_row(_row_value(row), locator=f"row {number + 1}")
    for index, call in enumerate(run.calls):
        for name in ("args", "result", "error"):
            place = f"$.calls[{index}].{name}"
            for path, not_json in jsonio.find_non_json(getattr(call, name), place):
                raise InputError(f"{not_json} is no JSON number", json_path=path)
    return run


def _json_value(value: Any) -> Any:
    """What a column holds, as JSON: a decimal as a number, a time as ISO 8601, bytes as text."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _row_value(row: dict[str, Any]) -> dict[str, Any]:
    row = {name: _json_value(value) for name, value in row.items()}
    calls = row.get("calls")
    if isinstance(calls, list) and any(isinstance(call, str) for call in calls):
        row = {**row, "calls": [_json_call(call) for call in calls]}
    return row


def _json_call(call: Any) -> Any:
    if isinstance(call, str):
        value, _ = jsonio.strict_loads(call)
        return value
    return call


def _place_on_lines(run: Run, lines: list[int]) -> None:
    """Turn ``$[3].tool_calls[0]`` into ``line 9 $.tool_calls[0]``, record 3 being on line 9."""

    def move(locator: str | None) -> str | None:
        return None if locator is None else re.sub(r"\$\[(\d+)\]", on_line, locator, count=1)

    def on_line(match: re.Match[str]) -> str:
        index = int(match.group(1))
        return f"line {lines[index]} $" if index < len(lines) else match.group()

    run.locator = move(run.locator)
    run.warnings = [re.sub(r"\$\[(\d+)\]", on_line, text) for text in run.warnings]
    for call in run.calls:
        call.request_locator = move(call.request_locator)
        call.completion_locator = move(call.completion_locator)
        call.warnings = [re.sub(r"\$\[(\d+)\]", on_line, text) for text in call.warnings]


def _format_name(source: Source) -> str:
    return "unknown" if source.format == formats.AUTO else source.format


def _parses(line: bytes) -> bool:
    try:
        value, _ = jsonio.strict_loads(line)
    except InputError:
        return False
    return isinstance(value, (dict, list))


def _flag_sentences(found: Mapping[int, jsonio.Flags], lines: list[int]) -> Iterator[str]:
    """What was odd about the JSON of ``lines``, each oddity once, with the first line it is on."""
    for flag, sentence in FLAG_SENTENCES.items():
        flagged = [line for line in lines if flag in found.get(line, ())]
        if flagged:
            more = f" and {len(flagged) - 1} more" if len(flagged) > 1 else ""
            yield f"{sentence} (line {flagged[0]}{more})"


class _RunReader(_Loader):
    """Keeps the runs of documents as objects instead of making tables of them."""

    in_bulk = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.runs: list[Run] = []
        self.refused: list[tuple[str, int | None, str | None]] = []
        self.has_failed = False

    def _add(self, document: _Document, runs: list[Run]) -> None:
        self.runs.extend(runs)
        document.run_count += len(runs)  # a file of lines without any run is refused

    def _finish(self, document: _Document, version: str) -> None:
        self.has_failed = document.error is not None
        for _, _, line, json_path, reason, _ in document.rejects:
            self.refused.append((reason, line, json_path))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).splitlines()[0] if str(error) else type(error).__name__


class _LineReader:
    """Whole lines of a stream, in pieces of about 256 KB: what the processor's cache holds.

    Attributes:
        error: why the stream could not be read to its end; None when it could.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._buffer = b""
        self._is_ended = self._has_data = False
        self.error: str | None = None

    def _fill(self, size: int = _CHUNK_BYTES) -> bool:
        if self._is_ended:
            return False
        try:
            data = self._stream.read(size)
        except (OSError, EOFError, pa.ArrowException) as error:
            if not self._has_data:
                raise
            self.error, data = _reason(error), b""
        if not data:
            self._is_ended = True
            return False
        self._has_data = True
        self._buffer = self._buffer + data if self._buffer else bytes(data)
        return True

    def first_line(self) -> bytes:
        """The first line that is not blank; nothing is used up."""
        start = 0
        while True:
            end = self._buffer.find(b"\n", start)
            if end < 0:
                if self._fill(max(_CHUNK_BYTES, len(self._buffer))):
                    continue
                return self._buffer[start:]
            if self._buffer[start:end].strip(b" \t\r\xef\xbb\xbf"):
                return self._buffer[start:end]
            start = end + 1

    def is_single_line(self) -> bool:
        """Whether nothing but blank space follows the first line."""
        first = self.first_line()
        while True:
            end = self._buffer.find(first) + len(first)
            if self._buffer[end:].strip():
                return False
            if not self._fill():
                return True

    def rest(self, limit: int) -> bytes | None:
        """Everything that is left, or None (and nothing used up) when it is more than ``limit``.

        Raises:
            InputError: when the stream cannot be read to its end.
        """
        pieces, size = [self._buffer], len(self._buffer)
        self._buffer = b""
        while self._fill(_CHUNK_BYTES * 16):
            pieces.append(self._buffer)
            size += len(self._buffer)
            self._buffer = b""
            if size > limit:
                self._buffer = b"".join(pieces)
                return None
        if self.error is not None:
            raise InputError(f"the file ends early: {self.error}")
        return b"".join(pieces)

    def chunks(self) -> Iterator[bytes]:
        """Whole lines, in order."""
        while True:
            end = self._buffer.rfind(b"\n")
            if end >= 0 and (len(self._buffer) >= _CHUNK_BYTES or self._is_ended):
                chunk, self._buffer = self._buffer[: end + 1], self._buffer[end + 1 :]
                yield chunk
                continue
            if not self._fill(max(_CHUNK_BYTES, len(self._buffer))):
                break
        if self._buffer:
            yield self._buffer
            self._buffer = b""
