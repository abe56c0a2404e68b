"""Answers to what servers ask: forms, pages, models, roots. What nobody has taken on is refused.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
https://modelcontextprotocol.io/specification/2026-07-28/client/sampling
https://modelcontextprotocol.io/specification/2026-07-28/client/roots
"""

from __future__ import annotations

import asyncio
import inspect
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET

from carrel.errors import ConfigError, InvalidParams, MethodNotFound
from carrel.log import Log
from carrel.protocol.encoding import encode
from carrel.uri.parse import UriError, file_path
from carrel.wire.base import ClientCapabilities
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

__all__ = ["ClientHandlers", "Form", "FormHandler", "Page", "PageHandler", "Roots", "RootsSource", "SampleHandler"]

log = Log("carrel.client")

Q = TypeVar("Q")
T = TypeVar("T")
R = TypeVar("R", ElicitResult, CreateMessageResult)

#: What is wrong with the uses of tools in a conversation, in the words of the specification.
IMBALANCES = {
    "mixed": "Tool result mixed with other content",
    "missing": "Tool result missing in request",
    "open": "Tool result missing in request",
}
#: How a URI begins. One letter is a drive of Windows.
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
#: How many pages are remembered whose end a server may still announce.
MAX_PAGES = 1000
#: Characters of the URL of a page.
MAX_URL = 8192
#: An IPv4 address as everybody writes it; browsers take many other forms of the same number.
PLAIN_ADDRESS = re.compile(r"(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})")


class Form(msgspec.Struct, frozen=True):
    """A form that a server wants filled in. ``server`` says which one wants to know."""

    message: str
    schema: dict[str, Any]
    """A JSON Schema of an object whose properties are text, numbers, booleans and choices."""
    server: str

    @property
    def fields(self) -> dict[str, Any]:
        """The schemas of the fields, by name."""
        fields: dict[str, Any] = self.schema.get("properties", {})
        return fields

    @property
    def defaults(self) -> dict[str, Any]:
        """What the server suggests, by field. It is put in where an answer leaves the field out."""
        return {name: field["default"] for name, field in self.fields.items() if "default" in field}


class Page(msgspec.Struct, frozen=True):
    """A page that a server wants the user to visit.

    Show the whole ``url`` and let the user decide; never open it unasked, and never read it.
    ``completed`` is set when the server says that the user is done there, if it ever does.
    """

    message: str
    url: str
    server: str
    completed: asyncio.Event

    @property
    def host(self) -> str:
        """The host of the page in ASCII, as the name system has it, to be shown by itself."""
        return ascii_host(self.url)

    @property
    def suspicious(self) -> bool:
        """Whether the URL is written so that it may look like another one.

        It holds letters outside of ASCII, or its host has such letters in another form, or is a number that is no
        plain address.
        """
        labels = self.host.split(".")
        number = labels[-1].isdigit() or labels[-1].startswith("0x")
        encoded = any(label.startswith("xn--") for label in labels)
        return encoded or not self.url.isascii() or (number and not PLAIN_ADDRESS.fullmatch(self.host))


def ascii_host(url: str) -> str:
    """Return the host of a URL in ASCII, with ``xn--`` for labels in other letters; empty if there is none.

    Raises:
        ValueError: it is not one, or cannot be written in ASCII.
    """
    host = urlsplit(url).hostname or ""
    return host if host.isascii() else host.encode("idna").decode().lower()


#: Fills in a form: the content, None to decline, or a whole result.
FormHandler: TypeAlias = Callable[[Form], Awaitable[Mapping[str, Any] | ElicitResult | None]]
#: Shows a page to the user: whether they agreed to visit it, or a whole result.
PageHandler: TypeAlias = Callable[[Page], Awaitable[bool | ElicitResult]]
#: Asks a model: its answer, or only the text of it.
SampleHandler: TypeAlias = Callable[[CreateMessageParams], Awaitable[CreateMessageResult | str]]
Roots: TypeAlias = Iterable[str | os.PathLike[str] | Root]
RootsSource: TypeAlias = Roots | Callable[[], Roots | Awaitable[Roots]]


