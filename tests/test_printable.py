"""Text from a peer in logs and in messages of exceptions: nothing in it forges a record or drives a terminal."""

from __future__ import annotations

import json
import logging
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import carrel
from carrel import Client, Context, Server
from carrel.cli.server.logs import configure
from carrel.client.handlers import Handlers
from carrel.errors import InvalidMessage, PeerError, ResourceNotFound, TransportError
from carrel.log import Log
from carrel.printable import printable, printable_lines, single_line
from support.http_server import over_http

HOSTILE = "evil\nERROR carrel: forged\r\x1b[2J\x9b1m\x07\u202egnp\u2066\u200b\ufeff\u2028\x85 end"
HARMFUL = ("Cc", "Cf", "Cs", "Zl", "Zp")


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def is_harmless(text: str) -> bool:
    return not any(unicodedata.category(letter) in HARMFUL for letter in text)


@given(st.text() | st.text(st.characters(categories=HARMFUL)), st.integers(10, 300))
def test_text_is_shown_on_one_line_without_controls_and_bounded(text: str, longest: int) -> None:
    shown = printable(text, longest)
    assert is_harmless(shown)
    assert len(shown) <= longest * 10 + 3
    if text.isprintable() and len(text) <= longest:
        assert shown == text


def test_the_beginning_and_the_end_of_long_text_are_shown() -> None:
    shown = printable("a" * 1_000_000 + "z", 30)
    assert shown == "a" * 20 + " … " + "a" * 9 + "z"
    assert printable("\ud800 \u202e\n\t\\n ü 日本 👍") == r"\ud800 \u202e\n\t\n ü 日本 👍"
    assert printable_lines("one\ntwo\x1b") == "one\ntwo\\x1b"
    assert len(printable_lines("\n" * 1_000_000)) < 1000


@pytest.mark.parametrize(
    "error",
    [
        PeerError(-32000, HOSTILE * 1000),
        ResourceNotFound(HOSTILE * 1000),
        InvalidMessage(HOSTILE * 1000),
        TransportError(f"The server has ended:\n{HOSTILE * 1000}"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_show_nothing_harmful_of_a_peer(error: Exception) -> None:
    assert all(is_harmless(line) for line in str(error).split("\n"))
    assert max(map(len, str(error).split("\n"))) <= 2000 * 6
    assert PeerError(1, HOSTILE).message == HOSTILE, "what came is there as it came"


def test_a_log_converts_no_argument_that_is_not_logged_and_names_the_line_that_logs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("converted")

    log = Log("carrel.tests")
    caplog.set_level("WARNING")
    log.debug("%s", Costly())
    log.warning("%s %d %.1f", HOSTILE, 5, 0.25)
    (record,) = caplog.records
    assert record.filename == "test_printable.py"
    assert is_harmless(record.getMessage())
    assert record.getMessage().endswith(" 5 0.2")


def make_server() -> Server:
    """Return a server that says hostile things, and logs what a client answers."""
    app = Server(f"server {HOSTILE}")

    @app.resource("memo://model")
    async def model(context: Context) -> str:
        return (await context.sample("?", 5)).text

    @app.tool()
    async def chat(context: Context) -> str:
        context._channel.send(json.dumps({"jsonrpc": "2.0", "method": f"notifications/{HOSTILE}"}).encode())
        context._channel.send(json.dumps({"jsonrpc": "2.0", "id": HOSTILE, "result": {}}).encode())
        await context.report_progress(1, 2, HOSTILE)
        return (await context.sample("?", 5)).text

    return app


async def talk(target: Server | str) -> None:
    """Be asked by a server, and answer with hostile things."""

    def fail(progress: float, total: float | None, message: str | None) -> None:
        raise PeerError(-32000, f"progress {message}")

    async def sample(params: Any) -> str:
        raise PeerError(-32000, f"model {HOSTILE}")

    async with Client(target, revision="2025-11-25", handlers=Handlers(sample=sample)) as client:
        with pytest.raises(PeerError):
            await client.read_resource("memo://model")
        assert (await client.call_tool("chat", progress=fail)).is_error


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_hostile_text_of_a_peer_is_logged_without_its_controls(
    transport: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(form, "debug")
    logging.getLogger("asyncio").setLevel("WARNING")
    if transport == "memory":
        await talk(make_server())
    else:
        with over_http(make_server()) as origin:
            await talk(f"{origin}/mcp")
    text = capsys.readouterr().err
    lines = text.split("\n")[:-1]
    assert [line for line in lines if not is_harmless(line)] == []
    if form == "json":
        messages = [json.loads(line) for line in lines]
        assert all(set(each) >= {"time", "level", "logger", "message"} for each in messages)
    else:
        assert [line for line in lines if not line.startswith(("    ", "DEBUG ", "INFO ", "WARNING ", "ERROR "))] == []
        assert not any(line.startswith("ERROR carrel: forged") for line in lines)
    assert "model evil" in text, "what the client answered"
    assert "notifications/evil" in text, "what the server sent"
    assert "progress evil" in text, "an exception that holds what the server sent"


def test_every_logger_escapes_what_it_shows():
    source = Path(carrel.__file__).parent
    modules = {
        str(path.relative_to(source)) for path in source.rglob("*.py") if "getLogger(" in path.read_text("utf-8")
    }
    # Loggers of programs themselves: the faces of other libraries hand them out, or take them.
    theirs = {f"compat/fastmcp/server/middleware/{name}.py" for name in ("error_handling", "logging", "timing")}
    theirs |= {"compat/mcp/server/fastmcp/utilities/logging.py", "compat/fastmcp/utilities/logging.py"}
    theirs |= {"compat/mcp2/shared/logging.py"}
    theirs |= {"compat/loggers.py"}  # arranges loggers, and hands out a Log
    theirs |= {"sources/web/readable.py", "sources/databases/statements.py"}  # silence those of their libraries
    assert modules - theirs <= {"log.py", "cli/logs.py", "server/serving.py"}


@given(st.text())
def test_a_single_line_has_no_controls(text):
    shown = single_line(f"{HOSTILE}{text}", 200)
    assert len(shown) <= 200
    assert not any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in shown)
    assert "\u202e" not in shown


def test_a_single_line_keeps_joiners_of_scripts_and_emoji():
    assert single_line("a\u200db\n c", 100) == "a\u200db c"
