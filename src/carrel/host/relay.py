"""Requests to a remote server on behalf of a client's request: its questions and progress go to that client."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from carrel.catalog.provider import Request, RequestContext
from carrel.client.handlers import Form, Handlers, Origin, Page, RootsRequest, Sampling
from carrel.errors import MissingCapability, ProtocolError
from carrel.protocol.methods import CALL_TOOL, GET_PROMPT, READ_RESOURCE
from carrel.server.elicitation.input_required import InputRequired
from carrel.wire.client_features import CreateMessageResult, ElicitResult, Root

__all__ = ["RELAYED", "Relay", "Relays"]

T = TypeVar("T")
Ask = Callable[[RequestContext, str], Awaitable[Any]]

#: Seconds that a remote call waits for a stateless client to come back with the answer to a question.
PARKED_SECONDS = 600.0
#: How many remote calls wait for stateless clients at a time.
MAX_PARKED = 1000
#: Requests that may cause questions.
ASKING = (CALL_TOOL, GET_PROMPT, READ_RESOURCE)


class Asked(msgspec.Struct, eq=False):
    """Question of a remote server that the client has yet to answer."""

    key: str
    ask: Ask
    answer: asyncio.Future[Any]


class Relay:
    """Remote call on behalf of one request of a client, over all of its rounds (2026-07-28)."""

    def __init__(self, label: str, connection: object) -> None:
        self.connection = connection
        """Connection of the client, which tells clients apart."""
        self.context: RequestContext | None = None
        self._label = label
        self._count = 0
        self._open: list[Asked] = []
        self._news = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None

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
        while not self._task.done():
            if self._open:
                await self._put(self._open[0], context)
            else:
                self._news.clear()
                await self._news.wait()
        return self._task.result()

    async def ask(self, ask: Ask) -> Any:
        """Put a question to the client, and return the answer."""
        self._count += 1
        asked = Asked(f"{self._label}-{self._count}", ask, asyncio.get_running_loop().create_future())
        self._open.append(asked)
        self._news.set()
        try:
            return await asked.answer
        finally:
            if asked in self._open:
                self._open.remove(asked)

    async def _put(self, asked: Asked, context: RequestContext) -> None:
        """Ask the client, until it answers or the remote server wants no answer any more."""
        assert self._task is not None
        asking = asyncio.ensure_future(asked.ask(context, asked.key))
        try:
            await asyncio.wait((asking, asked.answer, self._task), return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                return
            try:
                answer = asking.result()
            except Exception as error:
                if not asked.answer.done():
                    asked.answer.set_exception(error)
            else:
                if not asked.answer.done():
                    asked.answer.set_result(answer)
            self._open.remove(asked)
        finally:
            if not asking.done():
                asking.cancel()
                await asyncio.wait((asking,))

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass progress on to the client."""
        if self.context is not None:
            self.context.report_progress(progress, total, message)

    async def cancel(self) -> None:
        """Cancel the remote call."""
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

    async def run(self, label: str, request: Request, send: Callable[[Relay], Awaitable[T]], *, repeatable: bool) -> T:
        """Send a remote call and return its result. ``label`` is the same each time that the request comes."""
        assert request.contexts is not None
        assert request.call is not None
        async with request.contexts.open(request, repeatable=repeatable) as context:
            token = await context.once(f"remote call {label}", lambda: os.urandom(16).hex())
            relay = self._take(token)
            if relay is None:
                relay = Relay(label, request.call.connection)
                relay.begin(send(relay))
            try:
                result: T = await relay.result(context)
            except InputRequired:
                self._park(token, relay)
                raise
            finally:
                if token not in self._parked:
                    await relay.cancel()
            return result

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


def relay_of(origin: Origin, **needed: Any) -> Relay:
    """Return the remote call that has caused a question.

    Raises:
        ProtocolError: it is not known which client to ask.
        MissingCapability: that client cannot be asked anything.
    """
    calls = (origin.call,) if origin.call is not None else origin.calls
    causes = [call.user_data for call in calls if call.request in ASKING]
    relays = [cause for cause in causes if isinstance(cause, Relay)]
    if not relays:
        raise MissingCapability(needed)
    if len(relays) < len(causes) or any(relay.connection is not relays[0].connection for relay in relays):
        raise ProtocolError("Several clients have requests here, and the question does not say which one it is for")
    return relays[-1]


async def elicit_form(form: Form) -> ElicitResult:
    """Ask the client whose call has caused it to fill in a form."""
    relay = relay_of(form.origin, elicitation={"form": {}})
    answer = await relay.ask(lambda context, key: context.elicit(form.message, form.schema, key=key))
    if answer.action != "accept":
        return ElicitResult(action=answer.action)
    return ElicitResult(action="accept", content=answer.data or {})


async def elicit_url(page: Page) -> ElicitResult:
    """Ask the client whose call has caused it to visit a page."""
    relay = relay_of(page.origin, elicitation={"url": {}})
    answer = await relay.ask(lambda context, key: context.elicit_url(page.message, page.url, key=key))
    context = relay.context
    if answer.accepted and answer.id is not None and context is not None:
        task = asyncio.ensure_future(page.completed.wait())
        task.add_done_callback(lambda done: None if done.cancelled() else context.elicitation_completed(answer.id))
        asyncio.get_running_loop().call_later(PARKED_SECONDS, task.cancel)
    return ElicitResult(action=answer.action)


async def sample(sampling: Sampling) -> CreateMessageResult:
    """Ask the model of the client whose call has caused it."""
    given = {name: getattr(sampling, name) for name in DETAILS}
    details = {name: value for name, value in given.items() if value is not None}
    found: CreateMessageResult = await relay_of(sampling.origin, sampling={}).ask(
        lambda context, key: context.sample(sampling.messages, sampling.max_tokens, key=key, **details)
    )
    return found


async def list_roots(request: RootsRequest) -> list[Root]:
    """Return the roots of the client whose call has caused it."""
    roots: list[Root] = await relay_of(request.origin, roots={}).ask(lambda context, key: context.list_roots(key=key))
    return roots


DETAILS = tuple(name for name in Sampling.__struct_fields__ if name not in ("origin", "messages", "max_tokens"))
RELAYED = Handlers(elicit_form=elicit_form, elicit_url=elicit_url, sample=sample, sample_tools=True, roots=list_roots)
"""Handlers that pass the questions of a remote server to the client whose request has caused them."""
