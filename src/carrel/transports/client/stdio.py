"""Client transport for stdio: the server is a subprocess, with one JSON message per line on its standard streams.

The subprocess gets a new process group, and the whole group is always ended with the connection.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/stdio
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import threading
import weakref
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from carrel.errors import ConfigError, InvalidMessage, MCPError, TransportError
from carrel.printable import printable
from carrel.protocol.client import OutgoingMessage
from carrel.protocol.results import id_of_response
from carrel.protocol.revision import Revision
from carrel.transports.client.process_group import NEW_GROUP, ProcessGroup, kill
from carrel.transports.client.process_pipes import MAX_UNREAD, ProcessPipes
from carrel.transports.client.transport import STDERR_FOLLOWS, Receiver
from carrel.wire.base import Id

__all__ = ["MAX_MESSAGE", "StdioTransport", "environment"]

#: The longest message that is read, in bytes.
MAX_MESSAGE = 64 * 1024 * 1024

#: How much of standard error is included in an error message, in bytes.
SHOWN = 8 * 1024

#: Seconds that a child gets to exit after its standard input is closed, and again after SIGTERM.
GRACE = 2.0

#: Environment variables that a child inherits: none that could hold a secret.
INHERITED = (
    (
        *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
        *("PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
    )
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)

#: Characters that cmd.exe, which runs batch files on Windows, would interpret.
UNQUOTABLE = frozenset('"%!^&|<>()\r\n')

#: Held while a process is forked: uvloop refuses to do so in two threads at the same moment.
FORKING = threading.Lock()


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child: the inherited variables, without shell functions, and ``extra``."""
    found = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**{name: value for name, value in found.items() if not value.startswith("()")}, **(extra or {})}


class StdioTransport:
    """stdio transport to a server subprocess that is started and stopped with the connection.

    Args:
        command: the program and its arguments. There is no shell.
        env: environment variables besides the few that are inherited (``environment``).
        cwd: the working directory of the subprocess.
        stderr: callback for each line of its standard error.
        name: name of the server in errors; None for its program and its first argument.
        max_message: the longest message that is read, in bytes.
        grace: seconds that it gets to exit by itself when the connection is closed, and again after SIGTERM.
    """

    cancels = False
    held = False
    mirrors = False
    streams = False

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stderr: Callable[[str], object] | None = None,
        name: str | None = None,
        max_message: int = MAX_MESSAGE,
        grace: float = GRACE,
    ) -> None:
        if isinstance(command, str | bytes) or not command:
            raise ConfigError("The command of a server is a list: the program and its arguments")
        self._command = [os.fspath(part) for part in command]
        self._env = dict(env or {})
        if any("\0" in part for part in (*self._command, *self._env, *self._env.values())):
            raise ConfigError(f"The command {self._command[0]!r} or its environment has a NUL in it")
        self._name = name or short_name(self._command)
        self._cwd = cwd
        self._grace = grace
        self._pipes = ProcessPipes(self._receive, self._fail, self._fail_call, max_message, stderr)
        self._max_message = max_message
        self._receiver: Receiver | None = None
        self._group: ProcessGroup | None = None
        self._starting: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._hurried = False
        self._failure: TransportError | None = None

    @property
    def pid(self) -> int | None:
        """The process id, which is also the process group id; None before the process is started."""
        group = self._pipes.group
        return None if group is None else group.pid

    @property
    def errors(self) -> str:
        """The last 64 KiB of the server's standard error."""
        return self._pipes.errors.decode(errors="replace")

    # Opening

    async def open(self, receiver: Receiver) -> None:
        """Start the program.

        Raises:
            ConfigError: there is no such program, or it cannot be run.
            TransportError: the connection was closed before it was opened, or the program cannot be started for now.
        """
        if self._starting is not None:
            raise ConfigError("A connection to a server is opened once")
        if self._ending is not None:
            raise TransportError("The connection was closed before it was opened", delivered=False)
        self._receiver = receiver
        self._starting = asyncio.create_task(self._start())
        try:
            await asyncio.shield(self._starting)
        except CancelledError:
            await self._end_now()
            raise
        if self._ending is not None and self._failure is None:
            raise TransportError("The connection was closed while it was opened", delivered=False)

    async def _start(self) -> None:
        env = environment(self._env)
        program = find_program(self._command, env, self._cwd)
        try:
            starting = asyncio.get_running_loop().subprocess_exec(
                lambda: self._pipes,
                *(program, *self._command[1:]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd=self._cwd,
                **NEW_GROUP,
            )
            await FirstStepAlone(starting)
        except OSError as error:
            raise self._explain(error) from error
        finally:  # the process may have been started even if this task is cancelled
            self._group = self._pipes.group
            if self._group is not None:
                self._killing = weakref.finalize(self, kill, self._group.pid, os.getpid())

    def _explain(self, error: OSError) -> MCPError:
        """Return the exception for a program that cannot be started."""
        program = self._command[0]
        if error.errno in (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            return TransportError(f"The program {program!r} cannot be started: {error.strerror}", delivered=False)
        if error.errno == errno.ENOENT:
            return ConfigError(
                f"The program {program!r} cannot be started: the interpreter in its first line does not exist"
            )
        return ConfigError(f"The program {program!r} cannot be started: {error.strerror}")

    # Messages

    def send(self, message: OutgoingMessage) -> Awaitable[None] | None:
        """Write a message, batched with others of the same event loop iteration."""
        error: TransportError | None = None
        if self._ending is None and self._group is not None:
            if not self._pipes.overfull:
                return self._pipes.write(message.data)
            why = f"{self._name} does not read its input: more than {MAX_UNREAD} bytes wait for it (MAX_UNREAD)"
            error = TransportError(why, delivered=False)
        if message.id is not None and self._receiver is not None:
            error = error or TransportError(str(self._failure or "The connection is closed"), delivered=False)
            asyncio.get_running_loop().call_soon(self._receiver.fail, message.id, error)
        return None

    def abandon(self, id: Id) -> None:
        """Do nothing: a request holds no resources here."""

    def settle(self, revision: Revision) -> None:
        """Do nothing: the revision changes nothing here."""

    def _receive(self, line: bytes) -> float | None:
        if self._ending is None and self._receiver is not None:
            return self._receiver.receive(line)
        return None

    def _fail_call(self, head: bytes, tail: bytes) -> bool:
        """Fail the request whose response is too long; return False if it is not known which one that is.

        ``head`` and ``tail`` are the ends of the response.
        """
        id = id_of_response(head, tail)
        if id is None or self._receiver is None:
            return False
        message = f"The server {self._name!r} has sent a response of more than {self._max_message} bytes (max_message)"
        self._receiver.fail(id, InvalidMessage(message))
        return True

    # Closing

    def _fail(self, reason: str) -> None:
        """Close the connection because the server has exited or its streams are unusable."""
        if self._ending is not None:
            return
        errors = self._pipes.errors[-SHOWN:].decode(errors="replace").strip()
        self._failure = TransportError(
            f"The server {self._name!r} {reason}" + (f".{STDERR_FOLLOWS}\n{errors}" if errors else "")
        )
        self._ending = asyncio.get_running_loop().create_task(self._end())
        if self._receiver is not None:
            self._receiver.closed(self._failure)

    async def close(self) -> None:
        """Stop the server and its process group: close its input, then send SIGTERM, then SIGKILL.

        If this is cancelled, the server is killed at once.
        """
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        try:
            await asyncio.shield(self._ending)
        except CancelledError:
            await self._end_now()
            raise

    async def _end_now(self) -> None:
        self._hurried = True
        if self._group is not None:
            self._group.kill()
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())
        await asyncio.wait({self._ending})

    async def _end(self) -> None:
        if self._starting is not None:
            await asyncio.wait({self._starting})
            if not self._starting.cancelled():
                self._starting.exception()  # ``open`` has raised it
        group = self._group
        if group is None:
            return
        try:
            await self._end_group(group)
        finally:  # also if the event loop is being closed
            group.kill()
            self._killing.detach()
            await self._pipes.close()

    async def _end_group(self, group: ProcessGroup) -> None:
        pipes = self._pipes
        if not self._hurried:
            pipes.finish()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._grace):
                    await pipes.exited.wait()
        if group.alive and not self._hurried:
            group.terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._grace):
                    await pipes.exited.wait()
                    pause = 0.001
                    while group.alive:  # there is no exit event for processes that are not our children
                        await asyncio.sleep(pause)
                        pause = min(2 * pause, 0.05)


