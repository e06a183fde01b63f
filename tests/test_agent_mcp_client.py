"""The MCP clients against real servers, well-behaved and not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from toolscore_pipeline.agent import (
    MCPHTTPClient,
    MCPServerError,
    MCPServerSpec,
    MCPStdioClient,
)
from toolscore_pipeline.agent.mcp_client import MAX_MESSAGE_BYTES

pytest.importorskip("mcp")

PLAIN = str(Path(__file__).with_name("agent_servers") / "plain_server.py")


def plain(behaviour: str, *more: str, **settings: float) -> MCPStdioClient:
    """A client of the plain server, with short time-outs."""
    return MCPStdioClient(
        [sys.executable, PLAIN, behaviour, *more],
        timeout=settings.get("timeout", 20),
        start_timeout=settings.get("start_timeout", 20),
    )


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pids: list[int], seconds: float = 10.0) -> list[int]:
    """The processes that are still there after so many seconds."""
    deadline = time.monotonic() + seconds
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [pid for pid in pids if is_running(pid)]


def test_a_server_of_the_handshake_era_is_spoken_to_in_its_own_version():
    with plain("good") as client:
        assert (client.info.name, client.info.version) == ("plain-server", "0.1")
        assert (client.info.protocol_version, client.info.era) == ("2025-11-25", "handshake")
        assert [tool.name for tool in client.list_tools()] == ["echo", "act"]
        result = client.call_tool("echo", {"a": [1, {"b": "ü"}]})
    assert (result.result, result.is_error) == ('{"a": [1, {"b": "\\u00fc"}]}', False)


def test_the_bundled_server_speaks_over_stdio_in_the_newest_version():
    command = [sys.executable, "-m", "toolscore_pipeline.agent.sample_server"]
    with MCPStdioClient(command) as client:
        assert client.info.era == "modern"
        assert (client.info.name, client.info.version) == ("notes-server", "1.0.0")
        tools = sorted(tool.name for tool in client.list_tools())
        assert tools == ["delete_note", "list_notes", "read_note", "save_note"]
        assert client.call_tool("save_note", {"title": "a", "body": "b"}).result == "saved 'a'"
        assert client.call_tool("list_notes").structured == {"result": ["a", "old"]}
        missing = client.call_tool("read_note", {"title": "no"})
    assert missing.is_error
    assert "there is no note titled 'no'" in str(missing.error)


@pytest.fixture(scope="module")
def notes_url():
    """The bundled server over Streamable HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "toolscore_pipeline.agent.sample_server", "--http", str(port)],
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/mcp"
    server.terminate()
    server.wait(10)


@pytest.mark.parametrize("protocol", ["auto", "legacy", "2025-11-25", "2026-07-28"])
def test_the_bundled_server_speaks_streamable_http_in_either_era(notes_url, protocol):
    with MCPHTTPClient(notes_url, protocol=protocol) as client:
        expected = "handshake" if protocol in ("legacy", "2025-11-25") else "modern"
        assert client.info.era == expected
        assert len(client.list_tools()) == 4
        assert client.call_tool("read_note", {"title": "old"}).result == "An old note."


def test_a_url_that_nobody_serves_fails_with_the_url_and_without_its_password():
    client = MCPHTTPClient("http://user:hunter2secret@127.0.0.1:9/mcp?key=abcdef123", timeout=5)
    with pytest.raises(MCPServerError) as caught, client:
        pass
    message = str(caught.value)
    assert "http://127.0.0.1:9/mcp?key=..." in message
    assert "hunter2secret" not in message
    assert "abcdef123" not in message


def test_an_error_of_the_server_is_a_result_with_its_text():
    with plain("error") as client:
        result = client.call_tool("act", {})
        assert (result.result, result.is_error, result.error) == (None, True, "out of paper")
        assert client.call_tool("echo", {}).is_error is False


def test_a_line_that_is_no_message_is_passed_over():
    with plain("noise") as client:
        assert client.call_tool("act", {}).result == "acted"


def test_content_that_is_not_only_text_is_kept_as_blocks():
    with plain("picture") as client:
        result = client.call_tool("act", {}).result
    assert [block["type"] for block in result] == ["image", "text"]


def test_a_hanging_tool_times_out_and_its_server_is_ended(tmp_path):
    pid_file = tmp_path / "pid"
    with plain("hang", str(pid_file), timeout=1) as client:
        started = time.monotonic()
        with pytest.raises(MCPServerError, match="did not answer act within 1 s"):
            client.call_tool("act", {})
        assert time.monotonic() - started < 8
    assert wait_until_gone([int(pid_file.read_text())]) == []


def test_a_server_that_never_answers_fails_to_start_in_time():
    started = time.monotonic()
    with (
        pytest.raises(MCPServerError, match="did not answer within 1 s"),
        plain("mute", start_timeout=1),
    ):
        pass
    assert time.monotonic() - started < 15


def test_a_server_that_refuses_to_start_is_quoted():
    with pytest.raises(MCPServerError, match="refused: no licence"), plain("refuse"):
        pass


def test_a_command_that_does_not_exist_is_named():
    client = MCPStdioClient(["no-such-program-here"])
    with pytest.raises(MCPServerError, match="'no-such-program-here' cannot be started"), client:
        pass


def test_a_crash_in_a_call_is_an_error_that_quotes_the_last_output_without_secrets():
    client = MCPStdioClient(
        [sys.executable, PLAIN, "crash"], env={"SECRET_TOKEN": "opensesame42"}, timeout=20
    )
    with client:
        with pytest.raises(MCPServerError, match="went away during act") as caught:
            client.call_tool("act", {})
        assert not client.is_alive
        with pytest.raises(MCPServerError):
            client.call_tool("echo", {})
    assert "the disk is on fire" in str(caught.value)
    assert "opensesame42" not in str(caught.value)


