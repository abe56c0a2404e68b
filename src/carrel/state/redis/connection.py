"""Connections to Redis: one for commands, sent in pipelines, and one that waits for messages.

All commands of one turn of the event loop are sent in one pipeline. Commands are sent in the order of their submission,
so a caller need not wait for the response to one command before it submits the next.

While Redis cannot be reached, commands wait for ``PATIENCE`` seconds, and at most ``MAX_WAITING`` bytes of them; then
they fail at once until Redis is back (a circuit breaker).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from typing import Any

from carrel.errors import ConfigError
from carrel.log import Log
from carrel.state.interfaces import StoreUnavailable
from carrel.state.redis.address import PATIENCE, Address, disconnect, explain, send
from carrel.state.redis.scripts import SCRIPTS, Script

__all__ = ["RedisClient", "connect"]

#: Maximum size of the waiting commands, in bytes.
MAX_WAITING = 8 * 1024 * 1024
#: Maximum number of commands of a pipeline, and its size in bytes from which no more commands are added.
MAX_PIPELINE = 1000
MAX_PIPELINE_BYTES = 1024 * 1024
#: Seconds between attempts to reconnect: at first, and at most.
RETRY = 0.05
MAX_RETRY = 1.0
#: Seconds without refused commands after which the next one is logged again.
QUIET = 60.0
#: Codes of error responses that are about the state of Redis, not about the command.
TROUBLES = {
    *("OOM", "READONLY", "LOADING", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN", "MISCONF", "NOAUTH", "NOPERM"),
    *("BUSY", "WRONGPASS", "MOVED", "ASK", "TRYAGAIN", "UNBLOCKED"),
}
#: Codes that redis-py leaves out of the texts of its errors.
CODES = {
    "AskError": "ASK",
    "ClusterDownError": "CLUSTERDOWN",
    "MasterDownError": "MASTERDOWN",
    "MovedError": "MOVED",
    "NoPermissionError": "NOPERM",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "TryAgainError": "TRYAGAIN",
}

log = Log("carrel")


async def connect(address: Address) -> Any:
    """Connect, load the scripts, and return the connection.

    Raises:
        StoreUnavailable: Redis cannot be reached, or refuses the password.
    """
    from redis.exceptions import AuthenticationError

    connection = None
    try:
        async with asyncio.timeout(2 * PATIENCE):
            connection = await address.open()
            await send(connection, [("SCRIPT", "LOAD", script.source) for script in SCRIPTS])
            for _ in SCRIPTS:
                await connection.read_response()
    except BaseException as error:
        if connection is not None:
            await disconnect(connection)
        if isinstance(error, AuthenticationError) or "username-password pair" in str(error):
            raise StoreUnavailable("it refuses the user or the password") from None
        if not isinstance(error, Exception) or isinstance(error, (ConfigError, StoreUnavailable)):
            raise
        raise StoreUnavailable(explain(error)) from None
    return connection


def code_of(error: Exception) -> str:
    """Return the code of an error response."""
    return CODES.get(type(error).__name__) or str(error).partition(" ")[0]


class Command:
    """A command that waits to be sent."""

    __slots__ = ("moved", "parts", "reply", "size")

    def __init__(self, parts: tuple[Any, ...], reply: asyncio.Future[Any]) -> None:
        self.parts = parts
        self.reply = reply
        self.moved = False
        """Whether the command has been sent to a server that no longer has the store."""
        self.size = sum(len(part) if isinstance(part, (bytes, str)) else 8 for part in parts)

    def fail(self, error: Exception) -> None:
        """Pass an error to the caller, if the caller still waits."""
        if not self.reply.done():
            self.reply.set_exception(error)
            self.reply.exception()  # asyncio does not log an error that no caller retrieves


class RedisClient:
    """Sends commands in pipelines, and reconnects."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._waiting: deque[Command] = deque()
        self._bytes = 0
        self._wake = asyncio.Event()
        self._connection: Any = None
        self._busy = False
        self._trouble: str | None = None
        """Why commands fail at once."""
        self._refused_at = -math.inf
        """When Redis last refused a command."""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect.

        Raises:
            ConfigError: Redis cannot be reached, or refuses the password.
        """
        try:
            self._connection = await connect(self.address)
        except StoreUnavailable as error:
            raise ConfigError(f"{self.address.shown} cannot be used: {error}") from None
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Disconnect. Waiting commands fail."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._connection is not None:
            await disconnect(self._connection)
        self._fail(StoreUnavailable("the server is stopping"))

    def submit(self, *parts: Any) -> asyncio.Future[Any]:
        """Return the future response of a command, sent after all earlier ones."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        command = Command(parts, reply)
        trouble = self._trouble
        if trouble is None and self._bytes + command.size > MAX_WAITING and self._waiting:
            trouble = f"more than {MAX_WAITING} bytes of commands wait"
        if trouble is not None:
            command.fail(StoreUnavailable(trouble))
        else:
            self._waiting.append(command)
            self._bytes += command.size
            self._wake.set()
        return reply

    async def call(self, *parts: Any) -> Any:
        """Return the response to a command.

        Raises:
            StoreUnavailable: Redis cannot be reached, or refuses to work; the command may have had an effect.
        """
        return await self.submit(*parts)

    async def run(self, script: Script, keys: list[str], *arguments: Any) -> Any:
        """Return the result of a script.

        Raises:
            StoreUnavailable: Redis cannot be reached, or refuses to work; the script may have had an effect.
        """
        from redis.exceptions import NoScriptError

        try:
            return await self.submit("EVALSHA", script.digest, len(keys), *keys, *arguments)
        except NoScriptError:  # SCRIPT FLUSH
            return await self.submit("EVAL", script.source, len(keys), *keys, *arguments)

    def check(self) -> None:
        """Reconnect before the next command, because the other connection was lost."""
        if not self._busy and self._connection is not None:
            connection, self._connection = self._connection, None
            asyncio.get_running_loop().create_task(disconnect(connection))
            self._wake.set()

    async def _run(self) -> None:
        while True:
            if self._connection is None:
                await self._reconnect()
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            self._busy = True
            try:
                await self._send(self._take())
            finally:
                self._busy = False

    def _take(self) -> list[Command]:
        batch: list[Command] = []
        size = 0
        while self._waiting and len(batch) < MAX_PIPELINE and (not batch or size < MAX_PIPELINE_BYTES):
            command = self._waiting.popleft()
            size += command.size
            batch.append(command)
        self._bytes -= size
        return batch

    async def _send(self, batch: list[Command]) -> None:
        from redis.exceptions import ResponseError

        answered = 0
        moved: list[Command] = []
        failure: BaseException | None = None
        try:
            await self._within_patience(send(self._connection, [command.parts for command in batch]))
            for command in batch:
                try:
                    reply = await self._within_patience(self._connection.read_response(disconnect_on_error=False))
                except ResponseError as error:
                    if code_of(error) in self.address.elsewhere and not command.moved:
                        command.moved = True
                        moved.append(command)
                    else:
                        self._refuse(command, error)
                else:
                    if not command.reply.done():
                        command.reply.set_result(reply)
                answered += 1
        except Exception as error:  # also a ValueError of redis-py, for a response that is not one
            failure = StoreUnavailable(explain(error))
        except BaseException as error:
            failure = error
            raise
        finally:
            if moved:
                self._waiting.extendleft(reversed(moved))
                self._bytes += sum(command.size for command in moved)
            if moved or failure is not None:
                connection, self._connection = self._connection, None
                await disconnect(connection)
            if failure is not None:
                for command in batch[answered:]:
                    command.fail(StoreUnavailable(str(failure)))

    @staticmethod
    async def _within_patience(operation: Any) -> Any:
        async with asyncio.timeout(PATIENCE):
            return await operation

    def _refuse(self, command: Command, error: Exception) -> None:
        """Pass an error response to the caller. Log the first of a series of errors about the state of Redis."""
        raised, code, text = error, code_of(error), str(error)
        if code in TROUBLES:
            if not text.startswith(code):
                text = f"{code} {text}"
            raised = StoreUnavailable(text)
            now = time.monotonic()
            if now - self._refused_at > QUIET:
                log.error("%s refuses to store the state of sessions and tasks: %s", self.address.shown, text)
            self._refused_at = now
        command.fail(raised)

    async def _reconnect(self) -> None:
        """Connect again. After ``PATIENCE`` seconds, waiting commands fail, and new commands fail at once."""
        loop = asyncio.get_running_loop()
        begun, wait = loop.time(), RETRY
        while True:
            attempt = asyncio.create_task(connect(self.address))
            try:
                while not (await asyncio.wait({attempt}, timeout=RETRY))[0]:
                    self._give_up(begun, "it does not respond")
                self._connection = attempt.result()
                break
            except StoreUnavailable as error:
                self._give_up(begun, str(error))
            finally:
                if self._connection is None:
                    attempt.cancel()
                    for left in await asyncio.gather(attempt, return_exceptions=True):
                        if not isinstance(left, BaseException):
                            await disconnect(left)
            await asyncio.sleep(wait)
            wait = (
                min(2 * wait, MAX_RETRY, max(RETRY, begun + PATIENCE - loop.time())) if not self._trouble else MAX_RETRY
            )
        if self._trouble is not None:
            self._trouble = None
            log.warning("%s can be reached again", self.address.shown)

    def _give_up(self, begun: float, reason: str) -> None:
        if self._trouble is None and asyncio.get_running_loop().time() >= begun + PATIENCE:
            self._trouble = reason
            log.error(
                "%s cannot be reached: %s. Requests that need the shared state get status 503 until it is back",
                self.address.shown,
                reason,
            )
            self._fail(StoreUnavailable(reason))

    def _fail(self, error: StoreUnavailable) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._bytes = 0
        for command in waiting:
            command.fail(error)
