"""Loading: files of every kind, quarantine, what is known, and the population that stays whole."""

from __future__ import annotations

import gzip
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from toolscore_pipeline.errors import InputError, UsageError
from toolscore_pipeline.evidence_tables import (
    CALLS_SCHEMA,
    RUNS_SCHEMA,
    evidence_sha256,
    tables_from_runs,
)
from toolscore_pipeline.hashing import json_sha256
from toolscore_pipeline.loading import (
    DOCUMENTS_SCHEMA,
    REJECTS_SCHEMA,
    Batch,
    Known,
    Progress,
    Source,
    code_version,
    excerpt_of,
    load_documents,
    loader_version,
    read_file,
    stem_of,
)
from toolscore_pipeline.model import Call, Run

CALL = {"tool": "t", "args": {"x": 1}, "result": "ok"}


def row(**fields: Any) -> dict[str, Any]:
    return {"run_record_version": "1", "task_id": "a", "arm_id": "x", "calls": [CALL], **fields}


def load(path: Path | str, **fields: Any) -> Batch:
    """Everything of one source, in one batch."""
    return merged(load_documents([Source("s", str(path), **fields)]))


def merged(batches: Any) -> Batch:
    whole = Batch()
    for batch in batches:
        for name in ("documents", "runs", "calls", "rejects"):
            tables = [getattr(whole, name), getattr(batch, name)]
            setattr(whole, name, pa.concat_tables(tables))
        for name in ("unchanged", "touched", "changed"):
            getattr(whole, name).extend(getattr(batch, name))
    return whole


def rows_of(table: pa.Table, *names: str) -> list[Any]:
    found = table.select(names).to_pylist()
    return [item[names[0]] for item in found] if len(names) == 1 else found


def lines(*records: Any) -> bytes:
    return b"".join(
        (record if isinstance(record, bytes) else json.dumps(record).encode()) + b"\n"
        for record in records
    )


# --- kinds of files -------------------------------------------------------------------------------


def pack_zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("runs.jsonl", bytes),
        ("runs.json", bytes),
        ("runs.jsonl.gz", gzip.compress),
        ("runs.jsonl.zst", pack_zstd),
        ("odd-name.txt", gzip.compress),
        ("two-members.jsonl.gz", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
    ],
)
def test_json_lines_load_whatever_they_are_packed_in(tmp_path: Path, name: str, pack: Any) -> None:
    file = tmp_path / name
    file.write_bytes(pack(lines(row(), row(task_id="b"))))
    batch = load(file)
    assert rows_of(batch.runs, "task") == ["a", "b"]
    assert rows_of(batch.runs, "locator") == ["line 1", "line 2"]
    assert batch.rejects.num_rows == 0
    assert batch.runs.schema == RUNS_SCHEMA
    assert batch.calls.schema == CALLS_SCHEMA
    assert batch.documents.schema == DOCUMENTS_SCHEMA
    assert batch.rejects.schema == REJECTS_SCHEMA


def test_a_document_is_told_from_lines_by_what_it_holds(tmp_path: Path) -> None:
    pretty = tmp_path / "pretty.jsonl"
    pretty.write_text(json.dumps({"calls": [CALL]}, indent=2))
    assert load(pretty).runs.num_rows == 1
    single = tmp_path / "one.json"
    single.write_text(json.dumps({"calls": [CALL]}))
    assert rows_of(load(single).runs, "locator") == [None]


def test_a_byte_order_mark_crlf_and_blank_lines_are_tolerated(tmp_path: Path) -> None:
    file = tmp_path / "windows.jsonl"
    text = b"\xef\xbb\xbf" + lines(row()).replace(b"\n", b"\r\n") + b"\r\n  \r\n" + lines(row())
    file.write_bytes(text)
    batch = load(file)
    assert sorted(rows_of(batch.runs, "locator")) == ["line 1", "line 4"]
    assert batch.rejects.num_rows == 0


def test_odd_json_of_a_message_a_line_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "messages.jsonl"
    asked = b'{"role": "user", "content": "a", "content": "b"}\n'
    called = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "t"}}]}
    path.write_bytes(asked + lines(called) + asked)
    [run] = read_file(path)
    assert run.warnings == ["an object repeats a key; the last value was taken (line 1 and 1 more)"]


def test_parquet_rows_are_runs(tmp_path: Path) -> None:
    file = tmp_path / "runs.parquet"
    table = pa.table({"task": ["a"], "variant": ["x"], "calls": [json.dumps([CALL])], "n": [5]})
    parquet.write_table(table, file)
    batch = load(file)
    assert rows_of(batch.runs, "task", "variant", "attributes_json") == [
        {"task": "a", "variant": "x", "attributes_json": '{"n":5}'}
    ]
    assert rows_of(batch.calls, "args_json") == ['{"x":1}']


