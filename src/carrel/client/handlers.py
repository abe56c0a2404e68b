"""Handlers of server requests: elicitation (form and URL mode), sampling and roots; and the calls that cause them.

Each handler gets one object with the request, the server, and the client's call that caused it.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
https://modelcontextprotocol.io/specification/2026-07-28/client/roots
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec

from carrel.protocol.methods import RequestType
from carrel.wire.base import ClientCapabilities, Id, LoggingLevel, Params, Result
from carrel.wire.client_features import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    ModelPreferences,
    Root,
    SamplingMessage,
    ToolChoice,
)
from carrel.wire.tools import Tool

__all__ = [
    "ClientCall",
    "Form",
    "FormHandler",
    "Handlers",
    "HeaderSource",
    "Origin",
    "PageHandler",
    "Progress",
    "Roots",
    "RootsRequest",
    "RootsSource",
    "SampleHandler",
    "Sampling",
    "ServerRequest",
    "URLElicitation",
    "ascii_host",
]

R = TypeVar("R", bound=Result)

#: An IPv4 address in dotted-decimal form; browsers accept many other forms of the same number.
PLAIN_ADDRESS = re.compile(r"(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})")

#: Progress callback: progress, total (None: not known), and message (None: none).
Progress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None] | None]


class HeaderSource(Protocol):
    """HTTP headers of a call that mirror its parameters (stateless Streamable HTTP)."""

    def headers(self) -> Mapping[str, str]:
        """Return the headers. Called each time the request is sent."""

    async def refresh(self) -> None:
        """Fetch the required headers again, because the server rejected the headers of the call."""


class ClientCall(msgspec.Struct, Generic[R], eq=False):
    """A request of a client and its options. Handlers of server requests get the call that caused them.

    ``request`` is the row of the method, such as ``carrel.protocol.methods.CALL_TOOL``; ``result`` is the type of the
    result, None for the method's default.
    """

    request: RequestType[Any, R]
    params: Params
    timeout: float | None = None
    """Seconds until the request times out; None for the timeout of the client, ``math.inf`` for no limit."""
    progress: Progress | None = None
    meta: Mapping[str, Any] | None = None
    handlers: Handlers | None = None
    """Handlers that replace the client's handlers for server requests that this call causes."""
    user_data: object = None
    """Arbitrary value of the caller."""
    headers: HeaderSource | None = None
    repeatable: bool = False
    """Whether the request may be retried although it may have been delivered."""
    id: Id | None = None
    """Id of the request, which is new each time it is sent."""
    rounds: int = 0
    """Number of ``InputRequiredResult``s so far (multi round-trip requests)."""
    result: type[Result] | None = None
    capabilities: ClientCapabilities | None = None
    """Capabilities to declare with this request, a subset of the client's capabilities (stateless revisions)."""
    whole: bool = False
    """Whether the result is a ``PassedResult``: decoded, and as it was received."""
    size: int = 0
    """Size of the last response, in bytes."""

    @property
    def operation(self) -> str:
        """Carrel's name of the method, such as "call_tool"."""
        return self.request.operation

    @property
    def method(self) -> str:
        """The name of the method on the wire, such as "tools/call"."""
        return self.request.method


class Origin(msgspec.Struct, frozen=True):
    """Origin of a server request: the server's display name, and the client's calls.

    ``call`` is the call that caused the request, or None if unknown: with several calls in flight on stdio, a server
    request does not name its call. ``calls`` are the possible calls. ``key`` is the server's key of the request, if
    present (input requests of calls and tasks, since 2026-07-28). ``params`` are the parameters of the request, with
    ``_meta``.
    """

    server: str
    call: ClientCall[Any] | None = None
    calls: tuple[ClientCall[Any], ...] = ()
    key: str | None = None
    params: Any = None


class ServerRequest(msgspec.Struct, frozen=True):
    """Base class of the requests that handlers answer."""

    origin: Origin

    @property
    def server(self) -> str:
        """The name of the server, to be shown to a user: the name that it declares, and its URL or command."""
        return self.origin.server

    @property
    def call(self) -> ClientCall[Any] | None:
        """The call of the client that caused the request; None if it is not known. See ``Origin``."""
        return self.origin.call

    @property
    def calls(self) -> tuple[ClientCall[Any], ...]:
        """The calls of the client that may have caused the request."""
        return self.origin.calls


