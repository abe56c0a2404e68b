"""Log messages of programs for ``fastmcp``: ``LoggingMiddleware``, and where messages go."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from carrel.compat.fastmcp import Client, FastMCP
from carrel.compat.fastmcp.client.transports import FastMCPStdioTransport
from carrel.compat.fastmcp.server.middleware.logging import LoggingMiddleware, StructuredLoggingMiddleware

PROGRAM = """
import logging
import sys
from fastmcp import FastMCP
from fastmcp.server.middleware.logging import LoggingMiddleware

mcp = FastMCP("logs", middleware=[LoggingMiddleware()])

@mcp.tool
def arguments() -> list[str]:
    return sys.argv[1:]

if __name__ == "__main__":
    mcp.run()
"""


def broken(payload: Any) -> str:
    raise RuntimeError("no text")


async def messages(
    caplog: pytest.LogCaptureFixture, middleware: LoggingMiddleware | StructuredLoggingMiddleware
) -> Any:
    """Return the records of one call of a tool."""
    mcp = FastMCP("logs", middleware=[middleware])
    mcp.tool(lambda text: text, name="echo")
    with caplog.at_level(logging.INFO):
        async with Client(mcp) as client:
            await client.call_tool("echo", {"text": "a" * 100})
    return [
        each for each in caplog.records if each.name.startswith("fastmcp.middleware") and "tools/call" in each.message
    ]


async def test_the_length_and_the_tokens_of_payloads_are_logged_as_json(caplog: pytest.LogCaptureFixture) -> None:
    middleware = StructuredLoggingMiddleware(include_payload_length=True, estimate_payload_tokens=True)
    start, success = [json.loads(each.message) for each in await messages(caplog, middleware)]
    assert start["payload_length"] > 100
    assert start["payload_tokens"] == start["payload_length"] // 4
    assert "payload" not in start
    assert (success["event"], success["duration_ms"] >= 0) == ("request_success", True)


async def test_long_payloads_are_cut_and_a_serializer_that_fails_is_replaced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cut = LoggingMiddleware(include_payloads=True, max_payload_length=10, payload_serializer=broken)
    warning, start, _ = await messages(caplog, cut)
    assert "Failed to serialize payload due to no text" in warning.message
    assert "... payload_type=CallToolRequestParams" in start.message
    assert "a" * 20 not in start.message


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="no argument 'includes'"):
        LoggingMiddleware(includes=True)


async def test_messages_go_to_standard_error_by_default_and_arguments_reach_the_file(tmp_path: Path) -> None:
    program, log = tmp_path / "server.py", tmp_path / "log.txt"
    program.write_text(PROGRAM)
    async with Client(FastMCPStdioTransport(program, args=["--one", "two"], log_file=log)) as client:
        assert (await client.call_tool("arguments")).data == ["--one", "two"]
    assert "INFO: event=request_success method=tools/call source=client duration_ms=" in log.read_text()


def test_handlers_of_the_program_get_each_message_once() -> None:
    code = (
        "import logging\nfrom carrel.compat.fastmcp.utilities.logging import get_logger\n"
        "import carrel.compat.fastmcp\nlogging.basicConfig(format='own %(message)s')\nget_logger('x').info('hello')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == "own hello\n"
