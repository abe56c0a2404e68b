"""``carrel replay``: a mock server that returns the responses of a recording."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.cli.options import Parser
from carrel.cli.recording.recording import Recording
from carrel.cli.server.http_options import warn_of_terminal
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.values import whole
from carrel.errors import INVALID_REQUEST, PARSE_ERROR, ConfigError

if TYPE_CHECKING:
    from aiohttp.web import Request, StreamResponse

__all__ = ["parser", "run"]

SUMMARY = "Serve a recording: a recorded request gets its recorded answers in order, any other request an error."
EXAMPLES = """\
examples:
  carrel replay session.jsonl                   on stdio, for an application that starts it
  carrel replay session.jsonl --http 8000       over HTTP
  carrel ls -- carrel replay session.jsonl
"""


def parser() -> Parser:
    """Return the argument parser of ``carrel replay``."""
    reader = Parser("replay", SUMMARY, epilog=EXAMPLES)
    reader.add_argument("file", metavar="FILE", help="a recording of carrel record")
    reader.add_argument("--http", metavar="PORT", type=whole, help="listen for HTTP on this machine (0: any free port)")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel replay`` until the client disconnects or Ctrl-C, and return the exit code.

    Raises:
        ConfigError: the arguments are invalid, or the file is not a recording.
    """
    options = parser().parse_args(arguments)
    recording = Recording(options.file)
    if options.http is not None:
        serve_http(recording, options.file, options.http)
        return 0
    warn_of_terminal()
    with os.fdopen(os.dup(0), "rb") as source:
        for line in source:
            for message in replies(recording, line):
                sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
            sys.stdout.buffer.flush()
    return 0


def replies(recording: Recording, data: bytes) -> list[dict[str, Any]]:
    """Return the replies to a client message or batch. The result is empty for notifications and responses."""
    if not data.strip():
        return []
    try:
        message = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return [{"jsonrpc": "2.0", "id": None, "error": {"code": PARSE_ERROR, "message": "Parse error"}}]
    found = []
    for part in message if isinstance(message, list) else [message]:
        if not isinstance(part, dict):
            error = {"code": INVALID_REQUEST, "message": "A message is an object"}
            found.append({"jsonrpc": "2.0", "id": None, "error": error})
        elif isinstance(part.get("method"), str) and isinstance(part.get("id"), str | int):
            found += recording.answer(part)
    return found


def serve_http(recording: Recording, file: str, port: int) -> None:
    """Serve over HTTP on 127.0.0.1 until Ctrl-C.

    Raises:
        ConfigError: aiohttp is not installed, or the port is in use.
    """
    try:
        from aiohttp import web
    except ImportError:
        raise ConfigError("Replaying over HTTP needs aiohttp: pip install 'carrel[client]'") from None
    from carrel.cli.recording.http import listen

    async def handle(request: Request) -> StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        messages = replies(recording, await request.read())
        if not messages:
            return web.Response(status=202)
        if len(messages) == 1 and "method" not in messages[0]:
            return web.Response(body=msgspec.json.encode(messages[0]), content_type="application/json")
        body = b"".join(b"data: " + msgspec.json.encode(message) + b"\n\n" for message in messages)
        return web.Response(body=body, content_type="text/event-stream")

    async def main() -> None:
        async with listen(handle, port) as address:
            print_stderr(f"carrel: {recording.count} requests of {file} are served at {address}/mcp")
            await asyncio.Event().wait()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
