"""Servers as child processes: real ones, ours and some that misbehave.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import ast
import asyncio
import functools
import gc
import inspect
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop

from carrel.errors import ConfigError, MCPError, TransportError
from carrel.protocol.client import OutgoingMessage
from carrel.transports.client import stdio
from carrel.transports.client.stdio import StdioTransport, environment
from carrel.transports.lines import PIECE, Lines
from support.fixtures import quick_collections  # noqa: F401
from support.stdio_process import SERVERS, call, encode, initialize, note, text_of

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
MISBEHAVING = SERVERS / "misbehaving.py"
#: Seconds that a test may take.
LONGEST = 60.0
#: Seconds that a server gets to end by itself, where a test must not wait for so long.
PATIENT = 1000.0


def descriptors() -> list[str]:
    """Return what is open in this process."""
    found = []
    for fd in sorted(os.listdir("/proc/self/fd"), key=int):
        with suppress(OSError):  # the directory that is being listed
            found.append(f"{fd}: {os.readlink(f'/proc/self/fd/{fd}')}")
    return found


def on_both_loops(test: Any) -> Any:
    """Run a test on either kind of event loop, and see that it leaves no task, no descriptor and no warning."""

    @pytest.mark.parametrize("loop", LOOPS)
    def run(loop: str, **fixtures: Any) -> None:
        async def main() -> None:
            async with asyncio.timeout(LONGEST):
                await (
                    await asyncio.create_subprocess_exec("true", stdin=-1, stdout=-1)
                ).communicate()  # what is opened once
                before = descriptors()
                await test(**fixtures)
                assert asyncio.all_tasks() == {asyncio.current_task()}
                assert set(descriptors()) <= set(before), "one that an earlier test left may close meanwhile"

        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.get_loop().set_exception_handler(lambda _, context: complaints.append(context))
            complaints: list[Any] = []
            runner.run(main())
        gc.collect()
        assert complaints == []

    functools.update_wrapper(run, test, assigned=("__name__", "__doc__", "__module__"), updated=())
    run.pytestmark = [*run.pytestmark, *getattr(test, "pytestmark", [])]
    parameters = inspect.signature(test).parameters.values()
    del run.__wrapped__
    run.__signature__ = inspect.Signature(
        [inspect.Parameter("loop", inspect.Parameter.POSITIONAL_OR_KEYWORD), *parameters]
    )
    return run


class Listener:
    """Keeps what a transport hands over."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.failures: asyncio.Queue[tuple[Any, MCPError]] = asyncio.Queue()
        self.errors: list[MCPError] = []
        self.end = asyncio.Event()

    def receive(self, data: bytes, about: object = None) -> None:
        self.lines.put_nowait(data)

    def fail(self, id: Any, error: MCPError) -> None:
        self.failures.put_nowait((id, error))

    def broken(self) -> None: ...

    def interrupted(self) -> None:
        raise AssertionError("nothing can be missed here")

    def closed(self, error: MCPError) -> None:
        self.errors.append(error)
        self.end.set()

    async def read(self) -> bytes:
        return await self.lines.get()

    async def read_error(self) -> str:
        await self.end.wait()
        assert len(self.errors) == 1
        assert isinstance(self.errors[0], TransportError)
        return str(self.errors[0])


class Conversation(StdioTransport):
    """A transport with its listener."""

    def __init__(self, *command: str, **options: Any) -> None:
        super().__init__(command, **options)
        self.listener = Listener()
        self.read = self.listener.read
        self.read_error = self.listener.read_error

    def say(self, message: Any, id: Any = None) -> Any:
        return self.send(OutgoingMessage(message if isinstance(message, bytes) else encode(message)[:-1], id=id))

    async def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self.say(message, message["id"])
        return json.loads(await self.read())


def misbehaving(how: str, *arguments: str, **options: Any) -> Conversation:
    return Conversation(sys.executable, "-IS", str(MISBEHAVING), how, *arguments, **options)


