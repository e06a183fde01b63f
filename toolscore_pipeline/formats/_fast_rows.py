"""The common shape of run rows, straight from JSON Lines into Arrow columns.

What this reads, it reads exactly as :mod:`run_rows` and :mod:`evidence_tables` do together (a test
compares them); rows of any other shape, and chunks that need a closer look, it leaves to them. It
works a column at a time and makes no object per run or call, which is several times faster.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import re
from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate, chain, repeat
from operator import itemgetter
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from toolscore_pipeline.arrays import array_of, empty_table, table_of, text_array
from toolscore_pipeline.errors import InputError
from toolscore_pipeline.evidence_tables import CALLS_SCHEMA, RUNS_SCHEMA, Ordinals
from toolscore_pipeline.formats._common import (
    FAILURE_HINTS,
    INPUT_TOKENS,
    NO_CALLS_WARNING,
    OUTPUT_TOKENS,
    reads_like_failure,
)
from toolscore_pipeline.formats.run_rows import (
    ANSWER_KEYS,
    COST_KEYS,
    DURATION_KEYS,
    NAME,
    READ_KEYS,
    TASK_KEYS,
    VARIANT_KEYS,
    is_row,
    outcome_doubt,
    outcome_of,
)
from toolscore_pipeline.jsonio import count_colons

_dumps: Callable[[Any], bytes] = functools.partial(orjson.dumps, option=orjson.OPT_SORT_KEYS)
# Numbers that orjson reads or writes otherwise than Python: near zero, or beyond 64 bits.
_ODD_NUMBER = re.compile(rb"\de-\d|\de\+\d|0\.0000")
_CALL_KEYS = (
    "tool", "args", "id", "provider_name", "result", "structured", "is_error", "error", "denied",
    "deny_reason", "duration",
)  # fmt: skip
_HARD_ROW_KEYS = frozenset({"messages", "started_at", "ended_at", "injected", "probes"})
# Fields whose text stands in a run's canonical content.
_IN_CONTENT = frozenset({"calls", "status", "error", "model", "prompt", "usage", *ANSWER_KEYS})
_TEXT = frozenset({str, type(None)})
_INTEGER = frozenset({int, type(None)})
_NUMBER = frozenset({float, int, type(None)})
_FLAG = frozenset({bool, type(None)})
_NO_FLOATS = frozenset({str, int, bool, type(None)})
_PLAIN_NUMBERS = frozenset({int, float, bool, type(None)})
_OBJECT = frozenset({dict, type(None)})
_RUN_COLUMNS: dict[str, Callable[[], Any]] = {
    **dict.fromkeys(
        (
            "run_id", "evidence_sha256", "locator", "task", "variant", "status",
            "recorded_outcome", "final_answer", "error", "model", "prompt", "usage_json",
            "attributes_json",
        ),
        lambda: _Texts(),
    ),
    **dict.fromkeys(("cost_usd", "duration_seconds"), lambda: _Numbers("d")),
    **dict.fromkeys(
        ("repetition", "input_tokens", "output_tokens", "call_count"), lambda: _Numbers("q")
    ),
}  # fmt: skip
_CALL_COLUMNS: dict[str, Callable[[], Any]] = {
    **dict.fromkeys(
        (
            "call_id", "tool", "args_json", "result_json", "error_json", "outcome_basis",
            "deny_reason",
        ),
        lambda: _Texts(),
    ),
    **dict.fromkeys(("has_result", "is_error", "is_failed", "is_denied"), lambda: _Flags()),
    "duration_seconds": lambda: _Numbers("d"),
}  # fmt: skip
_HINT = "(?i)" + FAILURE_HINTS


class _OtherShapeError(Exception):
    """Rows that are not of the common shape."""


class _Texts:
    """A growing Arrow column of texts, given as texts or as UTF-8 bytes."""

    __slots__ = ("_data", "_lengths")

    def __init__(self) -> None:
        self._data, self._lengths = bytearray(), array("i")

    def add(self, values: Sequence[Any]) -> None:
        if None in values:
            self._lengths.extend([-1 if item is None else len(item) for item in values])
            present = [item for item in values if item is not None]
        else:
            self._lengths.extend(map(len, values))
            present = list(values)
        if not present:
            return
        if type(present[0]) is bytes:
            self._data += b"".join(present)
            return
        text = "".join(present)
        if not text.isascii():
            # The lengths were of characters; take the bytes' own.
            del self._lengths[-len(values) :]
            self.add([None if item is None else item.encode() for item in values])
            return
        self._data += text.encode()

    def finish(self) -> pa.Array:
        size = len(self._lengths)
        lengths = np.frombuffer(self._lengths, dtype=np.int32) if size else np.zeros(0, np.int32)
        present = lengths >= 0
        offsets = np.zeros(size + 1, dtype=np.int64)
        np.cumsum(np.where(present, lengths, 0), out=offsets[1:])
        if offsets[-1] >= 1 << 31:
            raise InputError("the texts of a column are larger than one batch can hold")
        count = size - int(np.count_nonzero(present))
        valid = pa.py_buffer(np.packbits(present, bitorder="little")) if count else None
        data = pa.py_buffer(self._data)
        starts = pa.py_buffer(offsets.astype(np.int32))
        return pa.StringArray.from_buffers(size, starts, data, valid, count)


class _Numbers:
    """A growing Arrow column of integers or doubles."""

    __slots__ = ("_nulls", "_values")

    def __init__(self, code: str) -> None:
        self._values, self._nulls = array(code), bytearray()

    def add(self, values: Sequence[Any]) -> None:
        if None in values:
            self._values.extend([0 if item is None else item for item in values])
            self._nulls += bytes([item is None for item in values])
        else:
            self._values.extend(values)
            self._nulls += bytes(len(values))

    def finish(self) -> pa.Array:
        size = len(self._values)
        kind = pa.int64() if self._values.typecode == "q" else pa.float64()
        missing = np.frombuffer(self._nulls, dtype=np.uint8)
        count = int(np.count_nonzero(missing))
        valid = pa.py_buffer(np.packbits(missing == 0, bitorder="little")) if count else None
        return pa.Array.from_buffers(kind, size, [valid, pa.py_buffer(self._values)], count)


class _Flags:
    """A growing Arrow column of booleans."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = bytearray()

    def add(self, values: Sequence[Any]) -> None:
        self._values += bytes(map(_FLAG_CODES.__getitem__, values))

    def finish(self) -> pa.Array:
        codes = np.frombuffer(self._values, dtype=np.uint8)
        count = int(np.count_nonzero(codes == 2))
        valid = pa.py_buffer(np.packbits(codes != 2, bitorder="little")) if count else None
        bits = pa.py_buffer(np.packbits(codes == 1, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), len(codes), [valid, bits], count)


