"""A pool of threads that is fair by client: for functions that wait for files, or that are not async.

Each client has its own queue, of limited length, and clients take turns, so that a client that asks for much waits
behind its own requests only. One client never has all the threads.

The caller of a function may be cancelled. Then the function is not begun, or, if it runs already, a flag is set that it
sees with ``cancelled()``, or in a long loop with ``stop_if_cancelled()``.
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

#: Seconds after which a thread without work ends.
IDLE = 10.0

_here = threading.local()


def cancelled() -> bool:
    """Say whether the caller of the function that runs in this thread has been cancelled; False outside of a pool."""
    job: Job | None = getattr(_here, "job", None)
    return job is not None and job.cancelled


def stop_if_cancelled() -> None:
    """End the function that runs in this thread if its caller has been cancelled.

    Raises:
        CancelledError: it has been. Not an ``Exception``, so that a function that handles errors ends too.
    """
    if cancelled():
        raise asyncio.CancelledError


class Job:
    """A call of a function, and the future of its outcome."""

    __slots__ = ("arguments", "cancelled", "context", "function", "future", "loop", "named", "share")

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

    def run(self) -> tuple[Any, BaseException | None]:
        """Call the function in the current thread, and return its value or what it raised."""
        _here.job = self
        try:
            return self.context.run(self.function, *self.arguments, **self.named), None
        except BaseException as error:  # also SystemExit: the caller decides what that means, not this thread
            return None, error
        finally:
            _here.job = None

    def end(self, value: Any, error: BaseException | None) -> None:
        """Give the outcome to the caller, from any thread."""
        try:
            self.loop.call_soon_threadsafe(self._settle, value, error)
        except RuntimeError:  # the loop is closed: nothing waits any more
            pass

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if not self.future.done():
            self.future.set_result((value, error))


class Share:
    """The part of one client: what waits, and how much runs. ``ready`` says that it is in the queue of clients."""

    __slots__ = ("client", "ready", "running", "waiting")

    def __init__(self, client: str) -> None:
        self.client = client
        self.waiting: deque[Job] = deque()
        self.running = 0
        self.ready = False


class Worker:
    """One thread, and what it is to do next: None to end."""

    __slots__ = ("job", "wake")

    def __init__(self, job: Job | None) -> None:
        self.job = job
        self.wake = threading.Lock()
        self.wake.acquire()


class ThreadPool:
    """Up to ``threads`` threads for all clients, up to ``per_client`` of them for one.

    When these are busy, up to ``waiting_per_client`` calls of a client wait. Threads are started when they are needed,
    end when they have had nothing to do for some seconds, and never keep the process from ending.

    Raises:
        ConfigError: a number is less than 1.
    """

    def __init__(self, threads: int, per_client: int, waiting_per_client: int, name: str) -> None:
        if min(threads, per_client, waiting_per_client) < 1:
            raise ConfigError(f"The threads of {name} and those that wait for them must be 1 or more")
        self.threads = threads
        self.per_client = per_client
        self.waiting_per_client = waiting_per_client
        self._name = name
        self._lock = threading.Lock()
        self._shares: dict[str, Share] = {}
        self._ready: deque[Share] = deque()  # clients whose next call may begin, in the order of their turns
        self._running: set[Job] = set()
        self._idle: list[Worker] = []
        self._alive = 0
        self._threads: set[threading.Thread] = set()
        self._closed = False
        self._ended: Callable[[], object] | None = None  # called when the last thread of a closed pool ends

    @property
    def alive(self) -> int:
        """The number of threads that there are now."""
        return self._alive

    @property
    def busy(self) -> int:
        """The number of threads that run a function now."""
        return len(self._running)

    async def run(self, client: str, function: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Call a function in a thread, on behalf of a client, with the context variables of the caller.

        Whatever the function raises is raised here. (A StopIteration becomes a RuntimeError on its way out of this
        coroutine, as in every coroutine.)

        Raises:
            ServerUnavailable: too many calls of this client wait already, or the pool has been closed.
        """
        job = self._enter(client, function, arguments, named)
        try:
            value, error = await job.future
        except BaseException:
            self._cancel(job)
            raise
        if error is None:
            return value  # type: ignore[no-any-return]
        try:
            raise error
        finally:
            del error, job  # or the traceback would hold itself

    async def close(self, patience: float = 0.0) -> None:
        """Begin nothing any more, and wait up to ``patience`` seconds for what runs; what still runs then is cancelled.

        The callers of what is not begun or does not end get a ServerUnavailable. Closing twice does no harm.
        """
        ended = asyncio.Event()
        with self._lock:
            self._closed = True
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
                thread.join()  # it has done everything, and takes a moment to go
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
                    "send more when some of them have been answered"
                )
            else:
                share.waiting.append(job)
                if share.running < self.per_client and not share.ready:
                    share.ready = True
                    self._ready.append(share)
            self._shares[client] = share
            return job

    def _begin(self, job: Job) -> bool:
        """Give a job to a thread that has nothing to do, or to a new one. False if all threads are busy."""
        if self._idle:
            worker = self._idle.pop()  # the one that was last busy, so that those not needed end
            worker.job = job
            worker.wake.release()
            return True
        if self._alive >= self.threads:
            return False
        thread = threading.Thread(target=self._work, args=(Worker(job),), name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system gives no more threads
            if self._alive:
                return False
            raise ServerUnavailable("The system has no thread for this request") from None
        self._alive += 1
        self._threads.add(thread)
        return True

    def _cancel(self, job: Job) -> None:
        job.cancelled = True
        with self._lock:
            try:
                job.share.waiting.remove(job)
            except ValueError:
                return  # it runs, or has ended
            if not job.share.running and not job.share.waiting:
                self._shares.pop(job.share.client, None)

    # In a thread

    def _work(self, worker: Worker) -> None:
        while (job := worker.job) is not None:
            value, error = job.run()
            with self._lock:
                worker.job = self._next(job)
                if idle := worker.job is None and not self._closed:
                    self._idle.append(worker)
            job.end(value, error)
            del job, value, error
            if idle and not worker.wake.acquire(timeout=IDLE):
                with self._lock:
                    if worker in self._idle:
                        self._idle.remove(worker)
                        self._alive -= 1
                        self._threads.discard(threading.current_thread())
                        return
                worker.wake.acquire()  # it was given a job, or told to end, at the last moment
        with self._lock:
            self._alive -= 1
            ended = None if self._alive else self._ended
        if ended is not None:
            try:
                ended()
            except RuntimeError:  # the loop is closed
                pass

    def _next(self, done: Job) -> Job | None:
        """Count a job as done, and return the next one of the client whose turn it is."""
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
                continue  # all of it was cancelled
            job = share.waiting.popleft()
            share.running += 1
            self._running.add(job)
            if share.waiting and share.running < self.per_client:
                share.ready = True
                self._ready.append(share)
            return job
        return None
