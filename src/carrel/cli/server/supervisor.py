"""Supervisor of workers: starts them, starts them again after a crash, replaces them one by one, and ends them.

It runs no event loop and no threads, since it forks.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from carrel.cli.server.worker import BEAT, DUMP, WorkerProcess
from carrel.cli.terminal.messages import print_stderr
from carrel.log import Log
from carrel.state.remote.process import give, hold

__all__ = ["Supervisor"]

log = Log("carrel")

#: Seconds, in addition to the time for requests and tasks, after SIGTERM before a worker is killed.
MORE_GRACE = 15.0
#: Seconds in which a worker prints the stacks of its threads, before it is killed because its event loop does not run.
DUMPING = 1.0
#: Seconds for which a worker runs well; a crash before that makes the next start wait.
STABLE = 10.0
#: Seconds before a worker is started again after its second crash, which double with each crash up to a maximum.
PAUSE = 0.5
MAX_PAUSE = 10.0

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


class RunningWorker:
    """Process of a worker."""

    def __init__(self, place: WorkerPlace, pid: int, control: socket.socket) -> None:
        self.place = place
        self.pid = pid
        self.control = control
        self.began = time.monotonic()
        self.ready = False
        """Whether it accepts connections."""
        self.lost_store = False
        """Whether the process that held its sessions has ended: then it ends too."""
        self.missed = 0
        """Number of beats of the supervisor since the worker's last message."""
        self.kill_at: float | None = None
        """When it is killed, after it was told to end, or its event loop does not run."""
        self.killed_for = ""
        """Why it is killed, if that was not logged."""

    @property
    def shown(self) -> str:
        """Name of the worker for messages."""
        return f"worker {self.place.number} (process {self.pid})"


class WorkerPlace:
    """Place of one worker: its sockets, its process, and the process that is to replace it."""

    def __init__(self, number: int, listeners: Sequence[socket.socket]) -> None:
        self.number = number
        self.listeners = listeners
        self.current: RunningWorker | None = None
        self.next: RunningWorker | None = None
        self.crashes = 0
        self.due: float | None = None
        """When a process is started here."""


