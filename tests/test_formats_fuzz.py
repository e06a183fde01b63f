"""Mutated examples: never a traceback, a hang or a silent loss.

TOOLSCORE_FUZZ says how many mutations to try (20,000 in CI). The seed is fixed, so that a failure
can be tried again.
"""

from __future__ import annotations

import copy
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from toolscore_pipeline.errors import InputError
from toolscore_pipeline.evidence_tables import tables_from_runs
from toolscore_pipeline.formats import formats, read_value
from toolscore_pipeline.formats._common import EMPTY_ARGUMENTS
from toolscore_pipeline.jsonio import strict_lines, strict_loads
from toolscore_pipeline.loading import Source, load_documents

COUNT = int(os.environ.get("TOOLSCORE_FUZZ", "20000" if os.environ.get("CI") else "3000"))
#: A mutation takes well under a millisecond; a hang takes for ever.
SECONDS_EACH = 5.0
EXAMPLES = sorted((Path(__file__).parents[1] / "examples" / "traces").glob("*.json*"))
JUNK: list[Any] = [
    None, True, 0, -1, 1.5, 2**70, "", "x", "null", '{"a": ', "\u0000", [], {}, [[]], [None],
    {"type": None}, {"type": ["x"]}, {"role": {}}, {"id": []}, ["x", 1, {}], {"": {"": []}},
]  # fmt: skip


def values() -> list[Any]:
    """The parsed examples: whole documents, and the lists of lines."""
    found: list[Any] = []
    for file in EXAMPLES:
        data = file.read_bytes()
        if file.suffix == ".jsonl":
            found.append([value for _, value, _ in strict_lines(data)])
        else:
            found.append(strict_loads(data)[0])
    return found


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a value."""
    found, stack = [], [value]
    while stack:
        item = stack.pop()
        keys = item.keys() if isinstance(item, dict) else range(len(item))
        for key in keys:
            found.append((item, key))
            if isinstance(item[key], (dict, list)):
                stack.append(item[key])
    return found


def mutated(value: Any, chance: random.Random, everything: list[tuple[Any, Any]]) -> Any:
    """A copy of ``value`` with one to three changes."""
    whole = [copy.deepcopy(value)]
    for _ in range(chance.randint(1, 3)):
        container, key = chance.choice(places(whole))
        change = chance.randrange(6)
        if change == 0:
            container[key] = copy.deepcopy(chance.choice(JUNK))
        elif change == 1 and len(container) > 1:
            del container[key]
        elif change == 2 and isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        elif change == 3 and isinstance(container, list):
            chance.shuffle(container)
        elif change == 4:
            other, place = chance.choice(everything)
            container[key] = copy.deepcopy(other[place])
        elif isinstance(container[key], str):
            container[key] = container[key][: chance.randrange(len(container[key]) + 1)]
        if not whole:
            whole.append(None)
    return whole[0]


def test_a_mutated_example_is_read_or_refused_in_one_sentence() -> None:
    chance = random.Random(20261130)
    originals = values()
    everything = places(originals)
    read, sentences = 0, []
    for number in range(COUNT):
        value = mutated(chance.choice(originals), chance, everything)
        names = ["auto", "auto", "auto", *formats()]
        name = chance.choice(names)
        before = json.dumps(value) if number % 4 == 0 else None
        start = time.monotonic()
        try:
            runs = read_value(value, name, is_strict_json=before is not None)
        except InputError as error:
            sentences.append(str(error))
        except Exception as error:  # anything else is a traceback for somebody
            pytest.fail(f"mutation {number} as {name}: {error!r} on {json.dumps(value)[:2000]}")
        else:
            assert runs, (number, name)
            table, calls = tables_from_runs(runs, "d", "s", "p")
            assert table.num_rows == len(runs)
            assert calls.num_rows == sum(len(run.calls) for run in runs)
            read += 1
        assert time.monotonic() - start < SECONDS_EACH, (number, name)
        # A reader that wrote into what it was given could change the next reading.
        assert before is None or json.dumps(value) == before, (number, name)
        assert EMPTY_ARGUMENTS.args == {}, (number, name)
    assert read > COUNT / 10
    assert len(sentences) > COUNT / 10
    assert not [sentence for sentence in sentences if "\n" in sentence]


def test_no_line_of_a_mutated_file_is_lost(tmp_path: Path) -> None:
    chance = random.Random(7)
    rows = (EXAMPLES[0].parent / "run_rows.jsonl").read_bytes().splitlines()
    file = tmp_path / "rows.jsonl"
    for number in range(COUNT // 20):
        lines = []
        for _ in range(6):
            line = bytearray(chance.choice(rows))
            for _ in range(chance.choice([0, 0, 1, 2])):
                position = chance.randrange(len(line))
                change = chance.randrange(4)
                if change == 0:
                    del line[position:]
                elif change == 1:
                    line[position] = chance.randrange(256)
                elif change == 2:
                    del line[position]
                else:
                    line[position:position] = bytes([chance.choice(b'"{}[],:0\\e-\xff')])
                line = line.replace(b"\n", b" ").replace(b"\r", b" ")
                line = line or bytearray(b"!")
            lines.append(bytes(line))
        file.write_bytes(b"\n".join(lines))
        batches = list(load_documents([Source("s", str(file))]))
        runs = [run for batch in batches for run in batch.runs.to_pylist()]
        rejects = [reject for batch in batches for reject in batch.rejects.to_pylist()]
        whole_errors = [run for run in runs if run["locator"] is None]
        record_count = sum(1 for line in lines if line.strip())
        assert len(runs) - len(whole_errors) + len(rejects) == record_count, (number, lines)