_FLAG_CODES = {False: 0, True: 1, None: 2}


class _Shape:
    """Where the fields of rows with the same keys are."""

    __slots__ = (
        "answer", "attributes", "colons", "cost", "duration", "inputs", "keys", "leaves",
        "outputs", "task", "variant",
    )  # fmt: skip

    def __init__(self, keys: tuple[str, ...]) -> None:
        self.keys = frozenset(keys)
        self.task = _present(keys, TASK_KEYS)
        self.variant = _present(keys, VARIANT_KEYS)
        self.answer = _present(keys, ANSWER_KEYS)
        self.cost = _present(keys, COST_KEYS)
        self.duration = _present(keys, DURATION_KEYS)
        self.inputs = _present(keys, INPUT_TOKENS)
        self.outputs = _present(keys, OUTPUT_TOKENS)
        self.attributes = tuple(key for key in keys if key not in READ_KEYS)
        self.leaves = tuple(key for key in keys if key in READ_KEYS and key not in _IN_CONTENT)
        # Keys of attributes are counted in their own text.
        self.colons = sum(1 + key.count(":") for key in keys if key in READ_KEYS)


def _present(keys: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key for key in wanted if key in keys)


class RowTables:
    """Collects rows; :meth:`finish` makes their tables and starts anew."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[str, ...], _Shape] = {}
        self._widths: dict[tuple[str, ...], int | None] = {}
        self._start()

    def _start(self) -> None:
        self._runs = {name: make() for name, make in _RUN_COLUMNS.items()}
        self._calls = {name: make() for name, make in _CALL_COLUMNS.items()}
        self._documents: list[tuple[str, str | None, str | None, int]] = []
        self._warned: list[int] = []
        self._run_count = self._call_count = 0

    def __len__(self) -> int:
        return self._run_count

    def add(
        self,
        chunk: bytes,
        first_line: int,
        ordinals: Ordinals,
        *,
        document: tuple[str, str | None, str | None],
        variant: str | None = None,
        task: str | None = None,
    ) -> tuple[int, list[int]]:
        """Read the rows of a chunk of JSON Lines.

        Args:
            chunk: whole lines.
            first_line: the 1-based number of the first.
            ordinals: how often each record was seen before in the document; updated.
            document: the document's id, source and path.
            variant: the variant of rows that name none but their model.
            task: the task of rows that name none.

        Returns:
            How many rows were read, and the 0-based numbers of the lines left to the plain reader
            (blank lines are not among them).
        """
        # A chunk makes thousands of objects and no cycles; collecting among them is a third of
        # the time.
        is_collecting = gc.isenabled()
        gc.disable()
        try:
            return self._add(chunk, first_line, ordinals, document, variant, task)
        finally:
            if is_collecting:
                gc.enable()

    def _add(
        self,
        chunk: bytes,
        first_line: int,
        ordinals: Ordinals,
        document: tuple[str, str | None, str | None],
        variant: str | None,
        task: str | None,
    ) -> tuple[int, list[int]]:
        lines = chunk.split(b"\n")
        every = [number for number, line in enumerate(lines) if line and not line.isspace()]
        if b"\\u003" in chunk:  # an escaped colon
            return 0, every
        try:
            numbers = every
            rows = list(map(orjson.loads, map(lines.__getitem__, every)))
        except ValueError:
            numbers, rows = [], []
            for number in every:
                try:
                    rows.append(orjson.loads(lines[number]))
                except ValueError:
                    continue
                numbers.append(number)
        if not rows:
            return 0, every
        try:
            runs, calls, colons = self._columns(rows)
        except (_OtherShapeError, TypeError):
            fitting = [index for index, row in enumerate(rows) if self._fits(row)]
            numbers = [numbers[index] for index in fitting]
            if not numbers:
                return 0, every
            runs, calls, colons = self._columns([rows[index] for index in fitting])
        known = set(numbers)
        left = (
            [number for number in every if number not in known] if len(known) < len(every) else []
        )
        # Every key brings one colon: one that was repeated is missing from what was read.
        colons += sum(lines[number].count(b":") for number in left)
        if colons != count_colons(chunk):
            return 0, every
        runs["locator"] = [f"line {first_line + number}" for number in numbers]
        self._keep(runs, calls, ordinals, document, variant, task)
        return len(numbers), left

    def _fits(self, row: Any) -> bool:
        try:
            self._columns([row])
        except (_OtherShapeError, TypeError):
            return False
        return True

    def _columns(
        self, rows: list[Any]
    ) -> tuple[dict[str, Sequence[Any]], dict[str, Sequence[Any]], int]:
        """The columns of rows of the common shape, and the colons of all their keys and texts.

        Raises:
            _OtherShapeError: when a row is of another shape.
            TypeError: when a row is no object, or nests too deeply.
        """
        shapes = list(map(tuple, rows))
        kinds = set(shapes)
        colons = 0
        for keys in kinds:
            shape = self._shapes.get(keys) or self._shape(keys, rows[shapes.index(keys)])
            colons += shape.colons * (shapes.count(keys) if len(kinds) > 1 else len(rows))
        every = shapes[0] if len(kinds) == 1 else tuple(dict.fromkeys(chain(*kinds)))
        union = self._shapes.get(every) or _Shape(every)
        lists = _column(rows, "calls", union)
        if not set(map(type, lists)) <= {list}:
            raise _OtherShapeError
        counts = list(map(len, lists))
        calls, contents, call_colons = self._call_columns(list(chain.from_iterable(lists)))
        get = functools.partial(_column, rows, shape=union)
        task, variant = _first(rows, union, union.task), _first(rows, union, union.variant)
        answer, model = _first(rows, union, union.answer), get("model")
        cost, duration = _first(rows, union, union.cost), _first(rows, union, union.duration)
        inputs, outputs = _first(rows, union, union.inputs), _first(rows, union, union.outputs)
        status, error, prompt = get("status"), get("error"), get("prompt")
        usage, repetition = get("usage"), get("repetition")
        for column, types in (
            (task, _TEXT), (variant, _TEXT), (answer, _TEXT), (model, _TEXT), (status, _TEXT),
            (error, _TEXT), (prompt, _TEXT), (repetition, _INTEGER), (usage, _OBJECT),
            (cost, _NUMBER), (duration, _NUMBER),
        ):  # fmt: skip
            if not types.issuperset(map(type, column)):
                raise _OtherShapeError
        if any(name is not None and not name.strip() for name in chain(task, variant)):
            raise _OtherShapeError
        if any(map(outcome_doubt, rows)):
            raise _OtherShapeError
        if any(usage):
            inputs = _stated(usage, INPUT_TOKENS, inputs)
            outputs = _stated(usage, OUTPUT_TOKENS, outputs)
        if not (_INTEGER.issuperset(map(type, inputs)) and _INTEGER.issuperset(map(type, outputs))):
            raise _OtherShapeError
        cost, duration = _floats(cost), _floats(duration)
        if "" in error:
            error = [text or None for text in error]
        ends = list(accumulate(counts))
        spans = map(contents.__getitem__, map(slice, [0, *ends], ends))
        none = repeat(None)
        texts = list(
            map(
                _dumps,
                zip(
                    spans, cost, duration, none, error, answer, none, inputs, model, outputs, none,
                    prompt, none, status, usage, strict=False,
                ),
            )
        )  # fmt: skip
        joined = b"".join(texts)
        colons += call_colons + count_colons(joined)
        if any(usage):
            _refuse_odd(usage)
        _refuse_odd_floats(chain(cost, duration))
        attributes: list[Any] = [None] * len(rows)
        if union.attributes:
            attributes = list(map(_dumps, _attributes(rows, union, len(kinds) == 1)))
            colons += count_colons(b"".join(filter(None, attributes)))
            for key in union.attributes:
                column = _column(rows, key, union)
                if not _NO_FLOATS.issuperset(map(type, column)):
                    _refuse_odd(column)
            if len(kinds) > 1:
                attributes = [None if text == b"{}" else text for text in attributes]
        for key in union.leaves:
            colons += _colons_of(_column(rows, key, union))
        usages = [None if item is None else _dumps(item) for item in usage]
        columns: dict[str, Sequence[Any]] = {
            "evidence_sha256": [hashlib.sha256(text).hexdigest() for text in texts],
            "task": task, "variant": variant, "repetition": repetition, "status": status,
            "recorded_outcome": list(map(outcome_of, rows)), "final_answer": answer,
            "error": error, "model": model, "prompt": prompt, "cost_usd": cost,
            "duration_seconds": duration, "input_tokens": inputs, "output_tokens": outputs,
            "usage_json": usages, "attributes_json": attributes, "call_count": counts,
        }  # fmt: skip
        return columns, calls, colons

    def _shape(self, keys: tuple[str, ...], row: Any) -> _Shape:
        is_hard = not _HARD_ROW_KEYS.isdisjoint(keys) or set(ANSWER_KEYS) <= set(keys)
        if is_hard or not is_row(row) or "calls" not in keys:
            raise _OtherShapeError
        shape = self._shapes[keys] = _Shape(keys)
        return shape

    def _call_columns(
        self, calls: list[Any]
    ) -> tuple[dict[str, Sequence[Any]], list[tuple[Any, ...]], int]:
        """The columns of the calls, their canonical contents, and the colons of their keys."""
        if not calls:
            return {}, [], 0
        if not set(map(type, calls)) <= {dict}:
            raise _OtherShapeError
        shapes = list(map(tuple, calls))
        kinds = set(shapes)
        colons = 0
        for names in kinds:
            width = self._widths.get(names)
            if width is None:
                width = self._width(names)
            colons += width * (shapes.count(names) if len(kinds) > 1 else len(calls))
        count = len(calls)
        if len(kinds) == 1:
            present = set(shapes[0])
            wanted = [name for name in _CALL_KEYS if name in present]
            values = zip(*map(itemgetter(*wanted), calls), strict=True)
            found = dict(zip(wanted, values, strict=True))
            nothing = (None,) * count
            columns: list[Sequence[Any]] = [found.get(name, nothing) for name in _CALL_KEYS]
        else:
            present = set(chain(*kinds))
            columns = [
                [call.get(name) for call in calls] if name in present else (None,) * count
                for name in _CALL_KEYS
            ]
        (
            tools, args, ids, providers, results, structured, flags, errors, denied, reasons,
            elapsed,
        ) = columns  # fmt: skip
        for column, types in (
            (tools, {str}), (args, {dict}), (ids, _TEXT), (providers, _TEXT), (flags, _FLAG),
            (errors, _TEXT), (denied, _FLAG), (reasons, _TEXT), (elapsed, _NUMBER),
        ):  # fmt: skip
            if not types.issuperset(map(type, column)):
                raise _OtherShapeError
        if "" in tools:
            raise _OtherShapeError
        colons += _colons_of(providers)
        if any(item is not None for item in structured):
            colons += _colons_of(
                [extra for extra, item in zip(structured, results, strict=True) if item is not None]
            )
            results = [
                extra if item is None else item
                for extra, item in zip(structured, results, strict=True)
            ]
        if True in denied:
            is_denied = [flag is True for flag in denied]
            colons += _colons_of(
                [text for text, flag in zip(reasons, is_denied, strict=True) if not flag]
            )
            reasons = [
                text if flag else None for text, flag in zip(reasons, is_denied, strict=True)
            ]
        else:
            is_denied = [False] * count
            colons += _colons_of(reasons)
            reasons = [None] * count
        elapsed = _floats(elapsed)
        has_result = [item is not None for item in results]
        if any(errors) or None in flags:
            errors = [text or None for text in errors]
            outcomes = [
                _outcome(text, flag, has, "error" in call)
                for text, flag, has, call in zip(errors, flags, has_result, calls, strict=True)
            ]
            failed, bases = map(list, zip(*outcomes, strict=True))
        else:
            errors, failed, bases = [None] * count, list(flags), ["explicit"] * count
        none = repeat(None)
        contents = list(
            zip(
                args, none, repeat("ok"), ids, none, reasons, elapsed, none, errors, none,
                has_result, is_denied, flags, failed, bases, results, none, tools,
            )
        )  # fmt: skip
        texts = [None if item is None else _dumps(item) for item in results]
        arguments = list(map(_dumps, args))
        _refuse_odd(arguments)
        _refuse_odd_floats(elapsed)
        if not _NO_FLOATS.issuperset(map(type, results)):
            _refuse_odd(results)
        return (
            {
                "call_id": ids, "tool": tools, "args_json": arguments, "result_json": texts,
                "has_result": has_result, "is_error": flags,
                "error_json": [text and _dumps(text) for text in errors], "is_failed": failed,
                "outcome_basis": bases, "is_denied": is_denied, "deny_reason": reasons,
                "duration_seconds": elapsed,
            },
            contents,
            colons,
        )  # fmt: skip

    def _width(self, names: tuple[str, ...]) -> int:
        if not set(_CALL_KEYS).issuperset(names) or not {"tool", "args"} <= set(names):
            raise _OtherShapeError
        width = self._widths[names] = sum(1 + name.count(":") for name in names)
        return width

    def _keep(
        self,
        runs: dict[str, Sequence[Any]],
        calls: dict[str, Sequence[Any]],
        ordinals: Ordinals,
        document: tuple[str, str | None, str | None],
        variant: str | None,
        task: str | None,
    ) -> None:
        if variant is not None:
            runs["variant"] = [
                variant if name is None or name == model else name
                for name, model in zip(runs["variant"], runs["model"], strict=True)
            ]
        if task is not None:
            runs["task"] = [task if name is None else name for name in runs["task"]]
        identities = zip(
            runs["evidence_sha256"], runs["task"], runs["variant"], runs["repetition"], strict=True
        )
        sha256, dumps = hashlib.sha256, orjson.dumps
        run_ids = []
        for identity in identities:
            ordinal = ordinals.get(identity, 0)
            ordinals[identity] = ordinal + 1
            run_ids.append(sha256(dumps((*identity, ordinal))).hexdigest())
        runs["run_id"] = run_ids
        for name, column in self._runs.items():
            column.add(runs[name])
        counts = runs["call_count"]
        if 0 in counts:
            self._warned.extend(
                self._run_count + index
                for index, (count, status) in enumerate(zip(counts, runs["status"], strict=True))
                if count == 0 and status != "error"
            )
        if calls:
            for name, column in self._calls.items():
                column.add(calls[name])
            self._call_count += len(calls["tool"])
        self._documents.append((*document, len(run_ids)))
        self._run_count += len(run_ids)

    # --- tables -----------------------------------------------------------------------------------

    def finish(self) -> tuple[pa.Table, pa.Table]:
        """The tables of the rows added since the last time."""
        size, calls_size = self._run_count, self._call_count
        runs = {name: column.finish() for name, column in self._runs.items()} if size else {}
        calls = {name: column.finish() for name, column in self._calls.items()}
        for index, name in enumerate(("document_id", "source", "path")):
            runs[name] = list(
                chain.from_iterable(repeat(entry[index], entry[3]) for entry in self._documents)
            )
        runs["format"] = (NAME,) * size
        runs["warnings"] = _lists(size, self._warned)
        calls["args_status"] = ("ok",) * calls_size
        if calls_size:
            calls["is_soft_error_suspected"] = _suspects(calls["result_json"], calls["is_failed"])
            counts = np.frombuffer(runs["call_count"].buffers()[1], dtype=np.int64)
            _place_calls(calls, runs["run_id"], counts)
        calls["warnings"] = _lists(calls_size, [])
        self._start()
        return (
            table_of(map(runs.get, RUNS_SCHEMA.names), RUNS_SCHEMA, size)
            if size
            else empty_table(RUNS_SCHEMA),
            table_of(map(calls.get, CALLS_SCHEMA.names), CALLS_SCHEMA, calls_size)
            if calls_size
            else empty_table(CALLS_SCHEMA),
        )


def _place_calls(calls: dict[str, Any], run_ids: pa.Array, counts: Any) -> None:
    """The columns that follow from which run a call is of, and which of its calls."""
    owners = np.repeat(np.arange(len(counts)), counts)
    indexes = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = text_array([f"$.calls[{index}]" for index in range(int(counts.max()))])
    calls["run_id"] = run_ids.take(_int64(owners))
    calls["call_index"] = _int64(indexes)
    calls["request_locator"] = asked = places.take(calls["call_index"])
    is_answered = calls["is_failed"].is_valid()
    nothing = pa.nulls(len(owners), pa.string())
    calls["completion_locator"] = pc.if_else(is_answered, asked, nothing)
    calls["pairing"] = text_array(["none", "embedded"]).take(is_answered.cast(pa.int8()))


def _int64(values: Any) -> pa.Array:
    data = pa.py_buffer(np.ascontiguousarray(values, dtype=np.int64))
    return pa.Array.from_buffers(pa.int64(), len(values), [None, data])


def _lists(size: int, warned: list[int]) -> pa.Array:
    """The warnings of ``size`` rows: one for the rows ``warned``, none for the others."""
    lengths = np.zeros(size, dtype=np.int32)
    lengths[warned] = 1
    offsets = np.concatenate((np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)))
    texts = array_of((NO_CALLS_WARNING,) * len(warned), pa.string())
    kind = RUNS_SCHEMA.field("warnings").type
    return pa.Array.from_buffers(kind, size, [None, pa.py_buffer(offsets)], children=[texts])


def _suspects(results: pa.Array, failed: pa.Array) -> list[bool]:
    """Which recorded successes read like a failure.

    A wide search for the words comes first, over the column; the judgment after it.
    """
    hits = pc.match_substring_regex(results, _HINT)
    found = [False] * len(results)
    for index in pc.indices_nonzero(pc.and_(hits, pc.invert(failed))).to_pylist():
        found[index] = reads_like_failure(orjson.loads(results[index].as_py()))
    return found


def _refuse_odd(values: Iterable[Any]) -> None:
    """Refuse values (or their JSON) that may hold a number which orjson does not keep exactly.

    Raises:
        _OtherShapeError: when one may.
    """
    texts = [
        value if type(value) is bytes else _dumps(value)
        for value in values
        if type(value) not in _NO_FLOATS
    ]
    joined = b"\n".join(texts)
    is_odd = b"e-" in joined or b"e+" in joined or b"0.0000" in joined
    if is_odd and _ODD_NUMBER.search(joined):
        raise _OtherShapeError


def _refuse_odd_floats(values: Iterable[Any]) -> None:
    """Refuse floats that orjson writes otherwise than Python, integers beyond 64 bits, negatives.

    Raises:
        _OtherShapeError: when there is one.
    """
    if not all(value is None or value == 0 or 1e-4 <= value < 1e16 for value in values):
        raise _OtherShapeError


def _outcome(
    error: str | None, flag: bool | None, has_result: bool, has_key: bool
) -> tuple[bool | None, str | None]:
    if error:
        return True, "explicit"
    if flag is not None:
        return flag, "explicit"
    if has_result:
        return False, "explicit" if has_key else "result_only"
    return None, None


def _column(rows: list[Any], key: str, shape: _Shape) -> list[Any]:
    if key not in shape.keys:
        return [None] * len(rows)
    return [row.get(key) for row in rows]


def _first(rows: list[Any], shape: _Shape, keys: tuple[str, ...]) -> list[Any]:
    """The first value under one of ``keys`` that is not null, for each row."""
    if not keys:
        return [None] * len(rows)
    found = _column(rows, keys[0], shape)
    for key in keys[1:]:
        if None not in found:
            break
        found = [
            row.get(key) if value is None else value for row, value in zip(rows, found, strict=True)
        ]
    return found


def _stated(usages: list[Any], keys: tuple[str, ...], others: list[Any]) -> list[Any]:
    found = []
    for usage, other in zip(usages, others, strict=True):
        value = None
        for key in keys if usage else ():
            value = usage.get(key)
            if value is not None:
                break
        found.append(other if value is None else value)
    return found


def _floats(column: Iterable[Any]) -> list[Any]:
    column = list(column)
    if int in set(map(type, column)):
        return [float(value) if value is not None else None for value in column]
    return column


def _attributes(rows: list[Any], shape: _Shape, is_uniform: bool) -> Iterable[dict[str, Any]]:
    keys = shape.attributes
    if is_uniform and len(keys) > 1:
        return (dict(zip(keys, values, strict=True)) for values in map(itemgetter(*keys), rows))
    return ({key: row[key] for key in keys if key in row} for row in rows)


def _colons_of(column: Collection[Any]) -> int:
    """The colons in the texts of a column, and in its objects and lists as JSON."""
    if _PLAIN_NUMBERS.issuperset(map(type, column)):
        return 0
    try:
        return "".join(filter(None, column)).count(":")
    except TypeError:
        return sum(
            value.count(":") if type(value) is str else orjson.dumps(value).count(b":")
            for value in column
        )
