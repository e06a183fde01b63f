"""A local server that speaks the wire formats of both providers, with trouble on demand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.agent_helpers import anthropic_message, openai_response

Reply = Callable[[dict[str, Any], int], Any]
"""Told the request and its number from 0; returns parts of an answer, or a Trouble."""


class Trouble:
    """An answer that is none: an HTTP status, a delay, a dropped connection or garbage."""

    def __init__(
        self,
        status: int = 200,
        *,
        body: Any = None,
        delay: float = 0.0,
        is_dropped: bool = False,
        headers: dict[str, str] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.delay = delay
        self.is_dropped = is_dropped
        self.headers = headers or {}


class ModelServer:
    """What the server was asked, and what it would bill for.

    A request is billed when its answer is sent: a token for every four bytes of the request, and
    ``output_tokens`` for the answer.
    """

    def __init__(self, reply: Reply, output_tokens: int = 20, delay: float = 0.0) -> None:
        self.reply = reply
        self.output_tokens = output_tokens
        self.delay = delay
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.billed: list[tuple[int, int]] = []
        self.lock = threading.Lock()
        self.url = ""

    def billed_usd(self, input_price: float, output_price: float) -> float:
        """The bill at these prices per million tokens."""
        return sum(i * input_price + o * output_price for i, o in self.billed) / 1_000_000


@contextmanager
def model_server(
    reply: Reply, *, output_tokens: int = 20, delay: float = 0.0
) -> Iterator[ModelServer]:
    """A running server; ANTHROPIC_BASE_URL is its ``url``, OPENAI_BASE_URL that with ``/v1``."""
    state = ModelServer(reply, output_tokens, delay)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            request = json.loads(raw)
            with state.lock:
                number = len(state.requests)
                state.requests.append(request)
                state.keys.append(self.headers.get("x-api-key") or self.headers["Authorization"])
            time.sleep(state.delay)
            answer = state.reply(request, number)
            if isinstance(answer, Trouble):
                self._trouble(answer)
                return
            usage = (len(raw) // 4, state.output_tokens)
            make = anthropic_message if self.path == "/v1/messages" else openai_response
            body = make(*answer, usage=usage).model_dump_json(exclude_unset=True).encode()
            with state.lock:
                state.billed.append(usage)
            self._send(200, body, {})

        def _trouble(self, trouble: Trouble) -> None:
            time.sleep(trouble.delay)
            if trouble.is_dropped:
                self.close_connection = True
                self.connection.close()
                return
            body = trouble.body
            data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
            self._send(trouble.status, data, trouble.headers)

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # the client has given up, or was killed

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
