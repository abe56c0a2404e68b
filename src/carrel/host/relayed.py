"""Handlers that forward server requests and log messages of a remote server to the client that caused them, unchanged.

Unknown members of results and server requests are preserved.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from carrel.catalog.tool_pages import HTML
from carrel.client.causes import task_of
from carrel.client.extensions import ClientExtension
from carrel.client.handlers import (
    Form,
    Handlers,
    LogMessage,
    Origin,
    RootsRequest,
    Sampling,
    ServerRequest,
    URLElicitation,
)
from carrel.client.options import ClientOptions
from carrel.errors import MCPError, MissingCapability, ProtocolError
from carrel.host.relay import PARKED_SECONDS, Relay
from carrel.log import Log
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.extensions.ui import UI
from carrel.protocol.methods import CALL_TOOL, FETCH_TASK_RESULT, GET_PROMPT, READ_RESOURCE
from carrel.wire.client_features import CreateMessageResult, ElicitResult, ListRootsResult, ServerRequestParams

__all__ = ["OWN_META", "RELAYED", "RELAYED_EXTENSIONS", "pass_log", "relaying"]

log = Log("carrel.host")

#: Keys of ``_meta`` that belong to one connection. All other keys are forwarded.
OWN_META = (
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/logLevel",
    "io.modelcontextprotocol/related-task",
)
#: Client requests that may cause server requests.
ASKING = (CALL_TOOL, GET_PROMPT, READ_RESOURCE, FETCH_TASK_RESULT)


def relay_of(origin: Origin, **needed: Any) -> Relay:
    """Return the remote call that caused a server request or log message.

    Raises:
        ProtocolError: the client is ambiguous.
        MissingCapability: the client does not accept server requests.
    """
    calls = (origin.call,) if origin.call is not None else origin.calls
    causes = [call.user_data for call in calls if call.request in ASKING]
    relays = [cause for cause in causes if isinstance(cause, Relay)]
    if not relays:
        raise MissingCapability(needed)
    if len(relays) < len(causes) or any(relay.connection is not relays[0].connection for relay in relays):
        raise ProtocolError("Several clients have requests here, and the request does not say which one it is for")
    return relays[-1]


def client_relay(origin: Origin, **needed: Any) -> Relay:
    """Return the remote call that caused a server request, if no earlier call may have caused it.

    Raises:
        ProtocolError: the client is ambiguous.
        MissingCapability: the client does not accept server requests.
    """
    relay = relay_of(origin, **needed)
    if task_of(origin.params) is None and not relay.is_certain():
        raise ProtocolError("Several clients use this session, and the request does not say which one it is for")
    error = relay.reject(needed)
    if error is not None:
        raise error
    return relay


def pass_log(message: LogMessage, owner: Callable[[LogMessage], bool] | None = None) -> None:
    """Forward a log message to the client whose call caused it.

    If the client is unknown, call ``owner``, which forwards the message to the owner of the session and returns whether
    it did. Otherwise, write the message to the log.
    """
    try:
        relay_of(message.origin).log(message.level, message.data, message.logger)
    except MCPError:
        if owner is not None and owner(message):
            return
        logger = f" {message.logger}" if message.logger else ""
        log.debug("%s%s: %s: %s", message.server, logger, message.level, message.data)


async def forward_request(request: ServerRequest, params: ServerRequestParams, **needed: Any) -> Any:
    """Forward a server request unchanged to the client whose call caused it, and return the complete response."""
    origin = request.origin
    meta = {key: value for key, value in (params.meta or {}).items() if key not in OWN_META}
    params = msgspec.structs.replace(params, meta=meta or None)
    answer = await client_relay(origin, **needed).ask(lambda context, key: context.pass_on(params, key=key), origin.key)
    own = {key: value for key, value in (answer.meta or {}).items() if key not in OWN_META}
    return msgspec.structs.replace(answer, meta=own or None)


async def elicit_form(form: Form) -> ElicitResult:
    """Forward a form mode elicitation to the client whose call caused it."""
    answer: ElicitResult = await forward_request(form, form.origin.params, elicitation={"form": {}})
    return answer


async def elicit_url(page: URLElicitation) -> ElicitResult:
    """Forward a URL mode elicitation to the client whose call caused it."""
    relay, id = client_relay(page.origin, elicitation={"url": {}}), os.urandom(16).hex()
    params = msgspec.structs.replace(page.origin.params, elicitation_id=id)
    answer: ElicitResult = await forward_request(page, params, elicitation={"url": {}})
    context = relay.context
    if answer.action == "accept" and context is not None:
        task = asyncio.ensure_future(page.completed.wait())
        task.add_done_callback(lambda done: None if done.cancelled() else context.elicitation_completed(id))
        asyncio.get_running_loop().call_later(PARKED_SECONDS, task.cancel)
    return answer


async def sample(sampling: Sampling) -> CreateMessageResult:
    """Forward a sampling request to the client whose call caused it."""
    answer: CreateMessageResult = await forward_request(sampling, sampling.origin.params, sampling={})
    return answer


async def list_roots(request: RootsRequest) -> ListRootsResult:
    """Request the roots from the client whose call caused the server's roots request."""
    answer: ListRootsResult = await forward_request(request, request.origin.params, roots={})
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
"""Handlers that forward server requests and log messages to the client whose request caused them."""
RELAYED_EXTENSIONS = (TASKS, UI)
"""Extensions to forward: declared to remote servers, and by servers with relayed providers to their clients."""
#: Settings of the UI extension to declare to servers with sessions, as some of the clients may show pages of tools.
PAGES: Mapping[str, Any] = {"mimeTypes": [HTML]}


def relaying(options: ClientOptions) -> ClientOptions:
    """Add the extension ``Relaying`` to the options of a client if its handlers are ``RELAYED``."""
    if options.get("handlers") is not RELAYED:
        return options
    return {**options, "extensions": (*options.get("extensions", ()), Relaying(UI, settings=PAGES))}


class Relaying(ClientExtension):
    """Extension of a client whose server requests and list entries are forwarded, including unknown members."""

    def connected(self) -> None:
        """Preserve unknown members of server requests and list entries on the new connection."""
        connection = self.session.connection
        if connection is not None:
            connection.connection.keeps = True