@asynccontextmanager
async def talking(how: str, *arguments: str, **options: Any) -> AsyncIterator[Conversation]:
    child = misbehaving(how, *arguments, **options)
    await child.open(child.listener)
    try:
        yield child
    finally:
        await child.close()


async def see_the_end_of(pid: int) -> None:
    """Wait until a process has ended, whoever's child it is."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(fd, ended.set)
    await ended.wait()
    asyncio.get_running_loop().remove_reader(fd)
    os.close(fd)


# The conversation


@on_both_loops
async def test_our_own_server_is_talked_to() -> None:
    child = Conversation(sys.executable, str(SERVERS / "plain.py"))
    await child.open(child.listener)
    try:
        reply = await child.ask(initialize())
        assert reply["result"]["serverInfo"]["name"] == "plain"
        child.say(note("notifications/initialized"))
        assert text_of(await child.ask(call(1, "echo", text="糖尿病\nto be sure"))) == "糖尿病\nto be sure"
    finally:
        await child.close()
    assert child.errors == ""
    assert child.listener.errors == []


@on_both_loops
async def test_many_messages_arrive_in_order() -> None:
    async with talking("echo") as child:
        for number in range(5000):
            full = child.say({"n": number})
            if full is not None:
                await full
        assert [json.loads(await child.read())["n"] for _ in range(5000)] == list(range(5000))


@on_both_loops
async def test_the_messages_of_one_turn_of_the_event_loop_are_one_write() -> None:
    messages = [b'{"n": %d}' % number for number in range(64)]
    async with talking("gulp") as child:
        for message in messages:
            assert child.say(message) is None
        assert int(await child.read()) == len(b"".join(messages)) + 64


@on_both_loops
async def test_a_message_is_one_line_whatever_is_in_it() -> None:
    async with talking("echo") as child:
        child.say(b'{\r\n  "text": "a\\nb"\n}')
        assert await child.read() == b'{    "text": "a\\nb" }'


@on_both_loops
async def test_invalid_lines_are_ignored_and_crlf_ends_lines() -> None:
    async with talking("junk") as child:
        assert await child.read() == b"Starting up..."
        assert await child.read() == b"\xff\xfe\x00"
        assert json.loads(await child.read()) == {}
        child.say(b"[]")
        assert await child.read() == b"[]"


@on_both_loops
async def test_a_server_may_write_byte_by_byte() -> None:
    async with talking("crumbs") as child:
        assert [await child.read() for _ in range(40)] == [b'{"a": 1}', b'{"b": 2}'] * 20


@on_both_loops
async def test_a_line_of_ten_megabytes_arrives_and_is_sent() -> None:
    async with talking("large", "10", "1") as child:
        assert await child.read() == b"x" * 10_000_000
        child.say(b"y" * 10_000_000)
        assert await child.read() == b"y" * 10_000_000


def test_a_long_line_is_kept_in_pieces_of_a_bounded_size_however_it_is_cut() -> None:
    parts = Lines(1 << 30)
    for _ in range(8000):
        assert parts.feed(b"x" * 1000) == []
    assert max(map(len, parts._pieces)) <= PIECE  # a part is merged with at most that many bytes: linear time
    assert parts.feed(b"\n") == [b"x" * 8_000_000]


@pytest.mark.parametrize("ends", ["0", "1"])
@on_both_loops
async def test_a_line_over_the_limit_ends_the_connection_although_it_may_never_end(ends: str) -> None:
    async with talking("large", "3", ends, max_message=2_000_000) as child:
        assert "has sent a message of more than 2000000 bytes (max_message)" in await child.read_error()
        await see_the_end_of(child.pid)
        assert child.listener.lines.empty()


@pytest.mark.parametrize(("size", "limit"), [("2000", 1000), ("50000", 40_000), ("1000000", 100_000)])
@on_both_loops
async def test_a_response_over_the_limit_fails_its_request_alone(size: str, limit: int) -> None:
    async with talking("oversize", size, max_message=limit) as child:
        for wanted in (1, 2):
            id, error = await child.listener.failures.get()
            assert id == wanted
            assert "bytes (max_message)" in str(error)
        assert await child.ask({"id": 3}) == {"id": 3}
    assert not child.listener.errors


@on_both_loops
async def test_a_response_over_the_limit_without_an_end_ends_the_connection() -> None:
    async with talking("oversize", "1000000", max_message=10_000) as child:
        assert "has sent a message of more than 10000 bytes (max_message)" in await child.read_error()


@on_both_loops
async def test_a_sender_is_asked_to_wait_while_the_server_does_not_read(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "begin")
    message = b"x" * 100_000
    async with talking("idle", str(tmp_path / "begin")) as child:
        sent = 0
        while True:
            sent += 1
            full = child.say(message)
            if full is not None:
                break
            await asyncio.sleep(0)
        assert 1_000_000 < sent * len(message) < 2_500_000  # the pipe may hold 1 MiB, and the buffer as much
        waiting = asyncio.ensure_future(full)
        assert child.say(message) is full
        await asyncio.sleep(0)
        assert not waiting.done()
        (tmp_path / "begin").write_text("now")
        await waiting
        for _ in range(sent + 1):
            assert await child.read() == message


@on_both_loops
async def test_much_in_one_turn_of_the_event_loop_is_too_much_as_well() -> None:
    async with talking("echo") as child:
        answers = [child.say(b"x" * 100_000) for _ in range(20)]
        assert answers[:10] == [None] * 10
        assert answers[-1] is not None
        await answers[-1]


@pytest.mark.parametrize("how", ["close", "kill"])
@on_both_loops
async def test_senders_that_wait_for_room_are_released_at_the_end(how: str, tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "never")
    async with talking("idle", str(tmp_path / "never"), grace=0.1) as child:
        while (full := child.say(b"x" * 100_000)) is None:
            await asyncio.sleep(0)
        waiting = asyncio.ensure_future(full)
        if how == "kill":
            os.kill(child.pid, signal.SIGKILL)
            assert "was ended by SIGKILL" in await child.read_error()
        else:
            await child.close()
        await waiting


# Standard error


@on_both_loops
async def test_a_flood_on_standard_error_stops_nothing_and_its_end_is_kept() -> None:
    seen: list[str] = []
    async with talking("flood", stderr=seen.append) as child:
        assert await child.read() == b"flooded"
        child.say(b"{}")
        assert await child.read() == b"{}"
    assert len(child.errors) == 64 * 1024
    assert child.errors.endswith("line 49998\nline 49999\n")
    assert seen == [f"line {number}" for number in range(50_000)]


@on_both_loops
async def test_standard_error_is_told_line_by_line() -> None:
    seen: list[str] = []
    async with talking("complain", stderr=seen.append) as child:
        await child.read_error()
    assert seen == ["one", "\ufffdtwo", "(a line of more than 65536 bytes)", "no end"]


def test_a_callback_that_fails_is_reported_and_the_conversation_goes_on() -> None:
    reported: list[Any] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        async with talking("complain", stderr=lambda line: 1 / 0) as child:
            await child.read_error()

    for factory in LOOPS.values():
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())
    assert [type(context["exception"]) for context in reported] == [ZeroDivisionError] * 8


# Programs that cannot be started


async def refused(child: Conversation) -> None:
    try:
        await child.open(child.listener)
    finally:
        await child.close()


@on_both_loops
async def test_a_program_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match=r"The program 'no-such-program' does not exist .PATH was searched: .*bin"):
        await refused(Conversation("no-such-program", "--flag"))


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        (None, 0, "No such file or directory"),
        (b"#!/no/such/interpreter\n", 0o755, "the interpreter in its first line does not exist"),
        (b"echo stray", 0o755, "does not begin with #!"),
        (b"#!/bin/sh\n", 0o644, "Permission denied"),
    ],
    ids=["missing", "interpreter", "format", "mode"],
)
@on_both_loops
async def test_a_path_that_is_not_a_program_is_a_config_error(
    content: bytes | None, mode: int, problem: str, tmp_path: pathlib.Path
) -> None:
    program = tmp_path / "program"
    if content is not None:
        program.write_bytes(content)
        program.chmod(mode)
    with pytest.raises(ConfigError, match=problem) as caught:
        await refused(Conversation(str(program)))
    assert repr(str(program)) in str(caught.value)


@on_both_loops
async def test_a_directory_that_does_not_exist_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigError, match=r"The directory '.*nowhere' to start .* in does not exist"):
        await refused(misbehaving("echo", cwd=tmp_path / "nowhere"))


@pytest.mark.parametrize("options", [{"command": ["a", "b\0"]}, {"command": ["a"], "env": {"b": "\0"}}], ids=str)
def test_a_nul_is_a_config_error(options: Any) -> None:
    with pytest.raises(ConfigError, match="NUL"):
        StdioTransport(**options)


@pytest.mark.parametrize("command", ["python server.py", b"python", []])
def test_a_command_is_a_list(command: Any) -> None:
    with pytest.raises(ConfigError, match="is a list"):
        StdioTransport(command)


# What a child gets


def test_few_variables_are_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "/bin")
    monkeypatch.setenv("HOME", "() { :; }; echo stray")
    monkeypatch.setenv("SECRET", "x")
    assert environment() == {"PATH": "/bin"}
    assert environment({"PATH": "/sbin", "KEY": "y"}) == {"PATH": "/sbin", "KEY": "y"}


@on_both_loops
async def test_a_child_gets_its_arguments_as_they_are_its_variables_its_directory_and_its_session(
    tmp_path: pathlib.Path,
) -> None:
    arguments = ["$HOME", "*", "; exit 1", 'a "b"', ""]
    async with talking("surroundings", *arguments, env={"KEY": "värde"}, cwd=tmp_path) as child:
        variables = ast.literal_eval((await child.read()).decode())
        assert {name: value for name, value in variables.items() if name not in ("LC_CTYPE", "PWD")} == {
            **environment(),
            "KEY": "värde",
        }
        assert ast.literal_eval((await child.read()).decode()) == arguments
        assert (await child.read()).decode() == str(tmp_path)
        assert await child.read() == b"True"


# A server that ends


@pytest.mark.parametrize(
    ("how", "argument", "expected"),
    [("status", "0", "has ended with exit status 0"), ("status", "7", "has ended with exit status 7")]
    + [("killed", str(int(number)), f"was ended by {number.name}") for number in (signal.SIGSEGV, signal.SIGKILL)],
)
@on_both_loops
async def test_the_exit_status_of_a_server_is_in_the_error(how: str, argument: str, expected: str) -> None:
    async with talking(how, argument) as child:
        assert (
            await child.read_error()
            == f"The server '{pathlib.Path(sys.executable).name} -IS misbehaving.py' {expected}"
        )
    assert len(child.listener.errors) == 1


class UntilChildHasEnded:
    """Holds up whoever starts a child process with it until that has ended."""

    def __enter__(self) -> None:
        self._before = self._children()

    def __exit__(self, *_: object) -> None:
        for started in self._children() - self._before:
            with suppress(ChildProcessError):  # asyncio waits for it in a thread, and may have been faster
                os.waitid(os.P_PID, started, os.WEXITED | os.WNOWAIT)

    @staticmethod
    def _children() -> set[int]:
        return {
            int(id) for path in pathlib.Path("/proc/self/task").glob("*/children") for id in path.read_text().split()
        }


@on_both_loops
async def test_a_server_that_has_ended_before_the_event_loop_looks_at_it_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stdio, "FORKING", UntilChildHasEnded())
    async with talking("status", "7") as child:
        assert "has ended with exit status 7" in await child.read_error()
        assert child.say(b"{}", id=5) is None
        assert (await child.listener.failures.get())[0] == 5


@on_both_loops
async def test_a_server_that_ends_at_once_shows_its_standard_error() -> None:
    async with talking("crash") as child:
        error = await child.read_error()
    assert "has ended with exit status 1. Its standard error ends with:\nIt began well: 糖尿病\nTraceback" in error
    assert error.endswith("RuntimeError: no such shelf")


@on_both_loops
async def test_messages_of_a_server_arrive_before_the_error_of_its_end() -> None:
    async with talking("unfinished") as child:
        assert "exit status 1" in await child.read_error()
        assert await child.read() == b'{"whole": true}'
        assert await child.read() == b'{"half": '


@pytest.mark.parametrize(("how", "stream"), [("deaf", "input"), ("mute", "output")])
async def test_a_server_that_closes_one_of_its_streams_is_lost_and_ended(how: str, stream: str) -> None:
    async with talking(how, grace=0.2) as child:
        assert await child.read() == b"ready"
        assert f"has closed its standard {stream}" in await child.read_error()
        await see_the_end_of(child.pid)


@on_both_loops
async def test_a_request_to_a_server_that_has_ended_is_not_sent() -> None:
    async with talking("status", "3") as child:
        await child.read_error()
        assert child.say(b"{}") is None
        assert child.say(b"{}", id=5) is None
        assert child.listener.failures.empty()  # not before ``send`` has returned
        id, error = await child.listener.failures.get()
        assert id == 5
        assert isinstance(error, TransportError)
        assert not error.delivered
        assert "exit status 3" in str(error)
        assert child.listener.failures.empty()


@pytest.mark.parametrize("kind", ["willing", "stubborn"])
@on_both_loops
async def test_child_processes_of_a_server_are_ended_without_a_close(kind: str) -> None:
    async with talking("orphan", kind, grace=0.2) as child:
        orphan = int(await child.read())
        assert "has ended with exit status 0" in await child.read_error()
        await see_the_end_of(orphan)


# The end of a connection


@on_both_loops
async def test_a_server_takes_its_leave_when_its_input_is_closed(tmp_path: pathlib.Path) -> None:
    async with talking("tidy", str(tmp_path / "note"), grace=PATIENT) as child:
        await child.read()
    assert (tmp_path / "note").read_text() == "left in peace"
    assert child.listener.errors == []


@on_both_loops
async def test_the_last_message_is_written_before_the_end(tmp_path: pathlib.Path) -> None:
    async with talking("tidy", str(tmp_path / "note")) as child:
        await child.read()
        child.say(b"{}")
    assert (tmp_path / "note").exists()


@pytest.mark.parametrize("how", ["sleepy", "stubborn"])
@on_both_loops
async def test_a_server_that_stays_is_told_to_end_and_then_ended(how: str) -> None:
    async with talking(how, grace=0.2) as child:
        await child.read()
        began = time.monotonic()
        await child.close()
        least = 0.2 if how == "sleepy" else 0.4
        assert time.monotonic() - began > least - 0.01  # clocks are rounded
    await see_the_end_of(child.pid)


@pytest.mark.parametrize("kind", ["willing", "stubborn"])
@on_both_loops
async def test_grandchildren_that_hold_the_pipes_are_ended_too(kind: str) -> None:
    async with talking("family", kind, grace=0.5) as child:
        grandchild = int(await child.read())
        await child.close()
        await see_the_end_of(grandchild)


@on_both_loops
async def test_a_connection_can_be_closed_twice_and_by_several_at_once() -> None:
    async with talking("echo") as child:
        await asyncio.gather(child.close(), child.close())
        await child.close()


@on_both_loops
async def test_nothing_is_sent_or_received_after_the_end() -> None:
    async with talking("echo") as child:
        child.say(b"{}")
        await child.close()
        assert child.say(b"{}", id=1) is None
        assert (await child.listener.failures.get())[0] == 1
        assert child.listener.lines.empty()
        assert child.listener.errors == []


@on_both_loops
async def test_a_connection_that_was_closed_cannot_be_opened() -> None:
    child = misbehaving("echo")
    await child.close()
    with pytest.raises(TransportError, match="before it was opened"):
        await child.open(child.listener)
    assert child.pid is None


@on_both_loops
async def test_a_connection_is_opened_once() -> None:
    async with talking("echo") as child:
        with pytest.raises(ConfigError, match="once"):
            await child.open(child.listener)


@pytest.mark.parametrize("turns", range(6))
@on_both_loops
async def test_a_connection_may_be_closed_while_it_is_opened(turns: int) -> None:
    child = misbehaving("sleepy", grace=0.02)
    opening = asyncio.create_task(child.open(child.listener))
    for _ in range(turns):
        await asyncio.sleep(0)
    await child.close()
    with suppress(TransportError):
        await opening
    if child.pid is not None:
        await see_the_end_of(child.pid)


@pytest.mark.parametrize("turns", range(1, 6))
@on_both_loops
async def test_an_opening_that_is_cancelled_leaves_no_process(turns: int) -> None:
    child = misbehaving("stubborn", grace=PATIENT)
    opening = asyncio.create_task(child.open(child.listener))
    for _ in range(turns):
        await asyncio.sleep(0)
    if opening.cancel():
        with pytest.raises(asyncio.CancelledError):
            await opening
    await child.close()


@on_both_loops
async def test_a_closing_that_is_cancelled_kills_at_once() -> None:
    async with talking("family", "stubborn", grace=PATIENT) as child:
        grandchild = int(await child.read())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(child.close(), 0.1)
        await see_the_end_of(grandchild)
        await see_the_end_of(child.pid)


LEAVES = """
import asyncio, sys
sys.path.insert(0, {tests!r})
from transports.client.test_stdio import misbehaving

