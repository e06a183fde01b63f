"""Plain, blocking clients for MCP servers over stdio and Streamable HTTP.

They wrap the asynchronous ``mcp`` package: each client owns a thread with an event loop, every
wait has a time-out, and a stdio server is ended with all its children when the client closes,
whether it answers, hangs, floods its error output or ignores signals.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import logging
import os
import re
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from importlib import metadata
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import unquote, urlsplit, urlunsplit

from toolscore_pipeline.agent import processes
from toolscore_pipeline.agent.scrub import (
    Scrubber,
    clean_command,
    clean_url,
    url_secrets,
)
from toolscore_pipeline.errors import SettingsError, ToolscoreError

if TYPE_CHECKING:
    import anyio.abc
    from mcp import Client
    from mcp.client._transport import TransportStreams

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""A longer message of a server becomes an error of the request that it answers."""

STDERR_TAIL_BYTES = 4096
"""How much of a server's last error output is kept for error messages."""

INHERITED = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONPATH", "VIRTUAL_ENV",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
)  # fmt: skip
"""Variables a stdio server inherits; anything else it needs must be given as ``env``."""

_CLOSED_MESSAGE = "Connection closed"
_CLOSE_SECONDS = 8.0
_EXTRA_SECONDS = 10.0
_ID = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)')
_HANDSHAKE = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

Mode = Literal["stdio", "http"]


class MCPServerError(ToolscoreError):
    """A server that could not be started or reached, or that failed while it was in use."""


@dataclass(frozen=True, slots=True)
class MCPServerSpec:
    """How to start or reach a server.

    Attributes:
        command: the words of the command of a stdio server; empty for HTTP.
        url: the endpoint of a Streamable HTTP server; empty for stdio.
        env: variables for a stdio server, beside the few it inherits.
        headers: headers for an HTTP server.
        cwd: the folder a stdio server starts in; None is the current one.
        protocol: ``auto``, ``legacy`` (the initialize handshake) or a protocol version.
        timeout: seconds a request may take.
        start_timeout: seconds until the server must have answered first.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    protocol: str = "auto"
    timeout: float = 30.0
    start_timeout: float = 60.0

    def __post_init__(self) -> None:
        """Refuse a server that has neither or both of a command and a URL."""
        if bool(self.command) == bool(self.url):
            raise SettingsError("a server needs either a command or a url")

    @property
    def transport(self) -> Mode:
        """``stdio`` or ``http``."""
        return "stdio" if self.command else "http"

    def secrets(self) -> dict[str, str]:
        """Values that must not be shown, by name."""
        named = {f"env {name}": value for name, value in self.env.items()}
        named |= {f"header {name}": value for name, value in self.headers.items()}
        # A header value may be a scheme and a credential ("Bearer ...").
        named |= {
            f"header {name} credential": value.rpartition(" ")[2]
            for name, value in self.headers.items()
        }
        return named | (url_secrets(self.url) if self.url else {})

    def describe(self) -> dict[str, Any]:
        """What a record may say about it: credentials removed, variables by name only."""
        scrubber = Scrubber(self.secrets())
        shown: dict[str, Any] = {"transport": self.transport}
        if self.command:
            shown["command"] = [scrubber.text(word) for word in clean_command(self.command)]
            shown["env"] = sorted(self.env)
        else:
            shown["url"] = clean_url(self.url)
            shown["headers"] = sorted(self.headers)
        return shown


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of a server: its name, description and JSON Schema of its arguments."""

    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call came back with.

    Attributes:
        result: the text, when there is only text; otherwise the content blocks as JSON values.
        structured: the structured content; None when there is none.
        is_error: whether the tool or the server reported an error.
        error: the error's text; None without one.
    """

    result: Any
    structured: Any = None
    is_error: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Who answered: name and version (None when not told), protocol version and its era.

    The era is ``modern`` for protocol versions that send each request on its own and ``handshake``
    for those that open a session first.
    """

    name: str | None
    version: str | None
    protocol_version: str
    era: str