class Form(ServerRequest, frozen=True):
    """Form-mode elicitation: a form that a server asks the user to fill in."""

    message: str
    schema: dict[str, Any]
    """A JSON Schema of an object whose properties are text, numbers, booleans and choices."""

    @property
    def fields(self) -> dict[str, Any]:
        """The schemas of the fields, by name."""
        fields: dict[str, Any] = self.schema.get("properties", {})
        return fields

    @property
    def defaults(self) -> dict[str, Any]:
        """Default values by field, which fill in fields that the handler's content omits."""
        return {name: field["default"] for name, field in self.fields.items() if "default" in field}


class URLElicitation(ServerRequest, frozen=True):
    """URL-mode elicitation: a page that a server asks the user to visit.

    Show the whole ``url`` and let the user decide; never open it without consent, and never fetch it.
    ``completed`` is set when the server notifies that the elicitation is complete, if it ever does.
    """

    message: str
    url: str
    completed: asyncio.Event

    @property
    def host(self) -> str:
        """The host of the page in ASCII, as in DNS (IDNA), to be shown by itself."""
        return ascii_host(self.url)

    @property
    def suspicious(self) -> bool:
        """Whether the URL may be a homograph of another one.

        It has non-ASCII characters, or its host has Punycode labels (``xn--``), or is a number but not a dotted-decimal
        IPv4 address.
        """
        labels = self.host.split(".")
        number = labels[-1].isdigit() or labels[-1].startswith("0x")
        encoded = any(label.startswith("xn--") for label in labels)
        return encoded or not self.url.isascii() or (number and not PLAIN_ADDRESS.fullmatch(self.host))


def ascii_host(url: str) -> str:
    """Return the host of a URL in ASCII (IDNA), with ``xn--`` for non-ASCII labels, or "" without a host.

    Raises:
        ValueError: the URL is invalid, or its host cannot be encoded.
    """
    host = urlsplit(url).hostname or ""
    return host if host.isascii() else host.encode("idna").decode().lower()


class Sampling(ServerRequest, frozen=True):
    """Sampling: messages for the client's model to answer. Missing members are None."""

    messages: list[SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    model_preferences: ModelPreferences | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    metadata: dict[str, Any] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None


class RootsRequest(ServerRequest, frozen=True):
    """Request for the roots: the directories and files that a server may work on."""


class LogMessage(ServerRequest, frozen=True):
    """Log message of a server."""

    level: LoggingLevel
    data: Any
    logger: str | None = None


#: Handler of log messages.
LogHandler: TypeAlias = Callable[[LogMessage], object]
#: Handler of form elicitation: returns the content, None to decline, or a whole result.
FormHandler: TypeAlias = Callable[[Form], Awaitable[Mapping[str, Any] | ElicitResult | None]]
#: Handler of URL elicitation: returns whether the user agreed to visit the page, or a whole result.
PageHandler: TypeAlias = Callable[[URLElicitation], Awaitable[bool | ElicitResult]]
#: Handler of sampling: returns a whole result, or only the text of the model's answer.
SampleHandler: TypeAlias = Callable[[Sampling], Awaitable[CreateMessageResult | str]]
Roots: TypeAlias = Iterable[str | os.PathLike[str] | Root]
RootsSource: TypeAlias = Roots | Callable[[RootsRequest], Roots | ListRootsResult | Awaitable[Roots | ListRootsResult]]


class Handlers(msgspec.Struct, frozen=True, kw_only=True):
    """Handlers of server requests, for a client or for one call.

    The client's handlers determine its declared capabilities. A call's handlers replace them for the requests that the
    call causes; servers must not send requests that the client did not declare.

    Args:
        elicit_form: handler of form elicitation.
        elicit_url: handler of URL elicitation.
        sample: handler of sampling; ``sample_tools`` declares that it supports tools.
        roots: the directories and files that servers may work on, or a function that returns them.
        log: handler of the log messages that a call causes, instead of the client's ``log``; must not block.
        together: whether the handlers of simultaneous input requests run concurrently; by default they run one after
            the other, for one user.
        untouched: whether requests keep unknown members (``Origin.params``), and complete results are sent unchecked:
            for handlers that pass both through.
    """

    elicit_form: FormHandler | None = None
    elicit_url: PageHandler | None = None
    sample: SampleHandler | None = None
    sample_tools: bool = False
    roots: RootsSource | None = None
    log: LogHandler | None = None
    together: bool = False
    untouched: bool = False
