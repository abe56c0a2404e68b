"""Requests to a remote server on behalf of a client's request: its questions and progress go to that client."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

import msgspec

from carrel.catalog.provider import Request, RequestContext
from carrel.errors import MissingCapability
from carrel.server.elicitation.input_required import InputRequired
from carrel.server.task_interface import task_of
from carrel.wire.base import LoggingLevel

__all__ = ["PARKED_SECONDS", "RELAY", "Relay", "Relays"]

T = TypeVar("T")
Ask = Callable[[RequestContext, str], Awaitable[Any]]

#: Seconds that a remote call waits for a stateless client to come back with the answer to a question.
PARKED_SECONDS = 600.0
#: How many remote calls wait for stateless clients at a time.
MAX_PARKED = 1000
#: How many reports and log messages of a call that waits are kept for its client, the latest.
MAX_KEPT = 100


RELAY: ContextVar[Relay | None] = ContextVar("relay", default=None)
"""The remote call in progress, for credentials that have to ask its client."""


class Asked(msgspec.Struct, eq=False):
    """Question of a remote server that the client has yet to answer."""

    key: str
    ask: Ask
    answer: asyncio.Future[Any]


class Relay:
    """Remote call on behalf of one request of a client, over all of its rounds (2026-07-28).

    In revisions with sessions there is one round: the call is awaited where it is sent, and questions are put at once.
    """

    def __init__(self, label: str, connection: object) -> None:
        self.connection = connection
        """Connection of the client, which tells clients apart."""
        self.context: RequestContext | None = None
        self._label = label
        self._count = 0
        self._open: list[Asked] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None
        self._asking: set[asyncio.Future[Any]] = set()
        self._kept: deque[Callable[[RequestContext], object]] = deque(maxlen=MAX_KEPT)
        self._keys: set[str] = set()
        self._detaches = self._detached = False
        self.missing: MissingCapability | None = None
        """What the client would have needed for a question that was not put to it."""

    def begin(self, work: Awaitable[Any]) -> None:
        """Begin the remote call."""
        self._task = asyncio.ensure_future(work)
        self._task.add_done_callback(lambda _: self._news.set())

    async def result(self, context: RequestContext) -> Any:
        """Return the result of the remote call, and put its questions to the client meanwhile.

        Raises:
            InputRequired: the client is stateless, and has to come back with answers.
        """
        assert self._task is not None
        self.context = context
        while self._kept:
            self._kept.popleft()(context)
        while not self._task.done():
            if self._detaches and not self._detached:
                self._detached = await context.detach()
                self._detaches = self._detached
            if self._open:
                await self._put(self._open, context)
            else:
                self._news.clear()
                await self._news.wait()
        return self._task.result()

    def detach(self) -> None:
        """Turn the request of the client into a task, as the remote server has done."""
        self._detaches = True
        self._news.set()

    def _key_of(self, key: str | None) -> str:
        """Return the key of a question: that of the server, if it is the first with it, or one by its number."""
        self._count += 1
        if key is None:
            key = f"{self._label}-{self._count}"
        elif key in self._keys:
            key = f"{key}-{self._count}"
        self._keys.add(key)
        return key

    async def ask(self, ask: Ask, key: str | None = None) -> Any:
        """Put a question to the client, and return the answer. ``key`` is that of the server, if it has one."""
        try:
            return await self._ask(ask, self._key_of(key))
        except MissingCapability as missing:
            self.missing = missing
            raise

    def refuse(self, needed: dict[str, Any]) -> MissingCapability | None:
        """Return the error for a question, if the client can be asked nothing."""
        if self._task is None and self.context is None:
            self.missing = MissingCapability(needed)
            return self.missing
        return None

    async def _ask(self, ask: Ask, key: str) -> Any:
        if self._task is None or self._detached:
            assert self.context is not None
            asking = asyncio.ensure_future(ask(self.context, key))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
            return await asking
        asked = Asked(key, ask, asyncio.get_running_loop().create_future())
        self._open.append(asked)
        self._news.set()
        try:
            return await asked.answer
        finally:
            if asked in self._open:
                self._open.remove(asked)

    async def _put(self, asked: Sequence[Asked], context: RequestContext) -> None:
        """Put open questions to the client, all at once, until it answers or the remote server has no use for that.

        Raises:
            InputRequired: the client is stateless, and has yet to answer some of them.
        """
        assert self._task is not None
        asked = list(asked)
        asking = [asyncio.ensure_future(each.ask(context, each.key)) for each in asked]
        put = asyncio.gather(*asking, return_exceptions=True)
        try:
            await asyncio.wait((put, self._task, *(each.answer for each in asked)), return_when=asyncio.FIRST_COMPLETED)
            required: InputRequired | None = None
            for each, answer in zip(asked, asking, strict=True):
                if not answer.done() or answer.cancelled():
                    continue
                error = answer.exception()
                if isinstance(error, InputRequired):
                    required = error
                    continue
                if error is not None and not each.answer.done():
                    each.answer.set_exception(error)
                elif error is None and not each.answer.done():
                    each.answer.set_result(answer.result())
                self._open.remove(each)
            if required is not None:
                raise required
        finally:
            put.cancel()
            await asyncio.wait(asking)

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass progress on to the client."""
        self._pass_on(lambda context: context.report_progress(progress, total, message))

    def log(self, level: LoggingLevel, data: Any, logger: str | None) -> None:
        """Pass a log message on to the client, if it wants that level."""
        self._pass_on(lambda context: context.log(level, data, logger))

    def park(self) -> None:
        """Keep what the remote server reports until the client comes back."""
        self.context = None

    def _pass_on(self, send: Callable[[RequestContext], object]) -> None:
        if self.context is None:
            self._kept.append(send)
        else:
            send(self.context)

    async def cancel(self) -> None:
        """Cancel the remote call, and the questions that are still put to the client."""
        for asking in self._asking:
            asking.cancel()
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self._task is not None and not self._task.cancelled():
            self._task.exception()  # marks it as retrieved


