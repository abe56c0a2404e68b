"""Thread pool with fair scheduling by client, for blocking functions: file access, and handlers that are not async.

Each client has its own bounded queue, and clients are served round-robin, so that the requests of a busy client delay
only its own. One client never has all the threads.

If the caller of a function is cancelled, the function is not started, or, if it runs already, a flag is set that it
checks with ``cancelled()``, or in a long loop with ``stop_if_cancelled()``.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, TypeVar

from carrel.errors import ConfigError, ServerUnavailable

__all__ = ["ThreadPool", "cancelled", "stop_if_cancelled"]

T = TypeVar("T")

#: Seconds after which an idle thread ends.
IDLE = 10.0

_here = threading.local()


def cancelled() -> bool:
    """Return whether the caller of the function in this thread has been cancelled; False outside of a pool."""
    job: Job | None = getattr(_here, "job", None)
    return job is not None and job.cancelled


def stop_if_cancelled() -> None:
    """Raise CancelledError if the caller of the function in this thread has been cancelled.

    Raises:
        CancelledError: the caller is cancelled. Not an ``Exception``, so that ``except Exception`` does not catch it.
    """
    if cancelled():
        raise asyncio.CancelledError


class Job:
    """A function call in the pool, and the future of its outcome."""

    __slots__ = ("arguments", "cancelled", "context", "function", "future", "loop", "named", "settled", "share")

    def __init__(
        self, share: Share, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        self.share = share
        self.function = function
        self.arguments = arguments
        self.named = named
        self.context: Context = copy_context()
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[Any, BaseException | None]] = self.loop.create_future()
        self.cancelled = False
        self.settled = False
        """Whether the outcome is in the future, and the caller takes it when it runs again."""

    def run(self) -> tuple[Any, BaseException | None]:
        """Call the function in the current thread, and return its value or exception."""
        _here.job = self
        try:
            return self.context.run(self.function, *self.arguments, **self.named), None
        except BaseException as error:  # also SystemExit: raised in the caller, not in this thread
            return None, error
        finally:
            _here.job = None

    def end(self, value: Any, error: BaseException | None, passed: Callable[[], object] | None = None) -> None:
        """Pass the outcome to the caller; call ``passed`` if no caller is left to take it. Thread-safe."""
        try:
            self.loop.call_soon_threadsafe(self._settle, value, error, passed)
        except RuntimeError:  # the loop is closed: there is no caller
            if passed is not None:
                passed()

    def _settle(self, value: Any, error: BaseException | None, passed: Callable[[], object] | None) -> None:
        if not self.future.done():
            self.settled = passed is not None
            self.future.set_result((value, error))
        elif passed is not None:
            passed()


class Share:
    """Jobs of one client: its queue, and the number running. ``ready``: it is in the queue of clients."""

    __slots__ = ("client", "ready", "running", "waiting")

    def __init__(self, client: str) -> None:
        self.client = client
        self.waiting: deque[Job] = deque()
        self.running = 0
        self.ready = False


class Worker:
    """A worker thread, and its next job: None to end."""

    __slots__ = ("job", "wake")

    def __init__(self, job: Job | None) -> None:
        self.job = job
        self.wake = threading.Lock()
        self.wake.acquire()


class ThreadPool:
    """Thread pool of up to ``threads`` threads for all clients, up to ``per_client`` of them for one client.

    When these are busy, up to ``waiting_per_client`` calls of a client wait. Threads are started on demand, end after
    being idle for some seconds, and are daemons. For backpressure, no further job starts while ``per_client`` outcomes,
    such as the contents of large files, wait for their callers.

    Raises:
        ConfigError: a number is less than 1.
    """

    def __init__(self, threads: int, per_client: int, waiting_per_client: int, name: str) -> None:
        if min(threads, per_client, waiting_per_client) < 1:
            raise ConfigError(f"{name}: the numbers of threads and of waiting calls must be 1 or more")
        self.threads = threads
        self.per_client = per_client
        self.waiting_per_client = waiting_per_client
        self._name = name
        self._lock = threading.Lock()
        self._shares: dict[str, Share] = {}
        self._ready: deque[Share] = deque()  # clients whose next call may start, in round-robin order
        self._running: set[Job] = set()
        self._idle: list[Worker] = []
        self._alive = 0
        self._threads: set[threading.Thread] = set()
        self._closed = False
        self._unpassed = 0  # outcomes that their callers have not taken yet
        self._held = 0  # threads that wait for it
        self._room = threading.Condition(self._lock)
        self._ended: Callable[[], object] | None = None  # called when the last thread of a closed pool ends

    def limit(self, threads: int, per_client: int, waiting_per_client: int) -> None:
        """Change the limits. Running functions continue, even above the new limits."""
        with self._lock:
            self.threads, self.per_client, self.waiting_per_client = threads, per_client, waiting_per_client

    @property
    def alive(self) -> int:
        """The current number of threads."""
        return self._alive

    @property
    def busy(self) -> int:
        """The number of threads that are running a function."""
        return len(self._running)

    async def run(self, client: str, function: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Call a function in a thread, on behalf of a client, with the context variables of the caller.

        Exceptions of the function are raised here. (A StopIteration becomes a RuntimeError on its way out of this
        coroutine, as in every coroutine.)

        Raises:
            ServerUnavailable: the queue of this client is full, or the pool is closed.
        """
        job = self._enter(client, function, arguments, named)
        try:
            value, error = await job.future
        except BaseException:
            self._cancel(job)
            raise
        finally:
            if job.settled:
                self._passed()
        if error is None:
            return value  # type: ignore[no-any-return]
        try:
            raise error
        finally:
            del error, job  # avoids a reference cycle through the traceback

    async def close(self, patience: float = 0.0) -> None:
        """Close the pool: start no more jobs, wait up to ``patience`` seconds for running ones, then cancel them.

        Callers of jobs that did not start or end get a ServerUnavailable. Closing twice is allowed.
        """
        ended = asyncio.Event()
        with self._lock:
            self._closed = True
            self._room.notify_all()
            dropped = [job for share in self._shares.values() for job in share.waiting]
            self._shares.clear()
            self._ready.clear()
            for share in {job.share for job in dropped}:
                share.waiting.clear()
            idle, self._idle = self._idle, []
            loop = asyncio.get_running_loop()
            self._ended = lambda: loop.call_soon_threadsafe(ended.set)
            if not self._alive:
                ended.set()
        for worker in idle:
            worker.wake.release()
        for job in dropped:
            job.end(None, ServerUnavailable("The server is stopping"))
        try:
            async with asyncio.timeout(patience):
                await ended.wait()
            for thread in self._threads:
                thread.join()  # it has no more work, and ends at once
        except TimeoutError:
            with self._lock:
                left = tuple(self._running)
            for job in left:
                job.cancelled = True
                job.end(None, ServerUnavailable("The server is stopping"))

    def _enter(
        self, client: str, function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]
    ) -> Job:
        with self._lock:
            if self._closed:
                raise ServerUnavailable("The server is stopping")
            share = self._shares.get(client) or Share(client)
            job = Job(share, function, arguments, named)
            if share.running < self.per_client and self._begin(job):
                share.running += 1
                self._running.add(job)
            elif len(share.waiting) >= self.waiting_per_client:
                raise ServerUnavailable(
                    f"At most {self.waiting_per_client} requests of one client wait for a thread; "
                    "wait for responses before sending more"
                )
            else:
                share.waiting.append(job)
                if share.running < self.per_client and not share.ready:
                    share.ready = True
                    self._ready.append(share)
            self._shares[client] = share
            return job

    def _begin(self, job: Job) -> bool:
        """Start a job in an idle or new thread; return False if all threads are busy."""
        if self._idle:
            worker = self._idle.pop()  # the most recently busy one, so that unneeded threads end
            worker.job = job
            worker.wake.release()
            return True
        if self._alive >= self.threads:
            return False
        thread = threading.Thread(target=self._work, args=(Worker(job),), name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads
            if self._alive:
                return False
            raise ServerUnavailable("The system cannot start a thread for this request") from None
        self._alive += 1
        self._threads.add(thread)
        return True

    def _cancel(self, job: Job) -> None:
        job.cancelled = True
        with self._lock:
            try:
                job.share.waiting.remove(job)
            except ValueError:
                return  # running or done
            if not job.share.running and not job.share.waiting:
                self._shares.pop(job.share.client, None)

    # In the worker threads

    def _work(self, worker: Worker) -> None:
        while (job := worker.job) is not None:
            if self._unpassed > self.per_client:
                self._wait_for_room()
            value, error = job.run()
            with self._lock:
                self._unpassed += 1
                worker.job = self._next(job)
                if idle := worker.job is None and not self._closed:
                    self._idle.append(worker)
            job.end(value, error, self._passed)
            del job, value, error
            if idle and not worker.wake.acquire(timeout=IDLE):
                with self._lock:
                    if worker in self._idle:
                        self._idle.remove(worker)
                        self._alive -= 1
                        self._threads.discard(threading.current_thread())
                        return
                worker.wake.acquire()  # it was given a job, or told to end, meanwhile
        with self._lock:
            self._alive -= 1
            ended = None if self._alive else self._ended
        if ended is not None:
            try:
                ended()
            except RuntimeError:  # the loop is closed
                pass

    def _passed(self) -> None:
        with self._lock:
            self._unpassed -= 1
            if self._held:
                self._room.notify()

    def _wait_for_room(self) -> None:
        """Wait until the event loop has taken outcomes, for some seconds: it may have stopped."""
        with self._lock:
            self._held += 1
            self._room.wait_for(lambda: self._unpassed <= self.per_client or self._closed, IDLE)
            self._held -= 1

    def _next(self, done: Job) -> Job | None:
        """Mark a job as done, and return the next job in round-robin order of the clients."""
        self._running.discard(done)
        share = done.share
        share.running -= 1
        if share.waiting and not share.ready:
            share.ready = True
            self._ready.append(share)
        elif not share.waiting and not share.running:
            self._shares.pop(share.client, None)
        while self._ready:
            share = self._ready.popleft()
            share.ready = False
            if not share.waiting:
                continue  # all its jobs were cancelled
            job = share.waiting.popleft()
            share.running += 1
            self._running.add(job)
            if share.waiting and share.running < self.per_client:
                share.ready = True
                self._ready.append(share)
            return job
        return None