def test_a_flood_of_error_output_does_not_block_the_server():
    with plain("flood") as client:
        # 2 MB a call; an undrained pipe holds 64 KB.
        assert [client.call_tool("act", {}).result for _ in range(3)] == ["acted"] * 3


def test_a_result_of_50_megabytes_is_an_error_and_the_session_goes_on():
    with plain("big") as client:
        result = client.call_tool("act", {})
        assert result.is_error
        assert f"larger than {MAX_MESSAGE_BYTES} bytes" in str(result.error)
        assert client.call_tool("echo", {"still": "there"}).result == '{"still": "there"}'


def test_a_result_of_50_megabytes_over_http_is_not_read_to_its_end():
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        sent = 0

        def log_message(self, *args):
            pass

        def do_POST(self):
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            result: dict[str, Any] = {"protocolVersion": "2025-11-25"}
            result["capabilities"] = {"tools": {}}
            result["serverInfo"] = {"name": "big", "version": "1"}
            if message["method"] == "tools/call":
                result = {"content": [{"type": "text", "text": "x" * 50_000_000}]}
            answer = {"jsonrpc": "2.0", "id": message.get("id"), "result": result}
            if message["method"] == "server/discover":
                answer = {"jsonrpc": "2.0", "id": message["id"]}
                answer["error"] = {"code": -32601, "message": "no such method"}
            body = json.dumps(answer).encode() if "id" in message else b""
            self.send_response(200 if body else 202)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                for start in range(0, len(body), 1 << 16):
                    self.wfile.write(body[start : start + (1 << 16)])
                    Handler.sent += 1 << 16
            except OSError:
                pass  # the client has heard enough

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with MCPHTTPClient(
            f"http://127.0.0.1:{server.server_address[1]}/mcp", timeout=20
        ) as client:
            try:
                result = client.call_tool("act", {})
                said, is_error = str(result.error), result.is_error
            except MCPServerError as error:
                said, is_error = str(error), True
    finally:
        server.shutdown()
        server.server_close()
    assert is_error, said
    assert Handler.sent < 40_000_000


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc to see the processes")
@pytest.mark.parametrize("behaviour", ["stubborn", "children"])
def test_a_server_that_ignores_termination_is_killed_with_all_its_children(behaviour, tmp_path):
    pid_file = tmp_path / "pids"
    with plain(behaviour, str(pid_file)) as client:
        client.call_tool("echo", {})
        pids = [int(line) for line in pid_file.read_text().split()]
        assert len(pids) == (3 if behaviour == "children" else 1)
        assert all(map(is_running, pids))
    assert wait_until_gone(pids) == []


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc to see the processes")
def test_a_server_does_not_outlive_a_harness_that_is_killed(tmp_path):
    pid_file = tmp_path / "pids"
    code = (
        "import sys, time\n"
        "from toolscore_pipeline.agent import MCPStdioClient\n"
        f"with MCPStdioClient([sys.executable, {PLAIN!r}, 'stubborn', {str(pid_file)!r}]):\n"
        "    print('up', flush=True)\n"
        "    time.sleep(600)\n"
    )
    harness = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert harness.stdout is not None
    assert harness.stdout.readline() == "up\n"
    server = int(pid_file.read_text())
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    assert wait_until_gone([server]) == []


def test_a_server_sees_only_what_it_is_given_of_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-servers")
    client = MCPStdioClient([sys.executable, PLAIN, "env"], env={"GIVEN": "yes"})
    with client:
        names = client.call_tool("act", {}).result.split("|")
    assert "GIVEN" in names
    assert "PATH" in names
    assert "OPENAI_API_KEY" not in names


def test_a_protocol_version_the_server_does_not_speak_is_refused():
    client = MCPStdioClient([sys.executable, PLAIN], protocol="2024-11-05")
    refusal = "speaks protocol 2025-11-25, expected 2024-11-05"
    with pytest.raises(MCPServerError, match=refusal), client:
        pass


def test_closing_twice_and_calling_when_closed_do_no_harm():
    client = plain("good")
    with client:
        pass
    client.close()
    with pytest.raises(MCPServerError, match="not open"):
        client.call_tool("echo", {})


def test_a_description_shows_names_of_variables_and_no_credentials():
    shown = MCPServerSpec(
        command=("run", "--api-key", "abc123secret", "--token=zzz999secret", "https://u:p@h/x?k=v"),
        env={"TOKEN": "abc"},
    ).describe()
    assert shown == {
        "transport": "stdio",
        "command": ["run", "--api-key", "...", "--token=...", "https://h/x?k=..."],
        "env": ["TOKEN"],
    }


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npx") is None, reason="npm is not installed here")
def test_the_official_memory_server_stores_an_entity(tmp_path):
    client = MCPStdioClient(
        ["npx", "-y", "@modelcontextprotocol/server-memory"],
        env={"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")},
        start_timeout=120,
    )
    try:
        client.__enter__()
    except MCPServerError as error:
        pytest.skip(f"the memory server cannot be installed here: {error}")
    try:
        assert "memory" in str(client.info.name)
        entity = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
        assert client.call_tool("create_entities", {"entities": [entity]}).is_error is False
        graph = client.call_tool("read_graph", {})
    finally:
        client.close()
    assert "Ada" in str(graph.result)
    assert "Ada" in (tmp_path / "memory.jsonl").read_text()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_time_outs_leave_no_threads_behind():
    before = threading.active_count()
    for _ in range(2):
        with plain("good"):
            pass
    assert threading.active_count() <= before