class MCPClient:
    """A client for one server, used as a context manager; see the two subclasses."""

    def __init__(self, spec: MCPServerSpec) -> None:
        self.spec = spec
        self._scrubber = Scrubber(spec.secrets())
        self._portal_manager: Any = None
        self._portal: Any = None
        self._task: concurrent.futures.Future[None] | None = None
        self._stop: Any = None
        self._client: Client | None = None
        self._pipe: _Pipe | None = None
        self._info: ServerInfo | None = None

    def __enter__(self) -> Self:
        """Start or reach the server.

        Raises:
            MCPServerError: when it does not answer in time, or not as an MCP server.
            SettingsError: when the ``mcp`` package is missing.
        """
        _require_mcp()
        from anyio.from_thread import start_blocking_portal

        self._portal_manager = start_blocking_portal("asyncio")
        self._portal = self._portal_manager.__enter__()
        ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._task = self._portal.start_task_soon(self._serve, ready)
        try:
            done, _ = concurrent.futures.wait(
                [ready, self._task],
                timeout=self.spec.start_timeout,
                return_when=concurrent.futures.FIRST_COMPLETED,
            )
            if not done:
                raise MCPServerError(
                    self._describe(f"did not answer within {self.spec.start_timeout:g} s")
                )
            if ready not in done:
                self._task.result()
                raise MCPServerError(self._describe("ended before it answered"))
        except BaseException as error:
            self.close()
            if isinstance(error, Exception) and not isinstance(error, ToolscoreError):
                raise MCPServerError(
                    self._describe(f"could not be used: {_reason(error)}")
                ) from None
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection and end the server."""
        self.close()

    def close(self) -> None:
        """Close the connection and end a stdio server with all its children; safe to repeat."""
        manager, self._portal_manager = self._portal_manager, None
        if manager is None:
            return
        try:
            if self._stop is not None:
                self._portal.call(self._stop.set)
            elif self._task is not None:
                self._task.cancel()
            if self._task is not None:
                concurrent.futures.wait([self._task], timeout=_CLOSE_SECONDS)
                self._task.cancel()
        finally:
            if self._pipe is not None:
                self._pipe.end()
            self._portal.start_task_soon(_cancel_all)
            manager.__exit__(None, None, None)

    @property
    def info(self) -> ServerInfo:
        """Who answered; only once the client is open."""
        if self._info is None:
            raise MCPServerError("the client is not open")
        return self._info

    @property
    def is_alive(self) -> bool:
        """Whether the connection is still there, as far as is known without asking."""
        return self._client is not None and (self._pipe is None or not self._pipe.is_closed)

    def list_tools(self) -> list[Tool]:
        """Every tool of the server, all pages.

        Raises:
            MCPServerError: when the server fails or does not answer in time.
        """
        found: list[Tool] = self._request(self._list_tools, "tools/list")
        return found

    def call_tool(self, name: str, args: dict[str, Any] | None = None) -> ToolResult:
        """Call a tool. An error the tool or the server answers with is a result, not an exception.

        Raises:
            MCPServerError: when the server is gone or does not answer in time.
        """
        result: ToolResult = self._request(lambda: self._call_tool(name, args or {}), name)
        return result

    def _request(self, function: Any, what: str) -> Any:
        if self._portal_manager is None or self._client is None:
            raise MCPServerError("the client is not open")
        future = self._portal.start_task_soon(function)
        try:
            return future.result(timeout=self.spec.timeout + _EXTRA_SECONDS)
        except (TimeoutError, concurrent.futures.TimeoutError):
            future.cancel()
            raise MCPServerError(
                self._describe(f"did not answer {what} within {self.spec.timeout:g} s")
            ) from None
        except concurrent.futures.CancelledError:
            raise MCPServerError(self._describe(f"went away during {what}")) from None
        except ToolscoreError:
            raise
        except Exception as error:
            raise MCPServerError(
                self._describe(f"failed during {what}: {_reason(error)}")
            ) from None

    def _describe(self, sentence: str) -> str:
        """A scrubbed sentence about the server, with the end of its error output."""
        shown = self.spec.describe()
        name = " ".join(shown["command"]) if "command" in shown else shown["url"]
        text = f"the MCP server {name!r} {sentence}"
        if self._pipe is not None and (tail := self._pipe.stderr_text()):
            text += f"; its last error output: {tail}"
        return self._scrubber.text(text)

    async def _serve(self, ready: concurrent.futures.Future[None]) -> None:
        """Hold the connection open, in one task, until the client is closed."""
        import anyio
        import mcp_types as types
        from mcp import Client

        protocol = self.spec.protocol
        client = Client(
            self._transport(),
            mode="legacy" if protocol in _HANDSHAKE else protocol,
            read_timeout_seconds=self.spec.timeout,
            client_info=types.Implementation(name="toolscore-pipeline", version=package_version()),
            cache=None,
        )
        stop = anyio.Event()
        async with client:
            server = client.server_info
            version = client.protocol_version
            if protocol in _HANDSHAKE and version != protocol:
                raise MCPServerError(
                    self._describe(f"speaks protocol {version}, expected {protocol}")
                )
            self._info = ServerInfo(
                server.name if server is not None else None,
                (server.version or None) if server is not None else None,
                version,
                "handshake" if version in _HANDSHAKE else "modern",
            )
            self._stop, self._client = stop, client
            ready.set_result(None)
            try:
                await stop.wait()
            finally:
                self._client = None

    def _transport(self) -> AbstractAsyncContextManager[TransportStreams]:
        raise NotImplementedError

    async def _list_tools(self) -> list[Tool]:
        import anyio

        client, tools, cursor = self._open_client(), list[Tool](), None
        with anyio.fail_after(self.spec.timeout):
            while True:
                page = await client.list_tools(cursor=cursor)
                tools += [
                    Tool(tool.name, tool.description or "", dict(tool.input_schema))
                    for tool in page.tools
                ]
                cursor = page.next_cursor
                if cursor is None:
                    return tools

    async def _call_tool(self, name: str, args: dict[str, Any]) -> ToolResult:
        import anyio
        import mcp_types as types
        from mcp import MCPError

        try:
            with anyio.fail_after(self.spec.timeout):
                answer = await self._open_client().call_tool(name, args)
        except MCPError as error:
            if error.code == types.REQUEST_TIMEOUT:
                raise TimeoutError from None
            # The code of a closed connection is also one that servers use for errors of their own.
            is_closed = error.code == types.CONNECTION_CLOSED and error.message == _CLOSED_MESSAGE
            if is_closed or not self.is_alive:
                raise MCPServerError(self._describe(f"went away during {name}")) from None
            message = self._scrubber.text(error.message)
            return ToolResult(None, is_error=True, error=message)
        except RuntimeError as error:
            # Structured content that breaks the tool's own schema; the call itself was made.
            return ToolResult(None, is_error=True, error=self._scrubber.text(_reason(error)))
        text = _text(answer.content)
        error_text = (text if isinstance(text, str) else json.dumps(text)) or "the tool failed"
        return ToolResult(
            text,
            answer.structured_content,
            answer.is_error,
            error_text if answer.is_error else None,
        )

    def _open_client(self) -> Client:
        if self._client is None:
            raise MCPServerError(self._describe("went away"))
        return self._client


class MCPStdioClient(MCPClient):
    """A client that starts a server as a child process and ends it, children included.

    Args:
        command: the words of the command.
        env: variables for the server, beside the few it inherits.
        cwd: the folder it starts in.
        protocol: ``auto``, ``legacy`` or a protocol version.
        timeout: seconds a request may take.
        start_timeout: seconds until it must have answered first.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        cwd: str | None = None,
        protocol: str = "auto",
        timeout: float = 30.0,
        start_timeout: float = 60.0,
    ) -> None:
        super().__init__(
            MCPServerSpec(
                command=tuple(command),
                env=dict(env or {}),
                cwd=cwd,
                protocol=protocol,
                timeout=timeout,
                start_timeout=start_timeout,
            )
        )

    def _transport(self) -> AbstractAsyncContextManager[TransportStreams]:
        return self._open_pipe()

    @asynccontextmanager
    async def _open_pipe(self) -> AsyncGenerator[TransportStreams]:
        import anyio

        environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
        # "python" then means the Python that runs this, also when its environment is not active.
        own_folder = os.path.dirname(sys.executable)
        environment["PATH"] = os.pathsep.join([own_folder, environment.get("PATH", os.defpath)])
        try:
            process = await anyio.open_process(
                list(self.spec.command),
                env=environment | dict(self.spec.env),
                cwd=self.spec.cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise MCPServerError(self._describe(f"cannot be started: {reason}")) from None
        self._pipe = pipe = _Pipe(process)
        async with pipe.streams() as streams:
            yield streams


class MCPHTTPClient(MCPClient):
    """A client for a server that is already running, over Streamable HTTP.

    Args:
        url: its endpoint; a user and password in it are sent as HTTP basic authentication.
        headers: headers for every request.
        protocol: ``auto``, ``legacy`` or a protocol version.
        timeout: seconds a request may take.
        start_timeout: seconds until it must have answered first.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        *,
        protocol: str = "auto",
        timeout: float = 30.0,
        start_timeout: float = 60.0,
    ) -> None:
        super().__init__(
            MCPServerSpec(
                url=url,
                headers=dict(headers or {}),
                protocol=protocol,
                timeout=timeout,
                start_timeout=start_timeout,
            )
        )

    @asynccontextmanager
    async def _open_http(self) -> AsyncGenerator[TransportStreams]:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        parts = urlsplit(self.spec.url)
        auth = None
        if parts.username is not None:
            auth = httpx2.BasicAuth(unquote(parts.username), unquote(parts.password or ""))
        url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        timeout = httpx2.Timeout(self.spec.timeout, read=self.spec.timeout)
        async with (
            httpx2.AsyncClient(
                headers=dict(self.spec.headers),
                auth=auth,
                timeout=timeout,
                event_hooks={"response": [_bound_body]},
            ) as http,
            streamable_http_client(
                url, http_client=http, max_sse_event_size=MAX_MESSAGE_BYTES
            ) as streams,
        ):
            yield streams

    def _transport(self) -> AbstractAsyncContextManager[TransportStreams]:
        return self._open_http()


def open_client(spec: MCPServerSpec) -> MCPClient:
    """The client that fits a server's description; open it with ``with``."""
    if spec.transport == "stdio":
        return MCPStdioClient(
            spec.command,
            spec.env,
            cwd=spec.cwd,
            protocol=spec.protocol,
            timeout=spec.timeout,
            start_timeout=spec.start_timeout,
        )
    return MCPHTTPClient(
        spec.url,
        spec.headers,
        protocol=spec.protocol,
        timeout=spec.timeout,
        start_timeout=spec.start_timeout,
    )


class _Pipe:
    """The pipes of a server process: messages in lines, bounded; error output drained."""

    def __init__(self, process: anyio.abc.Process) -> None:
        self._process = process
        self._watcher = processes.Watcher(process.pid)
        self._stderr = bytearray()
        self._pending: dict[bytes, Any] = {}
        self._has_ended = False
        self.is_closed = False

    def stderr_text(self) -> str:
        """The last lines of the server's error output, on one line."""
        text = bytes(self._stderr[-500:]).decode(errors="replace")
        return " | ".join(line.strip() for line in text.splitlines() if line.strip())

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[TransportStreams]:
        """The message streams; when the context ends, the server and its children are ended."""
        import anyio
        from mcp.shared.message import SessionMessage

        incoming_send, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, outgoing_receive = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, incoming_send)
                tasks.start_soon(self._write, outgoing_receive)
                tasks.start_soon(self._drain_stderr)
                try:
                    yield incoming, outgoing
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._shut_down()
                    tasks.cancel_scope.cancel()
        finally:
            for stream in (incoming_send, incoming, outgoing, outgoing_receive):
                stream.close()
            self.end()

    async def _read(self, send: Any) -> None:
        """Pass on each line the server writes as a message; a line too long as an error."""
        import anyio

        assert self._process.stdout is not None
        kept, dropped, head = bytearray(), 0, b""
        closed = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)
        with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async with send:
                while True:
                    try:
                        chunk = await self._process.stdout.receive(1 << 18)
                    except closed:
                        self.is_closed = True
                        return
                    *lines, rest = chunk.split(b"\n")
                    for line in lines:
                        if dropped:
                            kept += line
                            await send.send(self._too_long(head, bytes(kept[-4096:])))
                        else:
                            kept += line
                            await self._deliver(send, bytes(kept))
                        kept, dropped = bytearray(), 0
                    kept += rest
                    if len(kept) > MAX_MESSAGE_BYTES or (dropped and len(kept) > 1 << 20):
                        head = head if dropped else bytes(kept[:4096])
                        dropped += len(kept)
                        kept = kept[-4096:]

    async def _deliver(self, send: Any, line: bytes) -> None:
        import mcp_types as types
        from mcp.shared.message import SessionMessage

        if not line.strip():
            return
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            # Servers print stray lines (banners, debug output); the protocol goes on without them.
            return
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._pending.pop(json.dumps(message.id).encode(), None)
        await send.send(SessionMessage(message))

    def _too_long(self, head: bytes, tail: bytes) -> Any:
        """The error answer for the request that an oversized line answers."""
        import mcp_types as types
        from mcp.shared.message import SessionMessage

        found = [match.group(1) for part in (head, tail) for match in _ID.finditer(part)]
        asked = next((key for key in found if key in self._pending), None)
        if asked is None and self._pending:
            asked = next(reversed(self._pending))
        request_id = self._pending.pop(asked, 0) if asked is not None else 0
        error = types.ErrorData(
            code=types.INTERNAL_ERROR,
            message=f"the result is larger than {MAX_MESSAGE_BYTES} bytes and was not read",
        )
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))

    async def _write(self, receive: Any) -> None:
        import anyio
        import mcp_types as types

        assert self._process.stdin is not None
        gone = (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)
        with contextlib.suppress(*gone):
            async with receive:
                async for session_message in receive:
                    message = session_message.message
                    if isinstance(message, types.JSONRPCRequest):
                        self._pending[json.dumps(message.id).encode()] = message.id
                    text = message.model_dump_json(by_alias=True, exclude_unset=True)
                    await self._process.stdin.send(text.encode() + b"\n")

    async def _drain_stderr(self) -> None:
        import anyio

        assert self._process.stderr is not None
        closed = (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError)
        with contextlib.suppress(*closed):
            while True:
                self._stderr += await self._process.stderr.receive(1 << 16)
                del self._stderr[:-STDERR_TAIL_BYTES]

    async def _shut_down(self) -> None:
        """Close the input, wait, terminate, wait, kill: the whole group, in bounded time."""
        import anyio

        family = processes.descendants(self._process.pid)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            with anyio.move_on_after(processes.GRACE_SECONDS):
                await self._process.stdin.aclose()
        if not await self._has_left() and sys.platform != "win32":
            family |= processes.descendants(self._process.pid)
            processes.signal_group(self._process.pid, signal.SIGTERM)
            await self._has_left()
        self.end(family)
        await self._has_left()
        # A child that outlived the kill may hold the pipes open; closing them frees the readers.
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError, anyio.BrokenResourceError):
                    await stream.aclose()

    async def _has_left(self) -> bool:
        import anyio

        with anyio.move_on_after(processes.GRACE_SECONDS):
            while self._process.returncode is None:
                await anyio.sleep(0.01)
            return True
        return False

    def end(self, family: dict[int, str] | None = None) -> None:
        """Kill whatever is left of the process group; the last step, safe to repeat."""
        if self._has_ended:
            return
        self._has_ended = self.is_closed = True
        if sys.platform == "win32":
            with contextlib.suppress(OSError):
                self._process.kill()
        else:
            processes.end_group(self._process.pid, family or {})
        self._watcher.dismiss()


