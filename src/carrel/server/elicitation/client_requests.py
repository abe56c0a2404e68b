"""Requests of a handler to the client: form and URL mode elicitation, sampling, and roots.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
https://modelcontextprotocol.io/specification/2026-07-28/client/roots
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import msgspec

from carrel.errors import MissingCapability
from carrel.log import Log
from carrel.uri.parse import UriError, parse
from carrel.wire.base import prepared
from carrel.wire.client_features import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    ElicitResult,
    ListRootsParams,
    ListRootsResult,
    SamplingDetails,
    SamplingMessage,
    ToolResultContent,
    ToolUseContent,
    blocks_of,
    find_imbalance,
)
from carrel.wire.content import AudioContent, TextContent

if TYPE_CHECKING:
    from carrel.protocol.revision import Revision
    from carrel.protocol.server import Call
    from carrel.wire.base import ClientCapabilities

__all__ = [
    "ClientRequest",
    "Elicited",
    "check",
    "form_elicitation",
    "roots_request",
    "sampling_request",
    "url_elicitation",
]

log = Log("carrel")

T = TypeVar("T")

#: Errors in the tool uses and tool results of sampling messages.
IMBALANCES = {
    "mixed": "a message with results of tools holds nothing else",
    "missing": "every use of a tool is followed by one message with the results of all of them",
    "open": "the uses of tools in the last message have no results yet",
}
#: Hosts whose pages need no https:, because they are on this machine.
LOCAL = ("localhost", "127.0.0.1", "::1")


class ClientRequest(msgspec.Struct, frozen=True):
    """A request to the client: operation, parameters, required capabilities, and the function that decodes the answer.

    ``read`` raises ValueError if the answer is not valid. The request is then repeated for a user (``again``), but not
    for a program, which would answer the same and may cost money.
    """

    operation: str
    params: ElicitParams | CreateMessageParams | ListRootsParams
    capabilities: dict[str, Any]
    read: Callable[[Any], Any]
    again: bool = True


class Capable(Protocol):
    """Context of a request, as far as it gives the client's capabilities."""

    _call: Call
    _lacking: dict[str, Any] | None

    @property
    def capabilities(self) -> ClientCapabilities:
        """Capabilities that the client declared."""

    @property
    def revision(self) -> str:
        """Protocol revision that the client speaks."""


async def check(context: Capable, requests: Iterable[ClientRequest]) -> None:
    """Check that the client declared the capabilities that server requests need.

    Raises:
        MissingCapability: the client did not declare a capability. The error names all missing capabilities, including
            those of concurrent requests.
    """
    declared = msgspec.to_builtins(context.capabilities)
    if "url" not in declared.get("elicitation", ("url",)):
        declared["elicitation"]["form"] = {}  # the default without any mode
    missing: dict[str, Any] = {}
    known = True
    for request in requests:
        if request.operation in context._call.peer.revision.server_requests:
            _merge(missing, _undeclared(declared, request.capabilities))
        else:
            known = False
            _merge(missing, request.capabilities)
    if not missing:
        return
    together = context._lacking = {} if context._lacking is None else context._lacking
    _merge(together, missing)
    await asyncio.sleep(0)
    if context._lacking is together:
        context._lacking = None
    error = MissingCapability(together)
    if known:
        error.args = (f"The client does not offer {_dotted(together)}",)
    else:
        error.args = (f"A client of the revision {context.revision} does not support this request",)
    raise error