def short_name(command: Sequence[str]) -> str:
    """Return a command up to its first argument that is no option, without directories: others may be secret."""
    end = next((at for at, word in enumerate(command[1:], 2) if not word.startswith("-")), 1)
    return printable(" ".join(Path(word).name if Path(word).is_absolute() else word for word in command[:end]), 60)


class FirstStepAlone:
    """Awaitable of a coroutine that holds the lock ``FORKING`` up to where the coroutine first waits."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        with FORKING:
            waits_for = self._coroutine.send(None)
        while True:
            try:
                yield waits_for
            except BaseException as error:
                resume = partial(self._coroutine.throw, error)
            else:
                resume = partial(self._coroutine.send, None)
            try:
                waits_for = resume()
            except StopIteration as end:
                return end.value


def find_program(command: Sequence[str], env: Mapping[str, str], cwd: str | os.PathLike[str] | None = None) -> str:
    """Return the path of a program: unchanged if it has a directory, otherwise searched in PATH.

    Raises:
        ConfigError: it does not exist, is not a program, or would be run by a shell; or ``cwd`` does not exist.
    """
    program = command[0]
    if cwd is not None and not Path(cwd).is_dir():
        raise ConfigError(f"The directory {os.fspath(cwd)!r} to start {program!r} in does not exist")
    found = program if os.path.dirname(program) else shutil.which(program, path=env.get("PATH"))  # noqa: PTH120
    if found is None:
        raise ConfigError(f"The program {program!r} does not exist (PATH was searched: {env.get('PATH', os.defpath)})")
    if sys.platform != "win32":
        reject_script(program, Path(cwd or ".", found))
    elif found.lower().endswith((".bat", ".cmd")) and not UNQUOTABLE.isdisjoint("".join(command[1:])):
        raise ConfigError(f"{found!r} is a batch file, to which these arguments cannot be passed safely")
    return found


def reject_script(program: str, path: Path) -> None:
    """Refuse a script without a shebang line: uvloop would run it with a shell, asyncio would not.

    Raises:
        ConfigError: it is not an executable program.
    """
    try:
        with path.open("rb") as file:
            start = file.read(256)
    except PermissionError:
        start = b"#!"  # it may be executable without being readable
    except OSError as error:
        raise ConfigError(f"The program {program!r} cannot be started: {error.strerror}") from error
    if not os.access(path, os.X_OK):
        raise ConfigError(f"The program {program!r} may not be run: Permission denied")
    if not start.startswith(b"#!") and b"\0" not in start:
        raise ConfigError(f"{program!r} is not a program: it does not begin with #! and an interpreter")
