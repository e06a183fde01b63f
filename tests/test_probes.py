"""Declared side effects: looked for once, kept as evidence, unknown when nobody looked."""

from __future__ import annotations

import json
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from toolscore_pipeline import api
from toolscore_pipeline.probes import declared_effects, probe


def status(kind, spec, folder):
    [result] = probe([(kind, spec)], folder)
    return result["status"]


def test_files_are_found_or_missed(tmp_path):
    (tmp_path / "poem.txt").write_text("roses are red", encoding="utf-8")
    assert status("file_exists", "poem.txt", tmp_path) == "pass"
    assert status("file_exists", ["poem.txt", "other.txt"], tmp_path) == "fail"
    assert status("file_contains", {"path": "poem.txt", "text": "red"}, tmp_path) == "pass"
    assert status("file_contains", {"path": "poem.txt", "text": "blue"}, tmp_path) == "fail"
    assert status("file_contains", {"path": "gone.txt", "text": "red"}, tmp_path) == "fail"


def test_rows_are_counted_read_only(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("create table orders (id integer)")
        connection.execute("insert into orders values (1), (2)")
    spec = {"database": "shop.db", "query": "select * from orders", "rows": 2}
    assert status("sql_rows", spec, tmp_path) == "pass"
    assert status("sql_rows", spec | {"rows": 3}, tmp_path) == "fail"
    assert status("sql_rows", spec | {"query": "delete from orders"}, tmp_path) == "unknown"
    assert status("sql_rows", spec | {"query": "select nope"}, tmp_path) == "unknown"
    assert status("sql_rows", spec | {"database": "gone.db"}, tmp_path) == "unknown"
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        assert connection.execute("select count(*) from orders").fetchone() == (2,)


def test_a_server_answers_or_leaves_it_unknown(tmp_path):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/there" else 404)
            self.end_headers()

        def log_message(self, *_):
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        assert status("http_status", f"{address}/there", tmp_path) == "pass"
        assert status("http_status", f"{address}/gone", tmp_path) == "fail"
        assert status("http_status", {"url": f"{address}/gone", "status": 404}, tmp_path) == "pass"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert status("http_status", f"{address}/there", tmp_path) == "unknown"
    assert status("http_status", "file:///etc/hosts", tmp_path) == "unknown"


def test_a_malformed_declaration_is_unknown_not_a_crash(tmp_path):
    assert status("file_contains", "poem.txt", tmp_path) == "unknown"
    assert status("sql_rows", {"query": "select 1"}, tmp_path) == "unknown"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gold = [{"tool": "write", "side_effects": {"file_exists": "poem.txt"}}, {"tool": "read"}]
    (tmp_path / "gold.json").write_text(json.dumps(gold), encoding="utf-8")
    calls = [{"tool": "write", "args": {}, "result": 1}, {"tool": "read", "args": {}, "result": 1}]
    (tmp_path / "trace.json").write_text(json.dumps(calls), encoding="utf-8")
    return tmp_path


def check(result):
    found = [row for row in result.evidence["checks"] if row["check"] == "side-effects"]
    return found[0]["status"] if found else None


def test_the_check_passes_fails_and_stays_unknown(files):
    assert check(api.evaluate_trace("gold.json", "trace.json")) == "fail"
    (files / "poem.txt").write_text("x", encoding="utf-8")
    assert check(api.evaluate_trace("gold.json", "trace.json")) == "pass"
    unprobed = api.evaluate_trace("gold.json", "trace.json", validate_side_effects=False)
    assert check(unprobed) == "unknown"


def test_the_check_appears_only_where_effects_are_declared(files):
    assert check(api.evaluate([{"tool": "write"}], [{"tool": "write", "args": {}}])) is None


def test_a_stored_probe_is_read_and_nothing_is_probed_again(files):
    first = api.evaluate_trace("gold.json", "trace.json")
    probes = json.loads(first.run["probes_json"])
    (files / "poem.txt").write_text("x", encoding="utf-8")
    calls = json.loads((files / "trace.json").read_text(encoding="utf-8"))
    run = api.single_run(calls)
    run.probes = probes
    assert check(api.evaluate(json.loads((files / "gold.json").read_text()), run)) == "fail"


def test_effects_of_alternatives_are_all_declared_once():
    from toolscore_pipeline.contract import contract_from_mapping

    effect = {"file_exists": "a"}
    contract = contract_from_mapping(
        {
            "contract_version": 2,
            "required": [
                {"tool": "x", "side_effects": effect},
                {
                    "alternatives": [
                        [{"tool": "y", "side_effects": effect}],
                        [{"tool": "z", "side_effects": {"file_exists": "b"}}],
                    ]
                },
            ],
        }
    )
    assert declared_effects(contract) == [("file_exists", "a"), ("file_exists", "b")]