async def _bound_body(response: Any) -> None:
    """Refuse a JSON answer once it has grown too long; events are bounded by the package itself."""
    if "text/event-stream" in response.headers.get("content-type", ""):
        return
    response.stream = _BoundedStream(response.stream)


def _bounded_stream_class() -> type[Any]:
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        """A byte stream that fails beyond :data:`MAX_MESSAGE_BYTES`."""

        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncGenerator[bytes]:
            seen = 0
            async for chunk in self._inner:
                seen += len(chunk)
                if seen > MAX_MESSAGE_BYTES:
                    raise httpx2.ReadError(f"the answer is larger than {MAX_MESSAGE_BYTES} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._inner.aclose()

    return Bounded


def _BoundedStream(inner: Any) -> Any:
    return _bounded_stream_class()(inner)


async def _cancel_all() -> None:
    """Cancel what still runs on this client's loop, so that its thread can end."""
    import asyncio

    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            task.cancel()


def _text(content: Sequence[Any]) -> Any:
    """Content blocks as their text when they are all text, else as JSON values."""
    if all(getattr(block, "type", None) == "text" for block in content):
        return "\n".join(block.text for block in content)
    return [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in content]


def _reason(error: BaseException) -> str:
    """A short reason out of an exception, or out of the first one of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = str(error).strip().splitlines()[0] if str(error).strip() else ""
    return text or type(error).__name__


def _require_mcp() -> None:
    try:
        import mcp  # noqa: F401
    except ImportError:
        raise SettingsError(
            'the mcp package is missing: pip install "toolscore-pipeline[agent]"'
        ) from None
    # The package reports trouble with full tracebacks, which may hold what a server printed.
    logger = logging.getLogger("mcp")
    if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(logging.NullHandler())


def package_version() -> str:
    """The installed version of this package; ``0`` in a checkout that was never installed."""
    try:
        return metadata.version("toolscore-pipeline")
    except metadata.PackageNotFoundError:
        return "0"
