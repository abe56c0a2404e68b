"""Questions and log messages of a remote server: passed on to the client whose request has caused them, as they came.

Results of the server, and what it asks, keep the members that are not known here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from carrel.client.extensions import ClientExtension
from carrel.client.handlers import (
    Form,
    Handlers,
    LogMessage,
    Origin,
    Page,
    RootsRequest,
    Sampling,
    ServerRequest,
)
from carrel.client.options import ClientOptions
from carrel.errors import InvalidMessage, MCPError, MissingCapability, ProtocolError
from carrel.host.relay import PARKED_SECONDS, Relay
from carrel.log import Log
from carrel.protocol import unknown
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.extensions.ui import UI
from carrel.protocol.methods import CALL_TOOL, FETCH_TASK_RESULT, GET_PROMPT, READ_RESOURCE
from carrel.server.apps import HTML
from carrel.wire.client_features import CreateMessageResult, ElicitResult, ListRootsResult, QuestionParams

__all__ = ["OWN_META", "RELAYED", "RELAYED_EXTENSIONS", "pass_log", "relaying"]

log = Log("carrel.host")

SERVER_INFO = "io.modelcontextprotocol/serverInfo"
#: Keys of ``_meta`` that belong to one connection. All others are passed on.
OWN_META = (
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/related-task",
)
#: Requests that may cause questions.
ASKING = (CALL_TOOL, GET_PROMPT, READ_RESOURCE, FETCH_TASK_RESULT)


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
    refusal = relays[-1].refuse(needed)
    if refusal is not None:
        raise refusal
    return relays[-1]


def pass_log(message: LogMessage, owner: Callable[[LogMessage], bool] | None = None) -> None:
    """Pass a log message on to the client whose call has caused it.

    Where that is not known, it goes to the ``owner`` of the session, which returns whether it was passed on; else to
    the log.
    """
    try:
        relay_of(message.origin).log(message.level, message.data, message.logger)
    except MCPError:
        if owner is not None and owner(message):
            return
        logger = f" {message.logger}" if message.logger else ""
        log.debug("%s%s: %s: %s", message.server, logger, message.level, message.data)


async def pass_question(question: ServerRequest, params: QuestionParams, **needed: Any) -> Any:
    """Put a question to the client whose call has caused it, as it came, and return its whole answer."""
    origin = question.origin
    meta = {key: value for key, value in (params.meta or {}).items() if key not in OWN_META}
    params = msgspec.structs.replace(params, meta=meta or None)
    answer = await relay_of(origin, **needed).ask(lambda context, key: context.pass_on(params, key=key), origin.key)
    own = {key: value for key, value in (answer.meta or {}).items() if key not in OWN_META}
    return msgspec.structs.replace(answer, meta=own or None)


async def elicit_form(form: Form) -> ElicitResult:
    """Ask the client whose call has caused it to fill in a form."""
    answer: ElicitResult = await pass_question(form, form.origin.params, elicitation={"form": {}})
    return answer


async def elicit_url(page: Page) -> ElicitResult:
    """Ask the client whose call has caused it to visit a page."""
    relay, id = relay_of(page.origin, elicitation={"url": {}}), os.urandom(16).hex()
    params = msgspec.structs.replace(page.origin.params, elicitation_id=id)
    answer: ElicitResult = await pass_question(page, params, elicitation={"url": {}})
    context = relay.context
    if answer.action == "accept" and context is not None:
        task = asyncio.ensure_future(page.completed.wait())
        task.add_done_callback(lambda done: None if done.cancelled() else context.elicitation_completed(id))
        asyncio.get_running_loop().call_later(PARKED_SECONDS, task.cancel)
    return answer


async def sample(sampling: Sampling) -> CreateMessageResult:
    """Ask the model of the client whose call has caused it."""
    answer: CreateMessageResult = await pass_question(sampling, sampling.origin.params, sampling={})
    return answer


async def list_roots(request: RootsRequest) -> ListRootsResult:
    """Return the roots of the client whose call has caused it."""
    answer: ListRootsResult = await pass_question(request, request.origin.params, roots={})
    return answer


RELAYED = Handlers(
    elicit_form=elicit_form,
    elicit_url=elicit_url,
    sample=sample,
    sample_tools=True,
    roots=list_roots,
    log=pass_log,
    together=True,
    untouched=True,
)
"""Handlers that pass the questions of a remote server to the client whose request has caused them."""
RELAYED_EXTENSIONS = (TASKS, UI)
"""Extensions that are passed on: clients declare them to remote servers, and servers that use these to clients."""
#: What clients declare that show the pages of tools: for a server with sessions, some of those that it is for may.
PAGES: Mapping[str, Any] = {"mimeTypes": [HTML]}


def relaying(options: ClientOptions) -> ClientOptions:
    """Return the options of a client with the extensions that it declares if its handlers are ``RELAYED``."""
    if options.get("handlers") is not RELAYED:
        return options
    return {**options, "extensions": (*options.get("extensions", ()), Relaying(UI, settings=PAGES))}


class Relaying(ClientExtension):
    """Extension of a client whose results are passed on, with the members that are not known here."""

    def connected(self) -> None:
        """Keep them, of all that comes on the new connection."""
        connection = self.session.connection
        if connection is not None:
            connection.connection.keeps = kept


def kept(read: Callable[[Raw], Any], raw: Raw) -> Any:
    """Return a result with what its type does not know, and without the name of its server.

    Raises:
        InvalidMessage: it cannot be decoded.
    """
    foreign: dict[str, Any] | None = None
    try:
        result = read(raw)
    except InvalidMessage:
        without = unknown.without_foreign_blocks(raw)
        if without is None:
            raise
        raw, foreign = without
        result = read(raw)
    meta = getattr(result, "meta", UNSET)
    if meta is UNSET:
        return result
    found = unknown.find_raw(result, raw)
    if foreign is not None:
        found = unknown.joined(found or {}, foreign)
    if meta is not None and SERVER_INFO in meta:
        rest = {key: value for key, value in meta.items() if key != SERVER_INFO}
        result = msgspec.structs.replace(result, meta=rest or None)
    return result if found is None else unknown.attach(result, found)
