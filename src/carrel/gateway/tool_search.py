"""Transform: ``search_tools`` and ``call_tool`` in place of hundreds of tools, which would fill the context of a model.

    app.add_provider(ToolSearch(RemoteProvider("https://example.org/mcp")))
    app.add_provider(ToolSearch(host.catalog, pinned=["files_read_*"]))

A tool that is not listed can still be called directly, by its name. Tools that need the client itself stay listed:
those with a page, those that are always tasks, and those whose arguments are repeated in HTTP headers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from carrel.catalog.cursor import key_of, position_of
from carrel.catalog.paging import resolved
from carrel.catalog.provider import Events, ListChanges, ListName, Page, Provider, Request
from carrel.catalog.transforms.transform import Transform
from carrel.errors import ConfigError, InvalidParams, MCPError
from carrel.gateway.tool_lists import ToolList, ToolLists
from carrel.gateway.tool_results import MAX_RESULT, found_tools, listed_names
from carrel.log import Log
from carrel.near_names import nearest_first
from carrel.protocol.http import header_parameters
from carrel.vendors.token_estimate import SUMMARY
from carrel.wire.content import TextContent
from carrel.wire.tools import CallToolResult, Tool, ToolAnnotations

if TYPE_CHECKING:
    from carrel.protocol.server import Call

__all__ = ["CALL", "SEARCH", "ToolSearch"]

log = Log("carrel.gateway")

SEARCH, CALL = "search_tools", "call_tool"
#: How many tools a search returns, and how many it returns at most.
USUAL, MOST = 5, 50
#: How many names an error about an unknown tool suggests.
SUGGESTED = 5


class SearchArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of search_tools."""

    query: str = ""
    limit: int | None = None


class CallArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of call_tool."""

    name: str
    arguments: Raw | UnsetType = UNSET


class ToolSearch(Transform):
    """Transform that lists ``search_tools`` and ``call_tool`` in place of the tools of a provider.

    ``pinned`` are patterns of the names of tools that stay listed. ``about`` tells models what kinds of tools there
    are: names of servers, or topics, or a function that returns them. A search returns ``limit`` tools in at most
    ``max_characters``.

    A caller finds and calls with them what it could list and call without.

    Raises:
        ConfigError: a limit is below 1.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        pinned: Iterable[str] = (),
        about: Iterable[str] | Callable[[], Iterable[str]] = (),
        limit: int = USUAL,
        max_characters: int = MAX_RESULT,
    ) -> None:
        super().__init__(provider)
        if limit < 1 or max_characters < 1:
            raise ConfigError("A search returns at least 1 tool and 1 character")
        self._pinned = (pinned,) if isinstance(pinned, str) else tuple(pinned)
        if callable(about):
            self._about = about
        else:
            topics = (about,) if isinstance(about, str) else tuple(about)
            self._about = lambda: topics
        self._limit = min(limit, MOST)
        self._max_characters = max_characters
        self._lists = ToolLists(provider.list_tools, self._is_listed)
        self._shown: str | None = None

    @property
    def tool_names(self) -> Container[str] | None:  # type: ignore[override]
        """Names of the two tools and of all that they find, if the provider keeps those up to date."""
        names = self.provider.tool_names
        return None if names is None else _Names(names)

    def offers(self, method: str) -> bool:
        """Return whether the provider implements a method."""
        return method in (self.list_tools.__name__, self.call_tool.__name__) or self.provider.offers(method)

    async def start(self, events: Events) -> None:
        """Start the provider, and log what the search saves."""
        await super().start(events)
        try:
            await self._known(Request())
        except MCPError as error:
            log.warning("%s: its tools cannot be listed: %s", self.name, error)

    def changed_lists(self, lists: ListChanges) -> ListChanges:
        """Return lists that have changed; what is known of the tools is read again."""
        changed: ListName = "tools_list_changed"
        if changed in lists:
            self._lists.forget()
        return lists

    def _is_listed(self, tool: Tool) -> bool:
        """Return whether a tool is listed itself, and not only found."""
        ui = tool.meta.get("ui") if tool.meta is not None else None
        return (
            any(fnmatchcase(tool.name, pattern) for pattern in self._pinned)
            or isinstance(ui, dict)
            or (tool.execution is not None and tool.execution.task_support == "required")
            or _has_headers(tool)
        )

    async def _known(self, request: Request) -> ToolList:
        """Return the tools that the caller may list, and log what the search saves where that is new."""
        known = await self._lists.read(self._inner(request))
        if request.call is None and known.index.tools and self._shown != (shown := known.savings(self._own(known))):
            self._shown = shown
            log.info("%s: %s", self.name, shown)
        return known

    @property
    def saved(self) -> str | None:
        """Saving for a model, in words, as of the last time that the tools were read for no client; None before."""
        return self._shown or None

    async def savings(self) -> str:
        """Return in words what a model saves that gets the two tools in place of all."""
        known = await self._known(Request())
        return known.savings(self._own(known))

    # Tools

    def _own(self, known: ToolList) -> list[Tool]:
        """Return the two tools as they are described for a list of tools."""
        return [*_tools(self._about(), self._limit, known)]

    async def list_tools(self, request: Request) -> Page[Tool]:
        """Return a page of the tools that stay listed, with the two of the search."""
        known = await self._known(request)
        tools = {tool.name: tool for tool in [*known.listed, *self._own(known)]}
        names = sorted(tools)
        start = 0 if request.cursor is None else bisect_right(names, key_of(request.cursor))
        part = names[start : start + request.limit]
        more = position_of(part[-1]) if part and start + len(part) < len(names) else None
        return Page([tools[name] for name in part], more, known.ttl, known.scope)

    def call_tool(self, name: str, arguments: Raw, request: Request) -> Any:
        """Call one of the two tools, or a tool of the provider by its name.

        Raises:
            InvalidParams: there is no such tool, or, before 2025-11-25, the arguments of the tool are not valid.
        """
        if name == SEARCH:
            return self._search(arguments, request)
        if name == CALL:
            return self._call(arguments, request)
        return super().call_tool(name, arguments, request)

    async def _search(self, arguments: Raw, request: Request) -> CallToolResult:
        try:
            given = msgspec.json.decode(arguments, type=SearchArguments)
        except msgspec.ValidationError as error:
            return _failed(f"Invalid arguments: {error}")
        limit = self._limit if given.limit is None else given.limit
        if limit < 1:
            return _failed("Invalid arguments: limit must be at least 1")
        try:
            index = (await self._known(request)).index
        except MCPError as error:
            return _failed(str(error))
        if not given.query.strip():
            return listed_names(index.tools, self._max_characters)
        return found_tools(index.search(given.query), len(index), min(limit, MOST), self._max_characters)

    async def _call(self, arguments: Raw, request: Request) -> Any:
        """Call a tool of the provider, as if it had been called directly."""
        try:
            given = msgspec.json.decode(arguments, type=CallArguments)
            raw = _object(given.arguments)
        except msgspec.DecodeError as error:
            return _failed(
                f"Invalid arguments: {error}; {CALL} takes the name of a tool and an object of its arguments"
            )
        name = given.name
        if not request.allows("call", name):
            return await self._unknown(name, request)
        inner = self._inner(request)
        if inner.call is not None:
            inner.call = _call_of(inner.call, name, raw)
        try:
            return await resolved(self.provider.call_tool(name, raw, inner))
        except InvalidParams:
            if (await self._known(request)).index.get(name) is None:
                return await self._unknown(name, request)
            raise

    async def _unknown(self, name: str, request: Request) -> CallToolResult:
        """Return the result for a tool that the caller does not have, with the names that are nearest."""
        index = (await self._known(request)).index
        names = [tool.name for tool in index.tools]
        found = [each.tool.name for each in index.search(name)[:SUGGESTED]]
        near = list(dict.fromkeys([*nearest_first(name, names)[: 2 if names else 0], *found]))[:SUGGESTED]
        hint = f"; near are: {', '.join(near)}" if near else ""
        return _failed(f"There is no tool {name[:200]!r}{hint}. {SEARCH} finds tools and describes their arguments.")