class Supervisor:
    """Supervisor of the workers, one for each item of ``listeners``; ``has_store`` if it starts a store for them.

    ``grace`` is the number of seconds that requests and tasks get to finish after SIGTERM. A worker whose event loop
    has not run for ``patience`` seconds is replaced; 0: never.
    """

    def __init__(
        self, listeners: Sequence[Sequence[socket.socket]], *, has_store: bool, grace: float, patience: float
    ) -> None:
        self._places = [WorkerPlace(number, own) for number, own in enumerate(listeners, 1)]
        self._processes: dict[int, RunningWorker] = {}
        self._has_store = has_store
        self._grace = grace + MORE_GRACE
        self._patience = patience
        self._next_beat = time.monotonic() + BEAT
        self._store: tuple[int, socket.socket] | None = None
        """Process that holds the store, and a socket to it."""
        self._store_missed = 0
        """Number of beats since its last message."""
        self._signals: deque[int] = deque()
        self._selector = selectors.DefaultSelector()
        self._wake = socket.socketpair()
        self._serving = False
        """Whether all workers have been ready."""
        self._stopping = False
        self._stopped_by: int = signal.SIGTERM
        self._code = 0
        self._to_replace: deque[WorkerPlace] = deque()
        self._replacing: WorkerPlace | None = None
        self._has_terminal = sys.stderr.isatty()

    def run(self) -> WorkerProcess | int:
        """Run until all workers have ended and return the exit code; in a worker, return the worker."""
        for end in self._wake:
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake[1].fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, lambda number, _: self._signals.append(number))
        self._selector.register(self._wake[0], selectors.EVENT_READ)
        self._places[0].due = time.monotonic()
        while True:
            if self._has_store and self._store is None and not self._stopping:
                self._start_store()
            for place in self._places:
                if place.due is not None and place.due <= time.monotonic():
                    worker = self._start(place)
                    if worker is not None:
                        return worker
            self._wait()
            self._reap()
            while self._signals:
                self._handle(self._signals.popleft())
            if self._stopping and not self._processes:
                return self._end()

    def _end(self) -> int:
        if self._store is not None:
            pid, control = self._store
            control.close()
            os.kill(pid, signal.SIGKILL)  # its state is for the workers alone, and it may be stopped
            os.waitpid(pid, 0)
        signal.set_wakeup_fd(-1)
        return self._code

    def _wait(self) -> None:
        """Wait for a signal, a message of a worker, or the time of the next start or kill."""
        times = [place.due for place in self._places] + [process.kill_at for process in self._processes.values()]
        due = [at for at in times if at is not None]
        if self._patience:
            due.append(self._next_beat)
        timeout = max(0.0, min(due) - time.monotonic()) if due else None
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    self._wake[0].recv(4096)
                continue
            process: RunningWorker = key.data
            try:
                message = process.control.recv(64)
            except OSError:
                message = b""
            process.missed = 0
            if not message:
                self._selector.unregister(process.control)
            elif not process.ready and not self._stopping:
                process.ready = True
                self._on_ready(process)
        for process in self._processes.values():
            if process.kill_at is not None and process.kill_at <= time.monotonic():
                log.error("%s %s; it is killed", process.shown, process.killed_for)
                process.kill_at = None
                os.kill(process.pid, signal.SIGKILL)
        if self._patience and time.monotonic() >= self._next_beat:
            self._next_beat = time.monotonic() + BEAT
            self._count_beat()
            self._check_store()

    def _count_beat(self) -> None:
        """Count a beat that workers have not answered yet.

        Beats are counted rather than seconds: while the supervisor is paused too, as on a suspended computer, no worker
        misses one.
        """
        for process in self._processes.values():
            if not process.ready or process.kill_at is not None or is_traced(process.pid):
                continue
            process.missed += 1
            silent = (process.missed - 1) * BEAT  # it may have sent its last message just before the first beat
            if silent >= self._patience:
                process.killed_for = f"has not run its event loop for at least {silent:.0f} seconds"
                process.kill_at = time.monotonic() + DUMPING
                os.kill(process.pid, DUMP)

    def _check_store(self) -> None:
        """Kill the process that holds the store if it does not run: all requests would wait for it."""
        if self._store is None or self._stopping:
            return
        pid, control = self._store
        try:
            heard = control.recv(64, socket.MSG_DONTWAIT)
        except OSError:
            heard = b""
        self._store_missed = 0 if heard else self._store_missed + 1
        silent = (self._store_missed - 1) * BEAT
        if silent >= self._patience and not is_traced(pid):
            log.error("the process that holds the sessions has not run for at least %.0f seconds; it is killed", silent)
            os.kill(pid, signal.SIGKILL)

    # Starting

    def _start_store(self) -> None:
        ours, theirs = socket.socketpair()
        pid = self._fork()
        if pid == 0:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # it ends after the workers
            ours.close()
            for listener in self._sockets():
                listener.close()
            _name_process("carrel-store")
            try:
                hold(theirs, BEAT / 2)
            except BaseException:
                log.exception("the process that holds the sessions has failed")
            finally:
                os._exit(0)
        theirs.close()
        self._store, self._store_missed = (pid, ours), 0

    def _start(self, place: WorkerPlace) -> WorkerProcess | None:
        """Start a process for a place. Return the worker in the new process, and None in this one."""
        place.due = None
        ours, theirs = socket.socketpair()
        given: socket.socket | None = None
        if self._store is not None:
            given, held = socket.socketpair()
            with contextlib.suppress(OSError):  # the store has ended: it is started again, and so is the worker
                give(self._store[1], held)
            held.close()
        greets = place.number == 1 and not self._serving and place.crashes == 0
        pid = self._fork()
        if pid == 0:
            signal.signal(signal.SIGHUP, lambda *_: None)  # programs that it starts do not inherit this
            ours.close()
            if self._store is not None:
                self._store[1].close()
            for listener in self._sockets():
                if listener not in place.listeners:
                    listener.close()
            _name_process(f"carrel-worker{place.number}")
            worker = WorkerProcess(place.number, place.listeners, theirs, given)
            worker.greets = greets
            return worker
        theirs.close()
        if given is not None:
            given.close()
        process = RunningWorker(place, pid, ours)
        self._processes[pid] = process
        self._selector.register(ours, selectors.EVENT_READ, process)
        if place.current is None:
            place.current = process
        else:
            place.next = process
        return None

    def _fork(self) -> int:
        """Fork. The new process has the default handlers of signals."""
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number in SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._selector.close()
            for end in (*self._wake, *(process.control for process in self._processes.values())):
                end.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return pid

    def _sockets(self) -> Iterator[socket.socket]:
        for place in self._places:
            yield from place.listeners

    def _on_ready(self, process: RunningWorker) -> None:
        place = process.place
        if process is place.next:
            place.next = None
            replaced, place.current = place.current, process
            if replaced is not None:
                self._stop(replaced)
        if place is self._replacing:
            self._replace_next()
        if not self._serving:
            for other in self._places:
                if other.current is None and other.due is None:
                    other.due = time.monotonic()
            self._serving = all(other.current is not None and other.current.ready for other in self._places)

    # Ending

    def _reap(self) -> None:
        if self._store is not None:
            pid, status = os.waitpid(self._store[0], os.WNOHANG)
            if pid:
                self._store[1].close()
                self._store = None
                for process in self._processes.values():
                    process.lost_store = True
                if not self._stopping:
                    log.error(
                        "the process that holds the sessions %s; all sessions and tasks are lost, and the workers are "
                        "started again",
                        described(os.waitstatus_to_exitcode(status)),
                    )
        for process in list(self._processes.values()):
            pid, status = os.waitpid(process.pid, os.WNOHANG)
            if pid:
                del self._processes[pid]
                with contextlib.suppress(KeyError):
                    self._selector.unregister(process.control)
                process.control.close()
                self._ended(process, os.waitstatus_to_exitcode(status))

    def _ended(self, process: RunningWorker, code: int) -> None:
        place = process.place
        if self._stopping:
            self._code = self._code or exit_code(-self._stopped_by if code == -signal.SIGTERM else code)
        elif process is place.next:
            place.next = self._replacing = None
            self._to_replace.clear()
            log.error("%s %s before it was ready; the workers before it go on", process.shown, described(code))
        elif process is place.current:
            place.current = None
            if not self._serving and not process.ready:
                self._code = exit_code(code)
                self._stop_all()
            else:
                self._restart(process, code)

    def _restart(self, process: RunningWorker, code: int) -> None:
        place, now = process.place, time.monotonic()
        if process.lost_store and code == 0:  # the log has the reason
            place.due = now
            return
        if process.ready and now - process.began > STABLE:
            place.crashes = 0
        pause = min(MAX_PAUSE, PAUSE * 2 ** (place.crashes - 1)) if place.crashes else 0.0
        place.crashes += 1
        place.due = now + pause
        when = f" in {pause:g} seconds" if pause else ""
        log.error("%s %s; another one is started%s", process.shown, described(code), when)

    def _stop(self, process: RunningWorker) -> None:
        process.kill_at = time.monotonic() + self._grace
        process.killed_for = f"did not end within {self._grace:.0f} seconds"
        os.kill(process.pid, signal.SIGTERM)

    def _stop_all(self) -> None:
        self._stopping = True
        for place in self._places:
            place.due = None
        for process in self._processes.values():
            if process.kill_at is None:
                self._stop(process)

    # Signals

    def _handle(self, number: int) -> None:
        if number == signal.SIGHUP and not (self._has_terminal and not sys.stderr.isatty()):
            if self._serving and not self._stopping:
                self._to_replace = deque(self._places)
                if self._replacing is None:
                    self._replace_next()
        elif number == signal.SIGINT and self._stopping:
            for process in self._processes.values():
                os.kill(process.pid, signal.SIGINT)
        elif number != signal.SIGCHLD and not self._stopping:
            self._stopped_by = number
            self._stop_all()

    def _replace_next(self) -> None:
        """Start the process that replaces the next worker. A worker that has crashed is being started anyway."""
        self._replacing = None
        while self._to_replace and self._replacing is None:
            place = self._to_replace.popleft()
            if place.current is not None:
                self._replacing = place
                place.due = time.monotonic()
        if self._replacing is None:
            print_stderr("carrel: all workers were replaced")


def exit_code(code: int) -> int:
    """Return the exit code of the command for a worker, as a shell does: 128 and the number of a signal."""
    return code if code >= 0 else 128 - code


def is_traced(pid: int) -> bool:
    """Return whether a debugger has stopped a process, or may do so (Linux)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return "\nTracerPid:" in status and "\nTracerPid:\t0\n" not in status


def described(code: int) -> str:
    """Describe the end of a process."""
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"has ended with exit code {code}"


def _name_process(name: str) -> None:
    """Set the name of this process in ``top`` and ``ps``, at most 15 characters (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name)
