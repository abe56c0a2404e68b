"""Dispatch of server requests to the handlers of elicitation, sampling and roots. Others get an error response.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
https://modelcontextprotocol.io/specification/2026-07-28/client/roots
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from carrel.awaitables import is_awaitable, resolved
from carrel.client.handlers import (
    ClientCall,
    Form,
    FormHandler,
    Handlers,
    LogHandler,
    Origin,
    PageHandler,
    Roots,
    RootsRequest,
    RootsSource,
    Sampling,
    URLElicitation,
    ascii_host,
)
from carrel.errors import ConfigError, InvalidParams, MethodNotFound
from carrel.log import Log
from carrel.protocol.encoding import encode
from carrel.uri.parse import UriError, file_path
from carrel.wire.base import ClientCapabilities, prepared
from carrel.wire.client_features import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    ElicitResult,
    ListRootsResult,
    Root,
    find_imbalance,
)
from carrel.wire.content import TextContent

__all__ = ["ClientHandlers"]

log = Log("carrel.client")

Q = TypeVar("Q")
T = TypeVar("T")
R = TypeVar("R", ElicitResult, CreateMessageResult)

#: Error messages for unbalanced tool use and tool results in sampling messages, in the words of the specification.
IMBALANCES = {
    "mixed": "Tool result mixed with other content",
    "missing": "Tool result missing in request",
    "open": "Tool result missing in request",
}
#: Scheme of a URI. A single letter is a Windows drive.
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
#: Maximum number of pending URL elicitations, which wait for ``notifications/elicitation/complete``.
MAX_PAGES = 1000
#: Maximum length of a page's URL, in characters.
MAX_URL = 8192


NONE = Handlers()


class ClientHandlers:
    """Handlers of elicitation, sampling and roots, and the client capabilities that they imply."""

    def __init__(self, handlers: Handlers = NONE) -> None:
        self._handlers = msgspec.structs.replace(handlers, roots=fixed(handlers.roots))
        self._pages: dict[str, asyncio.Event] = {}

    def capabilities(self, extensions: Mapping[str, Any]) -> ClientCapabilities:
        """Return the client capabilities, in the form of the newest revision."""
        capabilities = ClientCapabilities(extensions=dict(extensions) or None)
        own = self._handlers
        modes = {"form": own.elicit_form, "url": own.elicit_url}
        if any(modes.values()):
            capabilities.elicitation = {mode: {} for mode, handler in modes.items() if handler is not None}
        if own.sample is not None:
            capabilities.sampling = {"tools": {}} if own.sample_tools else {}
        if own.roots is not None:
            capabilities.roots = {"listChanged": True}
        return capabilities

    def log_of(self, call: ClientCall[Any] | None) -> LogHandler | None:
        """Return the handler for log messages that a call causes, or None."""
        special = NONE if call is None or call.handlers is None else call.handlers
        return special.log or self._handlers.log

    def together_for(self, call: ClientCall[Any] | None) -> bool:
        """Return whether the input requests of a call are handled concurrently."""
        return (self._handlers if call is None or call.handlers is None else call.handlers).together

    def untouched_for(self, call: ClientCall[Any] | None) -> bool:
        """Return whether the input requests of a call preserve unknown members."""
        return (self._handlers if call is None or call.handlers is None else call.handlers).untouched

    async def answer(self, operation: str, params: Any, origin: Origin) -> Any:
        """Dispatch a request of a server to its handler, and return the result.

        Raises:
            MethodNotFound: there is no handler for such requests.
            InvalidParams: the parameters are invalid, or not covered by the declared capabilities.
            ConfigError: a handler is not async, or returned an invalid result.
        """
        special = NONE if origin.call is None or origin.call.handlers is None else origin.call.handlers
        origin = msgspec.structs.replace(origin, params=params)
        if operation == "elicit":
            if params.mode == "url":
                return await self._open_page(params, special.elicit_url or self._handlers.elicit_url, origin)
            return await self._fill_in(params, special.elicit_form or self._handlers.elicit_form, origin)
        if operation == "sample":
            return await self._ask_model(params, special if special.sample else self._handlers, origin)
        if operation == "list_roots":
            return await self._list_roots(self._handlers.roots if special.roots is None else special.roots, origin)
        raise MethodNotFound(f"Method not found: {operation}")

    # Elicitation

    async def _fill_in(self, params: ElicitParams, handler: FormHandler | None, origin: Origin) -> ElicitResult:
        if handler is None:
            raise self._not_asked("forms", self._handlers.elicit_url)
        if params.requested_schema is None:
            raise InvalidParams("Invalid params: requestedSchema is missing", parameter="requestedSchema")
        form = Form(origin, params.message, params.requested_schema)
        answer = await ask("elicit_form", handler, form)
        if isinstance(answer, ElicitResult):
            if checked("elicit_form", answer).action != "accept" or self.untouched_for(origin.call):
                return answer
            answer = answer.content or {}
        if answer is None:
            return ElicitResult(action="decline")
        if not isinstance(answer, Mapping):
            raise unfit("elicit_form", answer, "the fields as a dict, None to decline, or an ElicitResult")
        content = form.defaults | dict(answer)
        check(content, form.schema)
        return ElicitResult(action="accept", content=content)

    async def _open_page(self, params: ElicitParams, handler: PageHandler | None, origin: Origin) -> ElicitResult:
        if handler is None:
            raise self._not_asked("pages", self._handlers.elicit_form)
        if params.url is None:
            raise InvalidParams("Invalid params: url is missing", parameter="url")
        if not may_be_shown(params.url):
            log.warning("%s wants a page visited whose address is not allowed: %s", origin.server, params.url)
            return ElicitResult(action="decline")
        completed = asyncio.Event()
        if params.elicitation_id is not None:
            self._pages[params.elicitation_id] = completed
            if len(self._pages) > MAX_PAGES:
                self._pages.pop(next(iter(self._pages)))
        answer = await ask("elicit_url", handler, URLElicitation(origin, params.message, params.url, completed))
        if isinstance(answer, ElicitResult):
            return checked("elicit_url", answer)
        if not isinstance(answer, bool):
            raise unfit("elicit_url", answer, "True if the user agreed, False if not, or an ElicitResult")
        return ElicitResult(action="accept" if answer else "decline")

    def complete_page(self, id: str) -> None:
        """Record that a URL elicitation is complete."""
        page = self._pages.pop(id, None)
        if page is not None:
            page.set()

    def page(self, id: str) -> asyncio.Event | None:
        """Return the event that is set when a URL elicitation completes; None if it is not pending."""
        return self._pages.get(id)

    @staticmethod
    def _not_asked(what: str, other: object) -> Exception:
        if other is None:
            return MethodNotFound("Method not found: this client has no elicitation")
        return InvalidParams(f"Invalid params: this client takes no {what}", parameter="mode")

    # Sampling

    @staticmethod
    async def _ask_model(params: CreateMessageParams, handlers: Handlers, origin: Origin) -> CreateMessageResult:
        if handlers.sample is None:
            raise MethodNotFound("Method not found: this client has no sampling")
        if not handlers.sample_tools and (params.tools is not None or params.tool_choice is not None):
            raise InvalidParams("Invalid params: this client's sampling has no tools", parameter="tools")
        imbalance = find_imbalance(params.messages)
        if imbalance is not None:
            raise InvalidParams(IMBALANCES[imbalance], parameter="messages")
        given: dict[str, Any] = {name: getattr(params, name) for name in Sampling.__struct_fields__ if name != "origin"}
        sampling = Sampling(origin, **given)
        answer = await ask("sample", handlers.sample, sampling)
        if isinstance(answer, str):
            return CreateMessageResult(
                role="assistant", content=TextContent(answer), model="unknown", stop_reason="endTurn"
            )
        if not isinstance(answer, CreateMessageResult):
            raise unfit("sample", answer, "the text of the model's answer, or a CreateMessageResult")
        return checked("sample", answer)

    # Roots

    @staticmethod
    async def _list_roots(source: RootsSource | None, origin: Origin) -> ListRootsResult:
        if source is None:
            raise MethodNotFound("Method not found: this client has no roots")
        found = source(RootsRequest(origin)) if callable(source) else source
        roots: Roots | ListRootsResult = await resolved(found)
        if isinstance(roots, ListRootsResult):
            return msgspec.structs.replace(roots, roots=[to_root(root) for root in roots.roots])
        return ListRootsResult(roots=[to_root(root) for root in roots])

    def change_roots(self, roots: RootsSource) -> None:
        """Replace the roots.

        Raises:
            ConfigError: the client was created without roots, or a root is invalid.
        """
        if self._handlers.roots is None:
            raise ConfigError("This client was created without roots, so it did not declare the capability")
        self._handlers = msgspec.structs.replace(self._handlers, roots=fixed(roots))

    def change_log(self, handler: LogHandler) -> None:
        """Replace the handler of log messages."""
        self._handlers = msgspec.structs.replace(self._handlers, log=handler)


async def ask(name: str, handler: Callable[[Q], Awaitable[T]], request: Q) -> T:
    """Call a handler and await its result.

    Raises:
        ConfigError: the handler is not async, so it would block the event loop.
    """
    answer = handler(request)
    if not is_awaitable(answer):
        raise ConfigError(f"{name} must be an async function (async def): a plain function would block the event loop")
    return await answer


def unfit(name: str, answer: object, wanted: str) -> ConfigError:
    return ConfigError(f"{name} returned {type(answer).__name__}; it returns {wanted}")


def checked(name: str, answer: R) -> R:
    """Return a handler's result after validating it against its type.

    Raises:
        ConfigError: the result is invalid.
    """
    try:
        msgspec.json.decode(encode(answer), type=prepared(type(answer)))
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        kind = type(answer).__name__
        raise ConfigError(f"{name} returned a {kind} that the protocol does not allow: {error}") from None
    return answer


def fixed(roots: RootsSource | None) -> RootsSource | None:
    """Return validated roots that can be listed repeatedly. Roots of a function are validated when it is called.

    Raises:
        ConfigError: ``roots`` is a single path, or a root is invalid.
    """
    if isinstance(roots, str | os.PathLike):
        raise ConfigError(f"roots must be a list of paths and file: URIs, not only {os.fspath(roots)[:200]!r}")
    return roots if roots is None or callable(roots) else [to_root(root) for root in roots]


def to_root(root: str | os.PathLike[str] | Root) -> Root:
    """Return a root for a path or a ``file:`` URI.

    Raises:
        ConfigError: the URI has another scheme, or is not a plain ``file:`` URI.
    """
    if isinstance(root, Root):
        check_root(root.uri)
        return root
    text = os.fspath(root)
    if isinstance(root, str) and SCHEME.match(text):
        check_root(text)
        return Root(uri=text)
    path = Path(os.path.abspath(text))  # noqa: PTH100 - it removes "..", and follows no links
    return Root(uri=path.as_uri(), name=path.name or None)


def check_root(uri: str) -> None:
    """Check that a root is a plain ``file:`` URI.

    https://modelcontextprotocol.io/specification/2026-07-28/client/roots#security-considerations

    Raises:
        ConfigError: the root is not a plain ``file:`` URI.
    """
    try:
        file_path(uri if uri == "file:///" else uri.rstrip("/"))
    except UriError as error:
        raise ConfigError(f"A root is a path or a plain file: URI, not {uri[:200]!r}: {error}") from None
    if not uri.startswith("file://"):
        raise ConfigError(f"A root is a path or a URI that begins with file://, not {uri[:200]!r}")


def may_be_shown(url: str) -> bool:
    """Return whether a URL is safe to show: https, or http on loopback, without userinfo or control characters.

    https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling
    """
    from carrel.transports.addresses import is_loopback  # imported late, as few clients need it

    if len(url) > MAX_URL or " " in url or "\\" in url or not url.isprintable():
        return False  # such as bidirectional controls, zero-width characters and terminal escapes
    try:
        parts = urlsplit(url)
        host, _ = ascii_host(url), parts.port
    except ValueError:
        return False
    if not host or "@" in parts.netloc or "%" in host:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def check(content: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Validate the content of a form against its JSON Schema.

    Raises:
        ConfigError: the content is invalid.
    """
    from carrel.protocol.json_schema import Validator

    try:
        Validator(schema, "answer", foreign=True).validate(content)
    except ValueError as error:
        raise ConfigError(f"The content does not match the form: {error}") from None
