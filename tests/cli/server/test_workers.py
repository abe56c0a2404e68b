"""``--workers``: several processes on one port, crashes, replacement, signals, exit codes and sessions."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from carrel import Client
from carrel.cli import main
from support.carrel_process import COMMAND
from support.redis_servers import redis_server
from support.stdio_process import request
from support.worker_processes import PATIENCE, gone, running

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

PROGRAM = """
import asyncio
import os
import time

from carrel import Context, Server

VERSION = 1
app = Server("books")
app.resources.add("memo://1", "text")
go = asyncio.Event()

@app.tool
async def pid() -> int:
    return os.getpid()

@app.tool
async def version() -> int:
    return VERSION

@app.tool
async def change(uri: str) -> str:
    app.resources.changed(uri)
    return "changed"

@app.tool
async def steps(n: int, context: Context) -> str:
    for number in range(1, n + 1):
        await context.report_progress(number)
    await go.wait()
    return "done"

@app.tool
async def slow(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"

@app.tool
async def block(seconds: float) -> str:
    time.sleep(seconds)
    return "done"

@app.tool(task="optional")
async def bake(until: str) -> str:
    while not os.path.exists(until):
        await asyncio.sleep(0.02)
    return "baked"
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "books.py"
    path.write_text(PROGRAM)
    return path


async def post(workers, session, message, client):
    return await workers.site.post(message, session.headers, client)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_workers_answer_on_one_port_share_sessions_and_end_with_the_command(file, number):
    async with running("run", str(file), "--http", "0", "--workers", "2") as workers:
        one, other = await workers.pids()
        assert workers.process.pid not in (one, other)
        here, there = await workers.connect(one), await workers.connect(other)
        session = await workers.site.open()
        for client in (here, there):
            listed = await (await post(workers, session, request(5, "tools/list"), client)).json()
            assert "pid" in str(listed["result"])
        if sys.platform == "linux":
            names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in workers.children}
            assert {names.pop(one), names.pop(other)} == {"carrel-worker1", "carrel-worker2"}
            assert set(names.values()) == {"carrel-store"}
        assert await workers.end(number) == 0
        assert workers.errors.count("is ready at") == 1
        assert "Traceback" not in workers.errors
        await gone([one, other])


async def test_a_session_goes_on_at_another_worker_when_its_worker_is_killed_in_a_stream(file):
    async with running("run", str(file), "--http", "0", "--workers", "2") as workers:
        one, other = await workers.pids()
        session = await workers.site.open()
        here, there = await workers.connect(one), await workers.connect(other)
        subscribed = await post(workers, session, request(2, "resources/subscribe", {"uri": "memo://1"}), here)
        assert subscribed.status == 200
        params = {"name": "steps", "arguments": {"n": 2}, "_meta": {"progressToken": "p"}}
        call = await post(workers, session, request(3, "tools/call", params), here)
        first = await call.event()
        assert [(await call.message())["params"]["progress"] for _ in range(2)] == [1, 2]
        await workers.use("pid", await workers.connect(one))  # now, the log of the stream has both events
        os.kill(one, signal.SIGKILL)
        line = await workers.wait_for("another one is started")
        assert f"(process {one}) was ended by SIGKILL" in line

        resumed = await there.request("GET", {**session.headers, "Accept": "text/event-stream",
                                              "Last-Event-ID": first.id})  # fmt: skip
        assert [message["params"]["progress"] for message in await resumed.messages()] == [1, 2], "and the stream ends"
        third = await workers.connect(other)
        assert (await post(workers, session, request(4, "ping"), third)).status == 200
        (new,) = await workers.pids(1, without=(one, other))
        at_new = await workers.connect(new)
        standing = await at_new.request("GET", {**session.headers, "Accept": "text/event-stream"})
        assert (await standing.event()).data == ""
        await workers.use("change", third, uri="memo://1")
        assert (await standing.message())["params"] == {"uri": "memo://1"}, "its subscriptions too"
        assert await workers.end() == 0


async def test_sighup_replaces_the_workers_with_new_code_and_loses_no_connection(file):
    async with running("run", str(file), "--http", "0", "--workers", "2") as workers:
        before = await workers.pids()
        session = await workers.site.open()
        # Python takes cached bytecode for a file that was written in the same second, unless its size differs.
        file.write_text(PROGRAM.replace("VERSION = 1", "VERSION = 1 + 1"))
        over = asyncio.Event()
        seen = []

        async def hammer():
            while not over.is_set():
                seen.append(await workers.use("version"))

        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(hammer())
            slow = group.create_task(workers.use("slow", seconds=1.5))
            workers.process.send_signal(signal.SIGHUP)
            await workers.wait_for("all workers were replaced")
            assert await slow == "done", "a request in progress is finished"
            await gone(before)
            async with asyncio.timeout(PATIENCE):
                while "2" not in seen:
                    await asyncio.sleep(0.01)
            over.set()
        assert set(seen) == {"1", "2"}
        assert not before & await workers.pids()
        assert {await workers.use("version") for _ in range(8)} == {"2"}
        assert (await session.post(request(9, "ping"))).status == 200

        file.write_text("import nonesuch")
        workers.process.send_signal(signal.SIGHUP)
        await workers.wait_for("nonesuch")
        await workers.wait_for("the workers before it go on")
        assert {await workers.use("version") for _ in range(8)} == {"2"}
        assert await workers.end() == 0