async def main():
    child = misbehaving("family", "stubborn")
    await child.open(child.listener)
    print(child.pid, int(await child.read()), flush=True)
    {leave}

{run}
"""


@pytest.mark.parametrize(
    ("leave", "run"),
    [
        ("return", "asyncio.run(main())"),
        ("sys.exit(0)", "asyncio.run(main())"),
        ("raise RuntimeError", "asyncio.run(main())"),
        ("return child", "loop = asyncio.new_event_loop(); kept = loop.run_until_complete(main())"),
        ("asyncio.create_task(child.close()); await asyncio.sleep(0.01)", "asyncio.run(main())"),
        ("await child.listener.end.wait()", "asyncio.run(main())"),  # until it is told to end
    ],
    ids=["return", "exit", "failure", "loop", "closing", "interrupt"],
)
def test_no_process_is_left_when_the_client_was_not_closed(leave: str, run: str) -> None:
    program = LEAVES.format(tests=str(SERVERS.parent.parent), leave=leave, run=run)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with parent, asyncio.Runner() as runner:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        if "end.wait" in leave:
            parent.send_signal(signal.SIGINT)
        for pid in pids:
            runner.run(asyncio.wait_for(see_the_end_of(pid), LONGEST))
        parent.communicate(timeout=LONGEST)


def test_programs_are_started_by_several_event_loops_of_uvloop_at_the_same_moment() -> None:
    together = threading.Barrier(4)

    async def start_and_stop() -> None:
        for _ in range(3):
            child = Conversation("cat")
            await asyncio.to_thread(together.wait, LONGEST)
            await child.open(child.listener)
            await child.close()

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(start_and_stop())

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run) for _ in range(4)]:
            done.result(LONGEST)
