"""A small notes server to try the agent harness on.

``python -m toolscore_pipeline.agent.sample_server`` speaks MCP over standard input and output, or,
with ``--http PORT``, Streamable HTTP on 127.0.0.1 (``/mcp``). Its notes live in memory and start
with one titled ``old``.
"""

from __future__ import annotations

import argparse
from typing import Any

NAME, VERSION = "notes-server", "1.0.0"


def build_server() -> Any:
    """The server: ``list_notes``, ``read_note``, ``save_note`` and ``delete_note``.

    Raises:
        ImportError: when the ``mcp`` package is missing.
    """
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    server = MCPServer(NAME, version=VERSION, log_level="ERROR")
    notes = {"old": "An old note."}

    def existing(title: str) -> str:
        if title not in notes:
            raise ToolError(f"there is no note titled {title!r}")
        return notes[title]

    @server.tool()
    def list_notes() -> list[str]:
        """List the titles of all notes."""
        return sorted(notes)

    @server.tool()
    def read_note(title: str) -> str:
        """Read one note."""
        return existing(title)

    @server.tool()
    def save_note(title: str, body: str) -> str:
        """Save a note; an existing note of that title is replaced."""
        notes[title] = body
        return f"saved {title!r}"

    @server.tool()
    def delete_note(title: str) -> str:
        """Delete a note for good."""
        existing(title)
        del notes[title]
        return f"deleted {title!r}"

    return server


def main() -> None:
    """Serve until the input ends or the process is stopped."""
    parser = argparse.ArgumentParser(description="A notes server that speaks MCP.")
    parser.add_argument("--http", type=int, metavar="PORT", help="serve Streamable HTTP instead")
    port = parser.parse_args().http
    server = build_server()
    if port is None:
        server.run()
    else:
        server.run("streamable-http", host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