async def test_a_task_is_finished_within_the_grace_of_its_worker_and_its_result_is_at_the_others(file, tmp_path):
    async with running("run", str(file), "--http", "0", "--workers", "2", "--grace", "1000") as workers:
        before = await workers.pids()
        async with Client(f"http://127.0.0.1:{workers.site.port}/mcp") as client:
            task = await client.tasks.start_tool("bake", {"until": str(tmp_path / "baked")})
            assert task.id is not None
            workers.process.send_signal(signal.SIGHUP)
            await workers.wait_for("all workers were replaced")
            (tmp_path / "baked").touch()
            async with asyncio.timeout(PATIENCE):
                assert (await task.result()).structured_content == {"result": "baked"}
                await gone(before)
        assert await workers.end() == 0


async def test_without_grace_requests_are_cancelled_at_once(file):
    async with running("run", str(file), "--http", "0", "--grace", "0") as server:
        post = asyncio.create_task(server.use("slow", seconds=1000))
        async with asyncio.timeout(PATIENCE):
            await server.use("version")
            assert await server.end() == 0
        post.cancel()
        await asyncio.gather(post, return_exceptions=True)


async def test_a_program_that_does_not_load_is_an_error_of_the_command_printed_once(file):
    file.write_text("import nonesuch")
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "run", str(file), "--http", "0", "--workers", "3", stderr=subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE):
        _, errors = await process.communicate()
    assert process.returncode == 2
    assert [line.count("needs nonesuch") for line in errors.decode().splitlines()] == [1], errors


async def test_the_exit_code_after_a_signal_while_the_program_loads_is_that_of_a_shell(file):
    file.write_text("import sys, time\nprint('loading', file=sys.stderr, flush=True)\ntime.sleep(1000)")
    command = (*COMMAND, "run", str(file), "--http", "0", "--workers", "2")
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
        async with asyncio.timeout(PATIENCE):
            assert await process.stderr.readline() == b"loading\n"
            process.send_signal(number)
            assert await process.wait() == code


async def test_workers_end_when_the_parent_is_killed(file):
    async with running("run", str(file), "--http", "0", "--workers", "2") as workers:
        pids = await workers.pids()
        workers.process.kill()
        await gone(pids)
        with pytest.raises(ConnectionRefusedError):
            await workers.site.connect()


async def test_if_the_process_with_the_sessions_is_killed_sessions_end_and_new_ones_begin(file):
    async with running("run", str(file), "--http", "0", "--workers", "2") as workers:
        before = await workers.pids()
        session = await workers.site.open()
        store = await store_of(workers, before)
        os.kill(store, signal.SIGKILL)
        await workers.wait_for("all sessions and tasks are lost")
        await workers.pids(without=before)
        assert (await session.post(request(9, "ping"))).status == 404
        begun = await workers.site.open()
        assert (await begun.post(request(9, "ping"))).status == 200
        assert await workers.end() == 0
        assert "Traceback" not in workers.errors
        assert "exit code" not in workers.errors


async def store_of(workers, pids):
    """Return the id of the process with the sessions, which is beside the workers."""
    text = await asyncio.to_thread(
        subprocess.check_output, ["ps", "-o", "pid=", "--ppid", str(workers.process.pid)], text=True
    )
    (store,) = set(map(int, text.split())) - pids
    return store


async def test_the_command_ends_although_the_process_with_the_sessions_is_stopped(file):
    async with running("run", str(file), "--http", "0", "--workers", "2") as workers:
        pids = await workers.pids()
        store = await store_of(workers, pids)
        os.kill(store, signal.SIGSTOP)
        workers.process.send_signal(signal.SIGTERM)
        for pid in pids:  # they wait for the store; the supervisor would kill them later
            os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            await workers.process.communicate()
        await gone([store])


async def test_the_process_with_the_sessions_is_replaced_if_it_is_stopped(file):
    (file.parent / "carrel.toml").write_text(
        "[app]\nfile = 'books.py'\n[http]\nport = 0\nworkers = 2\nworker_timeout = 5\n"
    )
    async with running("run", cwd=file.parent) as workers:
        before = await workers.pids()
        os.kill(await store_of(workers, before), signal.SIGSTOP)
        await workers.wait_for("the process that holds the sessions has not run for at least 5 seconds")
        await workers.pids(without=before)
        session = await workers.site.open()
        assert (await session.post(request(9, "ping"))).status == 200
        assert await workers.end() == 0