def test_a_query_yields_runs_and_reads_files_from_the_sources_root(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([{"t": "a", "c": [CALL], "n": 1}]))
    query = """
        select t as task, 'x' as variant, c as calls, n
        from read_json('rows.json', columns = {t: 'varchar', c: 'json', n: 'integer'})
    """
    batch = merged(load_documents([Source("lake", query=query, root=tmp_path)]))
    assert rows_of(batch.runs, "task", "path", "attributes_json") == [
        {"task": "a", "path": "query:lake", "attributes_json": '{"n":1}'}
    ]
    assert rows_of(batch.calls, "args_json", "result_json") == [
        {"args_json": '{"x":1}', "result_json": '"ok"'}
    ]


def test_numbers_and_times_of_any_column_type_are_kept() -> None:
    # 1.5 is a DECIMAL in SQL, sum() is a HUGEINT, and neither is a Python number.
    query = """
        select 'a' as task, sum(i) as repetition, 0.02 as cost_usd, 1.5 as duration_seconds,
            100::hugeint as input_tokens, timestamp '2026-12-01 10:00:00' as started_at,
            [{'tool': 't', 'cost': 0.25, 'duration': 0.5, 'result': 0.1, 'args': {
                'half': 1.5, 'big': 170141183460469231731687303715884105727::hugeint,
                'day': date '2026-12-01', 'at': time '10:30:00', 'pairs': map {'k': 1.0},
                'raw': encode('é'), 'none': null}}] as calls
        from range(3) as r(i)
    """
    batch = merged(load_documents([Source("lake", query=query)]))
    assert rows_of(
        batch.runs, "repetition", "cost_usd", "duration_seconds", "input_tokens", "started_at"
    ) == [
        {
            "repetition": 3,  # 0 + 1 + 2
            "cost_usd": 0.02,
            "duration_seconds": 1.5,
            "input_tokens": 100,
            "started_at": datetime(2026, 12, 1, 10, tzinfo=UTC),
        }
    ]
    (call,) = rows_of(batch.calls, "args_json", "result_json", "cost_usd", "duration_seconds")
    assert json.loads(call.pop("args_json")) == {
        "half": 1.5,
        "big": 2**127 - 1,
        "day": "2026-12-01",
        "at": "10:30:00",
        "pairs": {"k": 1},
        "raw": "é",
        "none": None,
    }
    assert call == {"result_json": "0.1", "cost_usd": 0.25, "duration_seconds": 0.5}


def test_a_row_with_a_number_that_is_not_json_is_set_aside() -> None:
    query = """
        select 'a' as task, [{'tool': 't', 'args': {'x': x}, 'duration': x}] as calls
        from (values (1.0::double), ('nan'::double), (2.0::double)) as v(x)
    """
    batch = merged(load_documents([Source("lake", query=query)]))
    assert rows_of(batch.calls, "args_json") == [
        '{"x":1.0}',
        '{"x":2.0}',
    ]
    assert rows_of(batch.rejects, "path", "json_path", "reason") == [
        {
            "path": "query:lake",
            "json_path": "$[1].calls[0].args.x",
            "reason": "nan is no JSON number",
        }
    ]


def test_a_folder_above_the_pattern_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "a[1] *"
    folder.mkdir()
    (folder / "b.jsonl").write_bytes(lines(row()))
    source = Source("s", "*.jsonl", root=folder)
    assert rows_of(merged(load_documents([source])).documents, "path") == ["b.jsonl"]


def test_a_query_that_fails_or_lacks_a_column_is_one_sentence() -> None:
    with pytest.raises(InputError, match="query of source 'lake' failed: Catalog Error"):
        list(load_documents([Source("lake", query="select * from nowhere")]))
    with pytest.raises(InputError, match="query:lake: a run row needs a column 'calls'"):
        list(load_documents([Source("lake", query="select 1 as task")]))


