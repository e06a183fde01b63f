"""Arrow tables and arrays out of Python values, without ``pyarrow.array``.

``pa.array`` and ``pa.table`` import pandas when they meet their first list, which takes longer than
grading a run; these build the buffers themselves, and are faster besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from toolscore_pipeline.errors import InputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows_table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """A table out of rows, each a tuple with one value for each field of the schema."""
    if not rows:
        return empty_table(schema)
    return table_of(zip(*rows, strict=True), schema, len(rows))


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table of no rows."""
    return pa.Table.from_arrays([pa.nulls(0, kind.type) for kind in schema], schema=schema)


def text_table(columns: Mapping[str, Sequence[str | None]]) -> pa.Table:
    """A table of texts, by the names of its columns."""
    return pa.Table.from_arrays(
        [array_of(values, pa.string()) for values in columns.values()], names=list(columns)
    )


def table_of(columns: Iterable[Any], schema: pa.Schema, size: int) -> pa.Table:
    """A table out of columns.

    Args:
        columns: one for each field of the schema: a list or tuple of values, an Arrow array, or
            None for a column of nulls.
        schema: fields of the types that :func:`array_of` knows.
        size: the number of rows.
    """
    arrays = []
    for column, kind in zip(columns, schema, strict=True):
        if column is None:
            arrays.append(pa.nulls(size, kind.type))
        elif isinstance(column, pa.Array):
            arrays.append(column)
        else:
            arrays.append(array_of(column, kind.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An Arrow array.

    Args:
        values: the values, None for null; texts may be given as UTF-8 bytes.
        kind: string, int32, int64, double, bool, timestamp, or a list of one of the others; a list
            that is None becomes an empty one.
    """
    size = len(values)
    if not size or (values[0] is None and values.count(None) == size):
        return pa.nulls(size, kind)
    if pa.types.is_string(kind):
        return text_array(values)
    if pa.types.is_list(kind):
        lengths = [len(item or ()) for item in values]
        flat = array_of([part for item in values for part in item or ()], kind.value_type)
        offsets = pa.py_buffer(_offsets(lengths))
        return pa.Array.from_buffers(kind, size, [None, offsets], children=[flat])
    valid, count = _validity(values)
    if pa.types.is_boolean(kind):
        bits = np.fromiter((item is True for item in values), bool, size)
        data = np.packbits(bits, bitorder="little")
    elif pa.types.is_timestamp(kind):
        data = np.fromiter(map(_microseconds, values), np.int64, size)
    else:
        type_ = kind.to_pandas_dtype()  # NumPy's type: int32, int64 or float64
        data = np.fromiter((0 if item is None else item for item in values), type_, size)
    return pa.Array.from_buffers(kind, size, [valid, pa.py_buffer(data)], null_count=count)


def text_array(values: Sequence[str | bytes | None]) -> pa.Array:
    """An Arrow array of texts; a lone surrogate is written as its escape."""
    valid, count = _validity(values)
    filled: Sequence[Any] = ["" if item is None else item for item in values] if count else values
    kinds = set(map(type, filled))
    if kinds == {str}:
        joined = "".join(filled)
        data = joined.encode("utf-8", "backslashreplace")
        if len(data) == len(joined):
            return _texts(data, filled, valid, count)
    parts = [
        item if isinstance(item, bytes) else item.encode("utf-8", "backslashreplace")
        for item in filled
    ]
    return _texts(b"".join(parts), parts, valid, count)


def _texts(data: bytes, parts: Sequence[Any], valid: pa.Buffer | None, count: int) -> pa.Array:
    size = len(parts)
    if len(data) >= 1 << 31:
        raise InputError(f"{size:,} texts hold {len(data):,} bytes, more than one batch can")
    offsets = pa.py_buffer(_offsets(list(map(len, parts))))
    return pa.StringArray.from_buffers(size, offsets, pa.py_buffer(data), valid, count)


def _offsets(lengths: list[int]) -> Any:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _validity(values: Sequence[Any]) -> tuple[pa.Buffer | None, int]:
    count = values.count(None)
    if not count:
        return None, 0
    present = np.fromiter((item is not None for item in values), bool, len(values))
    return pa.py_buffer(np.packbits(present, bitorder="little")), count


def _microseconds(moment: datetime | None) -> int:
    if moment is None:
        return 0
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
