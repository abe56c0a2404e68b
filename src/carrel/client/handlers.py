"""Handlers of server requests: elicitation (form and URL mode), sampling and roots; and the calls that cause them.

Each handler is called with one object that says what is asked, by which server, and which call of the client caused it.

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

from carrel.protocol.methods import Request
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
    "Page",
    "PageHandler",
    "Progress",
    "Roots",
    "RootsRequest",
    "RootsSource",
    "SampleHandler",
    "Sampling",
    "ServerRequest",
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
        """Return the headers, for each time that the request is sent."""

    async def refresh(self) -> None:
        """Find out again which headers the server wants: it has refused those of the call."""


class ClientCall(msgspec.Struct, Generic[R], eq=False):
    """A request of a client and its options. Handlers of server requests get the call that caused them.

    ``request`` is the row of the method, such as ``carrel.protocol.methods.CALL_TOOL``; ``result`` the type of the
    result, None for that of the method.
    """

    request: Request[Any, R]
    params: Params
    timeout: float | None = None
    """Seconds until the request times out; None for the timeout of the client, ``math.inf`` for no limit."""
    progress: Progress | None = None
    meta: Mapping[str, Any] | None = None
    handlers: Handlers | None = None
    """Handlers that replace those of the client for the requests that this call causes."""
    user_data: object = None
    """Value of the caller, which the client does not use."""
    headers: HeaderSource | None = None
    repeatable: bool = False
    """Whether the request may be repeated although it may have been delivered."""
    id: Id | None = None
    """The id of the request, each time that it is sent."""
    rounds: int = 0
    """How many times the server has asked for input (multi round-trip requests)."""
    result: type[Result] | None = None
    capabilities: ClientCapabilities | None = None
    """Capabilities that it declares in place of the client's, some of them (stateless revisions)."""
    size: int = 0
    """Bytes of the response that was received last."""

    @property
    def operation(self) -> str:
        """Carrel's name of the method, such as "call_tool"."""
        return self.request.operation

    @property
    def method(self) -> str:
        """The name of the method on the wire, such as "tools/call"."""
        return self.request.method


class Origin(msgspec.Struct, frozen=True):
    """Where a request of a server comes from: the server's name for a user, and the client's calls.

    ``call`` is the call that caused the request, None if that is not known: with several calls in flight on stdio, a
    request of the server does not say which one it is about. ``calls`` are those that it may be about. ``key`` is the
    server's key of the request, where it has one (input requests of calls and tasks, since 2026-07-28). ``params`` are
    the parameters of the request, with their ``_meta``.
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


class Page(ServerRequest, frozen=True):
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
    """Return the host of a URL in ASCII (IDNA), with ``xn--`` for non-ASCII labels; empty if there is none.

    Raises:
        ValueError: the URL is invalid, or its host cannot be encoded.
    """
    host = urlsplit(url).hostname or ""
    return host if host.isascii() else host.encode("idna").decode().lower()


class Sampling(ServerRequest, frozen=True):
    """Sampling: messages that a server asks the client's model to answer. What the server did not give is None."""

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
PageHandler: TypeAlias = Callable[[Page], Awaitable[bool | ElicitResult]]
#: Handler of sampling: returns a whole result, or only the text of the model's answer.
SampleHandler: TypeAlias = Callable[[Sampling], Awaitable[CreateMessageResult | str]]
Roots: TypeAlias = Iterable[str | os.PathLike[str] | Root]
RootsSource: TypeAlias = Roots | Callable[[RootsRequest], Roots | ListRootsResult | Awaitable[Roots | ListRootsResult]]


class Handlers(msgspec.Struct, frozen=True, kw_only=True):
    """Handlers of server requests: those of a client, or of one call.

    Those of the client decide which capabilities it declares. Those of a call replace them for the requests that the
    call causes; what the client does not declare, servers must not ask.

    Args:
        elicit_form: handler of form elicitation.
        elicit_url: handler of URL elicitation.
        sample: handler of sampling; ``sample_tools`` declares that it supports tools.
        roots: the directories and files that servers may work on, or a function that returns them.
        log: handler of the log messages that a call causes, in place of the client's ``log``; must not block.
        together: whether input requests that come together are put to the handlers at the same time; otherwise one
            after the other, as there is one user.
        untouched: whether requests keep the members that are not known here (``Origin.params``), and whole results are
            sent as they are, unchecked: for handlers that pass both on.
    """

    elicit_form: FormHandler | None = None
    elicit_url: PageHandler | None = None
    sample: SampleHandler | None = None
    sample_tools: bool = False
    roots: RootsSource | None = None
    log: LogHandler | None = None
    together: bool = False
    untouched: bool = False