async def test_the_file_sets_the_number_of_workers_and_files_are_served_by_all(tmp_path):
    (tmp_path / "a.md").write_text("text")
    (tmp_path / "carrel.toml").write_text("[http]\nport = 0\nworkers = 2\n[[sources]]\npath = 'a.md'\n")
    async with running("serve", cwd=tmp_path) as workers:
        await workers.wait_for("curl -s")
        uri = (tmp_path / "a.md").as_uri()
        for _ in range(12):
            read = await (await workers.site.ask("resources/read", uri=uri)).json()
            assert read["result"]["contents"][0]["text"] == "text"
        assert await workers.end() == 0
        assert workers.errors.count("is ready") == 1


async def test_clients_of_all_workers_are_notified_once_of_a_file_and_find_its_text(tmp_path):
    shared, later = tmp_path / "shared" / "a.md", tmp_path / "later.md"
    shared.parent.mkdir()
    shared.write_text("text")
    async with running("serve", str(shared.parent), "--http", "0", "--workers", "2", "--search") as workers:
        await workers.wait_for("curl -s")
        uri = shared.as_uri()
        streams = [await workers.site.listen(uri) for _ in range(12)]  # at both workers, but for one in 2,000 runs
        later.write_text("zebrafish")
        later.replace(shared)  # one change
        for stream in streams:
            assert (await stream.message())["params"]["uri"] == uri
        async with asyncio.timeout(PATIENCE):
            for _ in range(12):
                while "zebrafish" not in str(await (await workers.site.call("search", query="zebrafish")).result()):
                    await asyncio.sleep(0.1)
        assert await workers.end() == 0
        for stream in streams:
            assert "resources/updated" not in str(await stream.messages())


async def test_with_redis_the_workers_are_replicas(file):
    keys = {"CARREL_STATE_KEYS": "00" * 32}
    with redis_server("redis-server") as server:
        options = ("--http", "0", "--workers", "2", "--state", server.url)
        async with running("run", str(file), *options, env=keys) as workers:
            one, other = await workers.pids()
            session = await workers.site.open()
            for pid in (one, other):
                client = await workers.connect(pid)
                assert (await workers.site.post(request(2, "ping"), session.headers, client)).status == 200
            async with running("run", str(file), "--http", "0", "--state", server.url, env=keys) as alone:
                assert (await alone.site.post(request(3, "ping"), session.headers)).status == 200
            assert await workers.end() == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--workers", "2"], "these options need --http: --workers"),
        (["--http", "0", "--workers", "0"], "'0' is not a number from 1 to 256, nor auto"),
        (["--http", "0", "--workers", "x"], "nor auto"),
        (["--http", "0", "--workers", "2", "--sse"], "--sse is for one process"),
        (["--http", "0", "--workers", "2", "--studio"], "for one process"),
    ],
)
async def test_workers_without_http_or_with_an_option_for_one_process_are_an_error(
    arguments, problem, tmp_path, capsys
):
    assert main(["serve", str(tmp_path), *arguments]) == 2
    assert problem in capsys.readouterr().err


async def test_a_worker_that_hangs_is_replaced_and_says_where(file):
    (file.parent / "carrel.toml").write_text(
        "[app]\nfile = 'books.py'\n[http]\nport = 0\nworkers = 2\nworker_timeout = 5\n"
    )
    async with running("run", cwd=file.parent) as workers:
        one, other = await workers.pids()
        session = await workers.site.open()
        params = {"name": "block", "arguments": {"seconds": 10_000}}
        blocked = asyncio.ensure_future(
            post(workers, session, request(3, "tools/call", params), await workers.connect(one))
        )
        line = await workers.wait_for("it is killed")
        assert f"(process {one}) has not run its event loop for at least 5 seconds" in line
        assert 'books.py", line' in workers.errors
        assert "in block" in workers.errors
        await workers.wait_for("ended by SIGKILL; another one is started")
        await workers.pids(1, without=(one, other))
        os.kill(other, signal.SIGSTOP)
        line = await workers.wait_for("it is killed")
        assert f"(process {other}) has not run" in line
        await workers.pids(without=(one, other))
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await blocked
        assert await workers.end() == 0


async def test_workers_that_are_paused_with_the_command_go_on(file):
    (file.parent / "carrel.toml").write_text(
        "[app]\nfile = 'books.py'\n[http]\nport = 0\nworkers = 2\nworker_timeout = 5\n"
    )
    async with running("run", cwd=file.parent) as workers:
        pids = await workers.pids()
        everyone = [*workers.children, workers.process.pid]
        for pid in everyone:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(12)
        for pid in reversed(everyone):
            os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(7)
        assert await workers.pids() == pids
        assert await workers.end() == 0
        assert "killed" not in workers.errors


async def test_workers_that_run_are_kept_with_the_shortest_timeout(file):
    (file.parent / "carrel.toml").write_text(
        "[app]\nfile = 'books.py'\n[http]\nport = 0\nworkers = 2\nworker_timeout = 0.1\n"
    )
    async with running("run", cwd=file.parent) as workers:
        pids = await workers.pids()
        await asyncio.sleep(12)
        assert await workers.pids() == pids
        assert await workers.end() == 0
        assert "killed" not in workers.errors