class Relays:
    """Remote calls of one provider. Those whose client is stateless and was asked are kept until it comes back.

    The token of a call that is kept travels in the client's ``requestState``, encrypted. A replica that does not have
    the call makes it again, and answers its questions with the answers that the client has sent so far.
    """

    def __init__(self) -> None:
        self._parked: dict[str, tuple[Relay, asyncio.TimerHandle]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._parked)

    async def run(self, label: str, request: Request, send: Callable[[Relay], Awaitable[T]], *, repeatable: bool) -> T:
        """Send a remote call and return its result. ``label`` is the same each time that the request comes."""
        assert request.contexts is not None
        assert request.call is not None
        assert request.channel is not None
        async with request.contexts.open(request, repeatable=repeatable) as context:
            if not request.call.peer.revision.stateless or task_of(request.channel) is not None:
                relay = Relay(label, request.call.connection)
                relay.context = context
                try:
                    return await send(relay)
                finally:
                    await relay.cancel()
            token = await context.once(f"remote call {label}", lambda: os.urandom(16).hex())
            parked = self._take(token)
            if parked is None:
                parked = Relay(label, request.call.connection)
                parked.begin(send(parked))
            try:
                result: T = await parked.result(context)
            except InputRequired:
                self._park(token, parked)
                raise
            finally:
                if token not in self._parked:
                    await parked.cancel()
            return result

    async def drop_others(self, connection: object) -> None:
        """Cancel the calls that are kept for other clients than that of a connection.

        For servers whose questions do not say which call has caused them: those of the next call would be for nobody.
        Clients that come back have their call made again, with the answers that they have sent.
        """
        for token, (relay, _) in list(self._parked.items()):
            if relay.connection is not connection:
                self._drop(token)
        await asyncio.gather(*self._ending)

    def _take(self, token: str) -> Relay | None:
        relay, timer = self._parked.pop(token, (None, None))
        if timer is not None:
            timer.cancel()
        return relay

    def _park(self, token: str, relay: Relay) -> None:
        if len(self._parked) >= MAX_PARKED:
            self._drop(next(iter(self._parked)))
        timer = asyncio.get_running_loop().call_later(PARKED_SECONDS, self._drop, token)
        self._parked[token] = relay, timer
        relay.park()

    def _drop(self, token: str) -> None:
        relay = self._take(token)
        if relay is not None:
            task = asyncio.ensure_future(relay.cancel())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    async def stop(self) -> None:
        """Cancel the remote calls that are kept."""
        for token in list(self._parked):
            self._drop(token)
        await asyncio.gather(*self._ending, return_exceptions=True)