class ClientHandlers:
    """Whoever answers, and what may therefore be asked."""

    def __init__(
        self,
        *,
        elicit_form: FormHandler | None = None,
        elicit_url: PageHandler | None = None,
        sample: SampleHandler | None = None,
        sample_tools: bool = False,
        roots: RootsSource | None = None,
    ) -> None:
        self._elicit_form = elicit_form
        self._elicit_url = elicit_url
        self._sample = sample
        self._sample_tools = sample_tools
        self._roots = fixed(roots)
        self._pages: dict[str, asyncio.Event] = {}

    def capabilities(self, extensions: Mapping[str, Any]) -> ClientCapabilities:
        """Return what may be asked, as the newest revision has it."""
        capabilities = ClientCapabilities(extensions=dict(extensions) or UNSET)
        modes = {"form": self._elicit_form, "url": self._elicit_url}
        if any(modes.values()):
            capabilities.elicitation = {mode: {} for mode, handler in modes.items() if handler is not None}
        if self._sample is not None:
            capabilities.sampling = {"tools": {}} if self._sample_tools else {}
        if self._roots is not None:
            capabilities.roots = {"listChanged": True}
        return capabilities

    async def answer(self, operation: str, params: Any, server: str) -> Any:
        """Answer a question of the server called ``server``.

        Raises:
            MethodNotFound: nobody has taken on such questions.
            InvalidParams: it must not be asked like this.
        """
        if operation == "elicit":
            return await self._visit(params, server) if params.mode == "url" else await self._fill_in(params, server)
        if operation == "sample":
            return await self._ask_model(params)
        if operation == "list_roots":
            return await self._list_roots()
        raise MethodNotFound(f"Method not found: {operation}")

    # Elicitation

    async def _fill_in(self, params: ElicitParams, server: str) -> ElicitResult:
        if self._elicit_form is None:
            raise self._not_asked("forms", self._elicit_url)
        if params.requested_schema is UNSET:
            raise InvalidParams("Invalid params: requestedSchema is missing", parameter="requestedSchema")
        form = Form(params.message, params.requested_schema, server)
        answer = await ask("elicit_form", self._elicit_form, form)
        if isinstance(answer, ElicitResult):
            if checked("elicit_form", answer).action != "accept":
                return answer
            answer = {} if answer.content is UNSET else answer.content
        if answer is None:
            return ElicitResult(action="decline")
        if not isinstance(answer, Mapping):
            raise unfit("elicit_form", answer, "the fields as a dict, None to decline, or an ElicitResult")
        content = form.defaults | dict(answer)
        check(content, form.schema)
        return ElicitResult(action="accept", content=content)

    async def _visit(self, params: ElicitParams, server: str) -> ElicitResult:
        if self._elicit_url is None:
            raise self._not_asked("pages", self._elicit_form)
        if params.url is UNSET:
            raise InvalidParams("Invalid params: url is missing", parameter="url")
        if not may_be_shown(params.url):
            log.warning("%s wants a page visited whose address is not allowed: %s", server, params.url)
            return ElicitResult(action="decline")
        completed = asyncio.Event()
        if params.elicitation_id is not UNSET:
            self._pages[params.elicitation_id] = completed
            if len(self._pages) > MAX_PAGES:
                self._pages.pop(next(iter(self._pages)))
        answer = await ask("elicit_url", self._elicit_url, Page(params.message, params.url, server, completed))
        if isinstance(answer, ElicitResult):
            return checked("elicit_url", answer)
        if not isinstance(answer, bool):
            raise unfit("elicit_url", answer, "True if the user agreed, False if not, or an ElicitResult")
        return ElicitResult(action="accept" if answer else "decline")

    def complete_page(self, id: str) -> None:
        """Take note that the user is done with a page."""
        page = self._pages.pop(id, None)
        if page is not None:
            page.set()

    def page(self, id: str) -> asyncio.Event | None:
        """Return what is set when the user is done with a page, if that may still happen."""
        return self._pages.get(id)

    @staticmethod
    def _not_asked(what: str, other: object) -> Exception:
        if other is None:
            return MethodNotFound("Method not found: this client has no elicitation")
        return InvalidParams(f"Invalid params: this client takes no {what}", parameter="mode")

    # Sampling

    async def _ask_model(self, params: CreateMessageParams) -> CreateMessageResult:
        if self._sample is None:
            raise MethodNotFound("Method not found: this client has no sampling")
        if not self._sample_tools and (params.tools is not UNSET or params.tool_choice is not UNSET):
            raise InvalidParams("Invalid params: this client's sampling has no tools", parameter="tools")
        imbalance = find_imbalance(params.messages)
        if imbalance is not None:
            raise InvalidParams(IMBALANCES[imbalance], parameter="messages")
        answer = await ask("sample", self._sample, params)
        if isinstance(answer, str):
            return CreateMessageResult(
                role="assistant", content=TextContent(answer), model="unknown", stop_reason="endTurn"
            )
        if not isinstance(answer, CreateMessageResult):
            raise unfit("sample", answer, "the text of the model's answer, or a CreateMessageResult")
        return checked("sample", answer)

    # Roots

    async def _list_roots(self) -> ListRootsResult:
        if self._roots is None:
            raise MethodNotFound("Method not found: this client has no roots")
        found = self._roots() if callable(self._roots) else self._roots
        roots: Roots = await found if inspect.isawaitable(found) else found
        return ListRootsResult(roots=[to_root(root) for root in roots])

    def change_roots(self, roots: RootsSource) -> None:
        """Replace the roots.

        Raises:
            ConfigError: servers were told that there are none, or one of them is none.
        """
        if self._roots is None:
            raise ConfigError("This client was made without roots, so that servers do not ask for them")
        self._roots = fixed(roots)


