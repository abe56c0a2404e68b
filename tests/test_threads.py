"""The thread pool: turns, limits, cancellation, outcomes, and its end."""

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from contextvars import ContextVar

import pytest

from carrel import threads
from carrel.errors import ConfigError, ServerUnavailable
from carrel.threads import ThreadPool, cancelled, stop_if_cancelled

SECONDS = 60


class Gate:
    """A function that says when it runs, and ends when it may."""

    def __init__(self):
        self.running = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, value=None):
        self.running.release()
        assert self.go.wait(SECONDS)
        return value

    async def runs(self, times=1):
        for _ in range(times):
            assert await asyncio.to_thread(self.running.acquire, timeout=SECONDS)


@pytest.fixture
async def pool():
    pool = ThreadPool(4, 2, 3, "test-pool")
    yield pool
    await pool.close(SECONDS)
    assert (pool.alive, pool.busy) == (0, 0)


def spawn(pool, client, function, *arguments):
    return asyncio.ensure_future(pool.run(client, function, *arguments))


async def test_a_function_runs_in_a_thread_with_its_arguments_and_context_variables(pool):
    variable = ContextVar("variable")
    variable.set("set by the caller")

    def function(a, *, b):
        return a, b, variable.get(), threading.current_thread().name, threading.current_thread().daemon

    assert await pool.run("c", function, 1, b=2) == (1, 2, "set by the caller", "test-pool", True)


async def test_threads_are_started_when_needed_and_used_again(pool):
    assert pool.alive == 0
    names = {await pool.run("c", threading.get_ident) for _ in range(20)}
    assert len(names) <= 2  # one may have been about to become idle
    assert pool.alive <= 2


async def test_idle_threads_end(pool, monkeypatch):
    monkeypatch.setattr(threads, "IDLE", 0.01)
    thread = await pool.run("c", threading.current_thread)
    await asyncio.to_thread(thread.join, SECONDS)
    assert pool.alive == 0
    assert await pool.run("c", int, "5") == 5


async def test_calls_are_not_lost_while_idle_threads_end(pool, monkeypatch):
    monkeypatch.setattr(threads, "IDLE", 0.0)
    for number in range(500):
        assert await asyncio.wait_for(pool.run("c", int, number), SECONDS) == number


async def test_one_client_never_has_all_threads(pool):
    gate = Gate()
    calls = [spawn(pool, "greedy", gate) for _ in range(5)]
    await gate.runs(2)
    assert pool.busy == 2
    assert await asyncio.wait_for(pool.run("other", int, "5"), SECONDS) == 5
    gate.go.set()
    await asyncio.gather(*calls)


async def test_more_calls_than_may_wait_are_refused_with_the_limit_and_others_are_not(pool):
    gate = Gate()
    calls = [spawn(pool, "greedy", gate) for _ in range(5)]
    await gate.runs(2)
    with pytest.raises(ServerUnavailable, match="At most 3 requests of one client wait"):
        await pool.run("greedy", gate)
    assert await pool.run("other", int, "5") == 5
    gate.go.set()
    await asyncio.gather(*calls)
    assert await pool.run("greedy", int, "6") == 6


async def test_clients_take_turns():
    pool = ThreadPool(1, 1, 10, "test-pool")
    gate, order = Gate(), []
    calls = [spawn(pool, "a", gate)]
    await gate.runs()
    calls += [spawn(pool, client, order.append, client) for client in "aaaabbcc"]
    await asyncio.sleep(0)  # all of them are in their queues
    gate.go.set()
    await asyncio.gather(*calls)
    assert "".join(order) == "bcabcaaa"
    await pool.close(SECONDS)


async def test_threads_do_not_run_ahead_of_the_event_loop(monkeypatch):
    monkeypatch.setattr(threads, "IDLE", 60.0)
    pool = ThreadPool(2, 2, 100, "test-pool")
    ran, held = [], threading.Event()
    wait_for = pool._room.wait_for

    def waits(*arguments):
        held.set()
        return wait_for(*arguments)

    monkeypatch.setattr(pool._room, "wait_for", waits)
    calls = [spawn(pool, "c", ran.append, number) for number in range(20)]
    await asyncio.sleep(0)  # they are in the queue
    assert held.wait(SECONDS)  # the loop is blocked meanwhile, as by an answer that is large
    assert len(ran) <= 4
    await asyncio.gather(*calls)
    assert sorted(ran) == list(range(20))
    assert (pool._unpassed, pool._held) == (0, 0)
    await pool.close(SECONDS)