class _Names(Container[str]):
    """Names of the tools of a provider, and those of the search."""

    def __init__(self, inner: Container[str]) -> None:
        self._inner = inner

    def __contains__(self, name: object) -> bool:
        return name in (SEARCH, CALL) or name in self._inner


def _has_headers(tool: Tool) -> bool:
    try:
        return bool(header_parameters(tool.input_schema))
    except (ValueError, ConfigError):
        return False


def _object(arguments: Raw | UnsetType) -> Raw:
    """Return the arguments of a tool: an object, which models sometimes write as a text that has it in JSON.

    Raises:
        ValidationError: they are something else.
    """
    if arguments is UNSET:
        return Raw(b"{}")
    data = bytes(arguments)
    if data == b"null":
        return Raw(b"{}")
    if data[:1] == b'"':
        data = msgspec.json.decode(data, type=str).encode()
    msgspec.json.decode(data, type=dict[str, Any])
    return Raw(data)


def _call_of(call: Call, name: str, arguments: Raw) -> Call:
    """Return the client's call as a call of a tool by its name. Its message, questions and progress are the same."""
    params = msgspec.structs.replace(call.params, name=name, arguments=arguments)
    return msgspec.structs.replace(call, params=params, outer=call)


def _failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(message)], is_error=True)


def _tools(about: Iterable[str], limit: int, known: ToolList) -> Iterable[Tool]:
    """Yield the tools of the search, as they are described for the tools that they find."""
    topics = ", ".join(about)
    yield Tool(
        name=SEARCH,
        title="Search tools",
        description="Find tools by what they do: most tools are not listed here, but found with this one. Returns "
        f"names, descriptions and input schemas; then use {CALL}. A query that is the name of a tool returns that "
        "tool first, with its whole schema; without a query, all names are returned."
        + (f" There are tools for: {topics}." if topics else ""),
        input_schema={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words for what is to be done, or the name of a tool"},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST,
                    "default": limit,
                    "description": "How many tools to return at most",
                },
            },
            "additionalProperties": False,
        },
        output_schema={
            "type": "object",
            "properties": {
                "tools": {"type": "array", "items": {"type": "object", "additionalProperties": True}},
                "total": {"type": "integer"},
            },
            "required": ["tools", "total"],
            "additionalProperties": True,
        },
        annotations=ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
        meta={SUMMARY: {"tools": len(known.index), "tokens": known.tokens}},
    )
    yield Tool(
        name=CALL,
        title="Call a tool",
        description=f"Call a tool that {SEARCH} has found, by its name, with arguments that fit its input schema.",
        input_schema={
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": f"Name of the tool, as {SEARCH} returned it"},
                "arguments": {
                    "type": "object",
                    "description": "Arguments of the tool, by its input schema",
                    "additionalProperties": True,
                },
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        annotations=known.annotations,
    )