async def ask(name: str, handler: Callable[[Q], Awaitable[T]], question: Q) -> T:
    """Ask whoever answers.

    Raises:
        ConfigError: it is a plain function, which would hold up everything else while a user thinks.
    """
    answer = handler(question)
    if not inspect.isawaitable(answer):
        raise ConfigError(
            f"{name} has to be an async function (async def): nothing else can go on while a plain one runs"
        )
    return await answer


def unfit(name: str, answer: object, wanted: str) -> ConfigError:
    return ConfigError(f"{name} returned {type(answer).__name__}; it returns {wanted}")


def checked(name: str, answer: R) -> R:
    """Return an answer that is what its type says, which the server would find out otherwise.

    Raises:
        ConfigError: it is not.
    """
    try:
        msgspec.json.decode(encode(answer), type=type(answer))
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        kind = type(answer).__name__
        raise ConfigError(f"{name} returned a {kind} that the protocol does not allow: {error}") from None
    return answer


def fixed(roots: RootsSource | None) -> RootsSource | None:
    """Return roots that are checked, and can be listed many times. What a function returns is checked when it does."""
    if isinstance(roots, str | os.PathLike):
        raise ConfigError(f"roots are a list of paths and file: URIs, and not only {os.fspath(roots)[:200]!r}")
    return roots if roots is None or callable(roots) else [to_root(root) for root in roots]


def to_root(root: str | os.PathLike[str] | Root) -> Root:
    """Return a root from a path, or from a ``file:`` URI.

    Raises:
        ConfigError: it is a URI of another kind, or one that does not say plainly where it is.
    """
    if isinstance(root, Root):
        check_root(root.uri)
        return root
    text = os.fspath(root)
    if isinstance(root, str) and SCHEME.match(text):
        check_root(text)
        return Root(uri=text)
    path = Path(os.path.abspath(text))  # noqa: PTH100 - it takes the way up out, and follows no links
    return Root(uri=path.as_uri(), name=path.name or UNSET)


def check_root(uri: str) -> None:
    """Check that a root is a ``file:`` URI that says plainly where it is.

    https://modelcontextprotocol.io/specification/2026-07-28/client/roots#security-considerations

    Raises:
        ConfigError: it is not.
    """
    try:
        file_path(uri if uri == "file:///" else uri.rstrip("/"))
    except UriError as error:
        raise ConfigError(f"A root is a path or a plain file: URI, and not {uri[:200]!r}: {error}") from None
    if not uri.startswith("file://"):
        raise ConfigError(f"A root is a path or a URI that begins with file://, and not {uri[:200]!r}")


def may_be_shown(url: str) -> bool:
    """Say whether a page may be shown to a user: https, or http on this machine, without a user's name and controls.

    https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#safe-url-handling
    """
    from carrel.transports.addresses import is_loopback  # few are shown a page

    if len(url) > MAX_URL or " " in url or "\\" in url or not url.isprintable():
        return False  # what is not printable turns text round, takes no room, or drives a terminal
    try:
        parts = urlsplit(url)
        host, _ = ascii_host(url), parts.port
    except ValueError:
        return False
    if not host or "@" in parts.netloc or "%" in host:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def check(content: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Check what was filled in against the schema of the form.

    Raises:
        ConfigError: it does not fit.
    """
    from carrel.protocol.json_schema import Validator

    try:
        Validator(schema, "answer", foreign=True).validate(content)
    except ValueError as error:
        raise ConfigError(f"What was filled in does not fit the form: {error}") from None