def _merge(all: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, inner in more.items():
        _merge(all.setdefault(name, {}), inner)


def _dotted(needed: Mapping[str, Any]) -> str:
    return " and ".join(
        " and ".join(f"{name}.{part}" for part in _dotted(inner).split(" and ")) if inner else name
        for name, inner in needed.items()
    )


def _undeclared(declared: Any, needed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the capabilities that are needed and not declared."""
    known = declared if isinstance(declared, dict) else {}
    missing: dict[str, Any] = {}
    for name, inner in needed.items():
        if name not in known:
            missing[name] = inner
        elif lacking := _undeclared(known[name], inner):
            missing[name] = lacking
    return missing


class Elicited(msgspec.Struct, Generic[T], frozen=True):
    """Result of an elicitation. ``data`` is the filled-in form, and None unless ``action`` is "accept"."""

    action: Literal["accept", "decline", "cancel"]
    data: T | None = None
    id: str | None = None
    """Id of a URL mode elicitation, for ``Context.elicitation_completed``."""

    @property
    def accepted(self) -> bool:
        """Whether the user agreed."""
        return self.action == "accept"


def form_elicitation(message: str, kind: Any) -> ClientRequest:
    """Return the request of a form mode elicitation. See ``Context.elicit``."""
    from carrel.server.elicitation.forms import form_of

    form = form_of(kind)

    def read(answer: Any) -> Elicited[Any]:
        result = msgspec.convert(answer, ElicitResult)
        if result.action != "accept":
            return Elicited(result.action)
        return Elicited(result.action, form.read(result.content or {}))

    params = ElicitParams(message=message, requested_schema=form.schema)
    return ClientRequest("elicit_several" if form.several else "elicit", params, {"elicitation": {"form": {}}}, read)


def url_elicitation(message: str, url: str, revision: Revision) -> ClientRequest:
    """Return the request of a URL mode elicitation. See ``Context.elicit_url``.

    Raises:
        ValueError: the URL is neither https: nor, on this machine, http:; or it hides its real host.
    """
    check_page(url)
    id = None if revision.stateless else os.urandom(16).hex()
    params = ElicitParams(mode="url", message=message, url=url, elicitation_id=id)
    return ClientRequest(
        "elicit_page",
        params,
        {"elicitation": {"url": {}}},
        lambda answer: Elicited(msgspec.convert(answer, ElicitResult).action, None, id),
    )


def check_page(url: str) -> None:
    """Check the URL of a page for a user to visit.

    Raises:
        ValueError: it is neither https: nor, on this machine, http:; or it hides its real host.
    """
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in LOCAL):
        raise ValueError("the page of an elicitation must be at an https: URL")
    odd = any(character <= " " or character > "~" or character == "\\" for character in url)
    if odd or not parts.hostname or parts.username is not None:
        raise ValueError("the URL of a page must have a host, no user name or password, and be percent-encoded")


def sampling_request(
    messages: str | SamplingMessage | Sequence[str | SamplingMessage],
    max_tokens: int,
    details: SamplingDetails,
    revision: Revision,
) -> ClientRequest:
    """Return the sampling request of some messages. See ``Context.sample``.

    Raises:
        ValueError: results of tools are mixed with other content, or do not follow their uses.
    """
    several = [messages] if isinstance(messages, str | SamplingMessage) else messages
    params = CreateMessageParams(
        messages=[
            SamplingMessage("user", TextContent(message)) if isinstance(message, str) else message
            for message in several
        ],
        max_tokens=max_tokens,
        **details,
    )
    return checked_sampling(params, revision)


def checked_sampling(params: CreateMessageParams, revision: Revision) -> ClientRequest:
    """Return the sampling request with some parameters, whose messages are checked.

    Raises:
        ValueError: results of tools are mixed with other content, or do not follow their uses.
    """
    blocks = [block for message in params.messages for block in blocks_of(message)]
    imbalance = find_imbalance(params.messages)
    if imbalance is not None:
        raise ValueError(IMBALANCES[imbalance])
    capabilities: dict[str, Any] = {}
    operation = "sample"
    if any(isinstance(block, AudioContent) for block in blocks):
        operation = "sample_with_audio"
    if (
        params.tools is not None
        or params.tool_choice is not None
        or any(isinstance(block, ToolUseContent | ToolResultContent) for block in blocks)
    ):
        operation = "sample_with_tools"
        capabilities["tools"] = {}
    if params.include_context not in (None, "none") and "sample_with_tools" in revision.server_requests:
        capabilities["context"] = {}  # before sampling had sub-capabilities, every client supported it
    kind = prepared(CreateMessageResult)
    return ClientRequest(
        operation, params, {"sampling": capabilities}, lambda answer: msgspec.convert(answer, kind), again=False
    )


def roots_request() -> ClientRequest:
    """Return a roots/list request. See ``Context.roots``."""
    return ClientRequest("list_roots", ListRootsParams(), {"roots": {}}, read_roots, again=False)


def read_roots(answer: Any) -> ListRootsResult:
    """Return the roots of an answer. Those that are no ``file:`` URIs are logged and left out.

    https://modelcontextprotocol.io/specification/2026-07-28/client/roots#root
    """
    return with_file_roots(msgspec.convert(answer, prepared(ListRootsResult)))


def with_file_roots(result: ListRootsResult) -> ListRootsResult:
    for root in result.roots:
        if not is_file_uri(root.uri):
            log.warning("the client's root %s is ignored: a root has to be a file: URI", root.uri)
    result.roots = [root for root in result.roots if is_file_uri(root.uri)]
    return result


def is_file_uri(uri: str) -> bool:
    try:
        return parse(uri).scheme.lower() == "file"
    except UriError:
        return False