def test_a_folder_a_glob_and_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("b.json", "deep/a.jsonl", "notes.txt", ".hidden.json"):
        (tmp_path / name).write_bytes(lines(row()))
    assert rows_of(load(tmp_path).documents, "path") == [
        str(tmp_path / "b.json"),
        str(tmp_path / "deep/a.jsonl"),
    ]
    assert load(f"{tmp_path}/**/*.jsonl").documents.num_rows == 1
    for path, reason in (("gone.json", "no such file"), ("*.csv", "no file matches")):
        with pytest.raises(InputError, match=reason):
            load(tmp_path / path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no trace files"):
        load(tmp_path / "empty")


def test_a_file_found_by_two_sources_is_loaded_once(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(lines(row()))
    sources = [Source("one", str(file)), Source("two", str(tmp_path))]
    assert rows_of(merged(load_documents(sources)).documents, "source") == ["one"]


# --- quarantine -----------------------------------------------------------------------------------


def test_one_bad_record_never_loses_the_others(tmp_path: Path) -> None:
    file = tmp_path / "mixed.jsonl"
    bad = [b'{"a": NaN}', b"12", b'{"foo": 1}', b'{"calls": [7], "task_id": "a"}', b"\xff{}"]
    file.write_bytes(lines(row(), *bad, row(task_id="b")) + b'{"cut": [1, 2')
    batch = load(file)
    assert rows_of(batch.runs, "task") == ["a", "b"]
    assert rows_of(batch.rejects, "line") == [2, 3, 4, 5, 6, 8]
    reasons = rows_of(batch.rejects, "reason")
    assert "NaN is no JSON number" in reasons[0]
    assert reasons[1] == "a record must be an object or a list"
    assert "no trace format recognises" in reasons[2]
    assert reasons[3] == "a call must be an object"
    assert "not UTF-8" in reasons[4]
    assert "it ends early" in reasons[5]
    assert rows_of(batch.documents, "run_count", "reject_count", "error") == [
        {"run_count": 2, "reject_count": 6, "error": None}
    ]


def test_an_excerpt_shows_structure_and_no_contents() -> None:
    raw = b'{"token": "ghp_abc123", "n": [1, 2.5]}' + b"x" * 500
    excerpt = excerpt_of(raw)
    assert excerpt is not None
    assert excerpt.startswith('{"xxxxx": "xxx_xxxxxx", "x": [x, x.x]}')
    assert len(excerpt) == 120


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"{}", "no trace format recognises an empty object"),
        (b'{"calls": [', "it ends early"),
        (b'[{"tool": "t", "args": {"x": NaN}}]', "NaN is no JSON number"),
        (b"[" * 10_000 + b"]" * 10_000, "nested deeper than"),
        (b"\n\n", "there is no value"),
        (gzip.compress(lines(row()) * 50, mtime=0)[:60], "the file cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_stays_in_the_population(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "main").mkdir()
    file = tmp_path / "main" / "book-flight-3.json"
    file.write_bytes(content)
    good = tmp_path / "main" / "other-1.json"
    good.write_text(json.dumps([CALL]))
    batch = load(tmp_path, variant="{parent}")
    assert rows_of(batch.runs, "task", "variant", "status", "recorded_outcome") == [
        {"task": "book-flight", "variant": "main", "status": "error", "recorded_outcome": "error"},
        {"task": "other", "variant": "main", "status": None, "recorded_outcome": None},
    ]
    error = rows_of(batch.runs, "error")[0]
    assert reason in error
    assert str(file) in error
    assert reason in rows_of(batch.rejects, "reason")[0]
    assert rows_of(batch.documents, "error")[0] == error


def test_lines_of_which_none_can_be_read_are_a_run_in_error_too(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_bytes(b'{"a": NaN}\n{"b": 1}\n')
    batch = load(file)
    assert batch.rejects.num_rows == 2
    assert rows_of(batch.runs, "status") == ["error"]
    assert "none of 2 record(s) could be read" in rows_of(batch.runs, "error")[0]


def test_a_packed_file_that_ends_early_keeps_the_lines_before(tmp_path: Path) -> None:
    file = tmp_path / "cut.jsonl.gz"
    data = gzip.compress(b"".join(lines(row(order=n, note=os.urandom(99).hex()))
                                  for n in range(20_000)))  # fmt: skip
    file.write_bytes(data[: len(data) // 2])
    batch = load(file)
    assert batch.runs.num_rows > 5_000
    assert rows_of(batch.documents, "error") == [None]
    assert any("ends early" in reason for reason in rows_of(batch.rejects, "reason"))


def test_messages_spans_and_calls_one_a_line_make_one_run(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_bytes(
        lines(
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}]},
            b"",
            {"role": "tool", "tool_call_id": "c", "content": "1"},
        )
    )  # fmt: skip
    batch = load(file)
    assert rows_of(batch.runs, "format", "prompt") == [{"format": "openai", "prompt": "go"}]
    assert rows_of(batch.calls, "request_locator", "completion_locator") == [
        {"request_locator": "line 2 $.tool_calls[0]", "completion_locator": "line 4 $"}
    ]


def test_a_record_with_messages_is_a_run_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    chat = {"messages": [{"role": "user", "content": "go"}]}
    file.write_bytes(lines(chat, chat))
    batch = load(file)
    assert rows_of(batch.runs, "locator") == ["line 1", "line 2"]
    assert len(set(rows_of(batch.runs, "run_id"))) == 2


# --- what is known --------------------------------------------------------------------------------


def known_of(batch: Batch) -> dict[str, Known]:
    return {
        item["path"]: Known(
            item["bytes"], item["modified_ns"], item["sha256"], item["loader_version"]
        )
        for item in batch.documents.to_pylist()
    }


def test_a_known_file_is_skipped_a_touched_one_hashed_and_a_changed_one_read(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(lines(row()))
    source = Source("s", str(file))
    known = known_of(merged(load_documents([source])))

    again = merged(load_documents([source], known))
    assert (again.unchanged, again.runs.num_rows, again.documents.num_rows) == ([str(file)], 0, 0)

    os.utime(file, ns=(1, 1))
    touched = merged(load_documents([source], known))
    assert (touched.touched, touched.runs.num_rows) == ([str(file)], 0)
    assert rows_of(touched.documents, "modified_ns") == [1]

    with file.open("ab") as handle:
        handle.write(lines(row(task_id="b")))
    changed = merged(load_documents([source], known))
    assert (changed.changed, changed.runs.num_rows) == ([str(file)], 2)


def test_other_settings_of_a_source_read_its_files_anew(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(lines({"task": "a", "calls": []}, {"task": "b", "calls": []}))
    known = known_of(load(file))
    batch = merged(load_documents([Source("s", str(file), variant="{stem}")], known))
    assert rows_of(batch.runs, "variant") == ["a", "a"]
    assert loader_version(Source("s", "x")) != loader_version(Source("s", "x", format="plain"))
    assert len(code_version()) == 16


def test_progress_is_reported_up_to_the_last_byte(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.json"):
        (tmp_path / name).write_bytes(lines(row()))
    seen: list[Progress] = []
    list(load_documents([Source("s", str(tmp_path))], on_progress=seen.append))
    last = seen[-1]
    assert (last.files_done, last.file_count, last.run_count) == (2, 2, 2)
    assert last.bytes_done == last.byte_count > 0


# --- identity -------------------------------------------------------------------------------------


def test_identical_records_are_different_runs_and_appending_changes_no_id(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_bytes(lines(row(), row()))
    first = rows_of(load(file).runs, "run_id")
    file.write_bytes(lines(row(), row(), row()))
    second = rows_of(load(file).runs, "run_id")
    assert len(set(second)) == 3
    assert second[:2] == first


def test_the_same_document_moved_has_the_same_ids(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(row()))
    (tmp_path / "b.jsonl").write_bytes(lines(row()))
    ids = rows_of(load(tmp_path).runs, "run_id", "document_id")
    assert ids[0] == ids[1]


def test_a_run_id_is_the_hash_of_the_evidence_and_what_was_run() -> None:
    run = Run(calls=[Call("t", {"x": 1})], task="a", variant="v", repetition=2)
    runs, _ = tables_from_runs([run, run], "d", "s", "p")
    evidence = evidence_sha256(run)
    assert rows_of(runs, "evidence_sha256") == [evidence, evidence]
    assert rows_of(runs, "run_id") == [
        json_sha256([evidence, "a", "v", 2, ordinal]) for ordinal in (0, 1)
    ]


def test_evidence_is_what_happened_and_nothing_else() -> None:
    def sha(call: dict[str, Any] | None = None, **run: Any) -> str:
        return evidence_sha256(Run(calls=[Call("t", {}, **(call or {}))], **run))

    same = sha()
    assert same == sha({"request_locator": "$[0]", "warnings": ["odd"]}, task="a", variant="b")
    assert same == sha(repetition=3, locator="line 1", warnings=["odd"], attributes={"a": 1})
    others = [
        sha({"result": None}), sha({"is_error": False}), sha({"args_raw": "{}"}),
        sha({"duration_seconds": 1.0}), sha(final_answer=""), sha(status="error"),
        sha(cost_usd=0.0), sha(model="m"), sha(prompt="p"), sha(injected={}), sha(probes=[]),
    ]  # fmt: skip
    assert len({same, *others}) == len(others) + 1


def test_a_lone_surrogate_reaches_the_tables_as_its_escape() -> None:
    run = Run(calls=[Call("t", {"x": "\ud800"}, result="\udfff")], final_answer="a\ud800")
    runs, calls = tables_from_runs([run], "d", "s", "p")
    assert rows_of(runs, "final_answer") == ["a\\ud800"]
    assert rows_of(calls, "args_json", "result_json") == [
        {"args_json": '{"x":"\\ud800"}', "result_json": '"\\udfff"'}
    ]


# --- variants and tasks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "stem"),
    [("a.json", "a"), ("a.b.jsonl.gz", "a.b"), ("run.eval", "run"), (".json", ".json")],
)
def test_a_stem_has_no_suffix_of_format_or_packing(name: str, stem: str) -> None:
    assert stem_of(Path("x") / name) == stem


def test_variant_task_and_repetition_come_from_the_path_when_the_record_names_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "main").mkdir()
    (tmp_path / "main" / "book-7.json").write_text(json.dumps([CALL]))
    (tmp_path / "main" / f"cook-{10**30}.json").write_text(json.dumps([CALL]))
    (tmp_path / "main" / "own.jsonl").write_bytes(lines(row(), {"calls": [], "model": "m",
                                                                "outcome": "pass"}))  # fmt: skip
    batch = load(
        tmp_path, variant="{grandparent}/{parent}", task=r"(?P<task>\w+)-(?P<repetition>\d+)"
    )
    parent = f"{tmp_path.name}/main"
    assert rows_of(batch.runs, "task", "variant", "repetition") == [
        {"task": "book", "variant": parent, "repetition": 7},
        {"task": "cook", "variant": parent, "repetition": None},  # no 64-bit number
        {"task": "a", "variant": "x", "repetition": None},
        {"task": None, "variant": parent, "repetition": None},
    ]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"task": "("}, "is no regular expression"),
        ({"task": "(a)"}, "has no group named 'task'"),
        ({"variant": "{nope}"}, "variant pattern '{nope}' is wrong"),
        ({"variant": "{parent.nope}"}, "variant pattern '{parent.nope}' is wrong"),
        ({"format": "nope"}, "unknown trace format 'nope'"),
        ({"query": "select 1"}, "needs a path or a query, and only one"),
    ],
)
def test_wrong_settings_of_a_source_are_one_sentence(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        list(load_documents([Source("s", "x.json", **fields)]))


# --- size -----------------------------------------------------------------------------------------


def test_batches_hold_at_most_fifty_thousand_runs(tmp_path: Path) -> None:
    file = tmp_path / "many.jsonl"
    file.write_bytes(lines(row(calls=[])) * 120_000)
    sizes = [batch.runs.num_rows for batch in load_documents([Source("s", str(file))])]
    assert sum(sizes) == 120_000
    assert max(sizes) <= 50_000
    assert len(sizes) >= 3


def test_a_line_of_twenty_megabytes_is_one_record(tmp_path: Path) -> None:
    file = tmp_path / "long.jsonl"
    file.write_bytes(lines(row(final_answer="x" * (20 << 20)), row()))
    batch = load(file)
    assert batch.runs.num_rows == 2
    assert [len(text or "") for text in rows_of(batch.runs, "final_answer")] == [20 << 20, 0]


def test_a_document_too_large_to_hold_is_refused_and_lines_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolscore_pipeline.loading.MAX_DOCUMENT_BYTES", 5 << 20)
    document = tmp_path / "large.json"
    document.write_text(json.dumps([CALL] * 150_000, indent=1))
    batch = load(document)
    assert rows_of(batch.runs, "status") == ["error"]
    assert "is not read whole" in rows_of(batch.rejects, "reason")[0]
    file = tmp_path / "large.jsonl"
    file.write_bytes(b"{broken\n" + lines(row()) * 60_000)
    batch = load(file)
    assert (batch.runs.num_rows, batch.rejects.num_rows) == (60_000, 1)


def test_messages_beyond_what_can_be_held_are_rejects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolscore_pipeline.loading.MAX_DOCUMENT_BYTES", 1 << 20)
    file = tmp_path / "chat.jsonl"
    file.write_bytes(lines({"role": "user", "content": "x" * 1000}) * 3_000)
    batch = load(file)
    assert batch.runs.num_rows == 1
    assert 500 < batch.rejects.num_rows < 3_000
    assert "split it" in rows_of(batch.rejects, "reason")[0]


def test_records_of_several_formats_in_one_file_are_read_format_by_format(tmp_path: Path) -> None:
    file = tmp_path / "mixed.jsonl"
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "m"}}
    chat = {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "o", "arguments": "{}"}}]}  # fmt: skip
    file.write_bytes(lines(call, chat, CALL))
    batch = load(file)
    assert sorted(rows_of(batch.runs, "format")) == ["mcp", "openai", "plain"]
    assert batch.rejects.num_rows == 0