async def test_threads_that_wait_for_the_event_loop_end_with_the_pool(monkeypatch):
    monkeypatch.setattr(threads, "IDLE", 60.0)
    pool = ThreadPool(1, 1, 100, "test-pool")
    calls = [spawn(pool, "c", int) for _ in range(20)]
    await asyncio.sleep(0)
    await pool.close(SECONDS)
    assert pool.alive == 0
    assert len(await asyncio.gather(*calls, return_exceptions=True)) == 20


async def test_a_call_that_waits_is_dropped_when_its_caller_is_cancelled(pool):
    gate, called = Gate(), []
    calls = [spawn(pool, "c", gate) for _ in range(2)]
    await gate.runs(2)
    waiting = [spawn(pool, "c", called.append, number) for number in range(3)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    calls += [spawn(pool, "c", called.append, "room again") for number in range(3)]
    gate.go.set()
    await asyncio.gather(*calls)
    assert called == ["room again"] * 3


@pytest.mark.parametrize("check", [True, False], ids=["stop_if_cancelled", "cancelled"])
async def test_a_call_that_runs_sees_that_its_caller_was_cancelled(pool, check):
    running, ended = threading.Event(), threading.Event()

    def loop():
        running.set()
        try:
            while not cancelled():
                if check:
                    stop_if_cancelled()
        finally:
            ended.set()

    task = spawn(pool, "c", loop)
    await asyncio.to_thread(running.wait, SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, SECONDS)
    assert await pool.run("c", cancelled) is False


def test_outside_of_a_pool_nothing_is_cancelled():
    assert cancelled() is False
    stop_if_cancelled()


class Odd(BaseException):
    """An error that is no Exception."""


@pytest.mark.parametrize("error", [ValueError, SystemExit, Odd, asyncio.CancelledError, GeneratorExit])
async def test_an_error_reaches_the_caller_and_the_thread_goes_on(pool, error):
    def fail():
        raise error("reason")

    with pytest.raises(error, match="reason"):
        await pool.run("c", fail)
    assert await pool.run("c", int, "5") == 5


async def test_a_keyboard_interrupt_reaches_the_caller(pool):
    def interrupt():
        raise KeyboardInterrupt

    try:
        await pool.run("c", interrupt)
    except KeyboardInterrupt:
        caught = True
    assert caught


async def test_a_stop_iteration_is_a_runtime_error_as_in_every_coroutine(pool):
    with pytest.raises(RuntimeError) as info:
        await pool.run("c", next, iter(()))
    assert isinstance(info.value.__cause__, StopIteration)


async def test_a_result_is_not_kept_by_an_idle_thread(pool):
    class Large:
        pass

    made = weakref.ref(await pool.run("c", Large))
    await pool.run("c", int)
    gc.collect()
    assert made() is None


async def test_closing_waits_for_what_runs_and_refuses_what_waits():
    pool = ThreadPool(1, 1, 10, "test-pool")
    gate = Gate()
    runs = spawn(pool, "c", gate, "done")
    await gate.runs()
    waits = spawn(pool, "c", gate)
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(pool.close(SECONDS))
    with pytest.raises(ServerUnavailable, match="stopping"):
        await waits
    with pytest.raises(ServerUnavailable, match="stopping"):
        await pool.run("c", int)
    gate.go.set()
    assert await runs == "done"
    await closing
    assert pool.alive == 0
    await pool.close()


async def test_closing_gives_up_what_does_not_end_and_tells_its_caller():
    pool = ThreadPool(1, 1, 10, "test-pool")
    running, ended = threading.Event(), threading.Event()

    def loop():
        running.set()
        while not cancelled():
            pass
        ended.set()

    task = spawn(pool, "c", loop)
    await asyncio.to_thread(running.wait, SECONDS)
    await pool.close(0.01)
    with pytest.raises(ServerUnavailable, match="stopping"):
        await task
    assert await asyncio.to_thread(ended.wait, SECONDS)


async def test_clients_that_have_no_calls_are_forgotten(pool):
    await asyncio.gather(*[pool.run(f"client {number}", int) for number in range(100)])
    await pool.run("last", int)
    assert set(pool._shares) <= {"last"}


@pytest.mark.parametrize("numbers", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_numbers_below_one_are_refused(numbers):
    with pytest.raises(ConfigError, match="1 or more"):
        ThreadPool(*numbers, "test-pool")


def test_a_thread_that_hangs_does_not_keep_the_process():
    script = (
        "import asyncio, threading\n"
        "from carrel.threads import ThreadPool\n"
        "async def main():\n"
        "    pool = ThreadPool(2, 1, 1, 'p')\n"
        "    asyncio.ensure_future(pool.run('c', threading.Event().wait))\n"
        "    await pool.run('d', int)\n"
        "asyncio.run(main())\n"
        "print('over')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("over\n", "")
