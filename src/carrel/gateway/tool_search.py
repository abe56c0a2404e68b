"""ToolSearch: lists ``search_tools`` and ``call_tool`` instead of hundreds of tools, to save context of the model.

    app.add_provider(ToolSearch(RemoteProvider("https://example.org/mcp")))
    app.add_provider(ToolSearch(host.catalog, pinned=["files_read_*"]))

A tool that is not listed can still be called directly, by its name. Tools that require client support stay listed:
tools with a page (MCP Apps), tools that are always tasks, and tools whose arguments are repeated in HTTP headers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from carrel.awaitables import resolved
from carrel.catalog.paging import decode_cursor, encode_cursor
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
#: Default and maximum number of tools that a search returns.
USUAL, MOST = 5, 50
#: Maximum number of names to suggest if a tool is unknown.
SUGGESTED = 5


class ToolSearchArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of search_tools."""

    query: str = ""
    limit: int | None = None


class CallArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of call_tool."""

    name: str
    arguments: Raw | UnsetType = UNSET


class ToolSearch(Transform):
    """Transform that lists ``search_tools`` and ``call_tool`` instead of the tools of a provider.

    Tools whose name matches a pattern in ``pinned`` stay listed. ``about`` describes the available tools for the model:
    names of servers, or topics, or a function that returns them. By default, a search returns ``limit`` tools, in at
    most ``max_characters``.

    A caller can find and call exactly the tools that it could list and call without this transform.

    Raises:
        ConfigError: a limit is below 1.
    """

    own_names = (SEARCH, CALL)
    """Names of the tools that it adds."""

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
        """Names of the two tools and of all indexed tools, or None if the provider does not track its names."""
        names = self.provider.tool_names
        return None if names is None else _ToolNames(names)

    def offers(self, method: str) -> bool:
        """Return whether the provider implements a method."""
        return method in (self.list_tools.__name__, self.call_tool.__name__) or self.provider.offers(method)

    async def start(self, events: Events) -> None:
        """Start the provider, and log the number of tokens saved."""
        await super().start(events)
        try:
            await self._known(Request())
        except MCPError as error:
            log.warning("%s: its tools cannot be listed: %s", self.name, error)

    def changed_lists(self, lists: ListChanges) -> ListChanges:
        """Return the changed lists. If the tools have changed, clear the index."""
        changed: ListName = "tools_list_changed"
        if changed in lists:
            self._lists.forget()
        return lists

    def _is_listed(self, tool: Tool) -> bool:
        """Return whether a tool stays listed."""
        ui = tool.meta.get("ui") if tool.meta is not None else None
        return (
            any(fnmatchcase(tool.name, pattern) for pattern in self._pinned)
            or isinstance(ui, dict)
            or (tool.execution is not None and tool.execution.task_support == "required")
            or _has_headers(tool)
        )

    async def _known(self, request: Request) -> ToolList:
        """Return the tools that the caller may list, and log the number of tokens saved if it has changed."""
        known = await self._lists.read(self._inner(request))
        if request.call is None and known.index.tools and self._shown != (shown := known.savings(self._own(known))):
            self._shown = shown
            log.info("%s: %s", self.name, shown)
        return known

    @property
    def saved(self) -> str | None:
        """Text about the tokens saved, as of the last read of the tools without a client; None before the first."""
        return self._shown or None

    async def savings(self) -> str:
        """Return a text about the tokens that a model saves if it gets the two tools instead of all tools."""
        known = await self._known(Request())
        return known.savings(self._own(known))

    # Tools

    def _own(self, known: ToolList) -> list[Tool]:
        """Return the two tools, with descriptions for a list of tools."""
        return [*_tools(self._about(), self._limit, known)]

    async def list_tools(self, request: Request) -> Page[Tool]:
        """Return a page of the tools that stay listed, plus the two search tools."""
        known = await self._known(request)
        tools = {tool.name: tool for tool in [*known.listed, *self._own(known)]}
        names = sorted(tools)
        start = 0 if request.cursor is None else bisect_right(names, decode_cursor(request.cursor, self.name))
        part = names[start : start + request.limit]
        more = encode_cursor(part[-1], self.name) if part and start + len(part) < len(names) else None
        return Page([tools[name] for name in part], more, known.ttl, known.scope)

    def call_tool(self, name: str, arguments: Raw, request: Request) -> Any:
        """Call one of the two search tools, or a tool of the provider.

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
            given = msgspec.json.decode(arguments, type=ToolSearchArguments)
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
        """Return the error result for an unknown tool, with similar names."""
        index = (await self._known(request)).index
        names = [tool.name for tool in index.tools]
        found = [each.tool.name for each in index.search(name)[:SUGGESTED]]
        near = list(dict.fromkeys([*nearest_first(name, names)[: 2 if names else 0], *found]))[:SUGGESTED]
        hint = f"; near are: {', '.join(near)}" if near else ""
        return _failed(f"There is no tool {name[:200]!r}{hint}. {SEARCH} finds tools and describes their arguments.")


class _ToolNames(Container[str]):
    """Names of a provider's tools, plus the search tools."""

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
    """Return the arguments of a tool as a JSON object. Models sometimes send the object as a string of JSON.

    Raises:
        ValidationError: the arguments are not an object.
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
    """Turn a call of ``call_tool`` into a call of the named tool, with the same request, elicitations and progress."""
    params = msgspec.structs.replace(call.params, name=name, arguments=arguments)
    return msgspec.structs.replace(call, params=params, outer=call)


def _failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(message)], is_error=True)


def _tools(about: Iterable[str], limit: int, known: ToolList) -> Iterable[Tool]:
    """Yield the two search tools, with descriptions for the indexed tools."""
    topics = ", ".join(about)
    yield Tool(
        name=SEARCH,
        title="Search tools",
        description="Find tools by their purpose: most tools are not listed here, but found with this one. Returns "
        f"names, descriptions and input schemas; then use {CALL}. A query that is the name of a tool returns that "
        "tool first, with its whole schema; without a query, all names are returned."
        + (f" There are tools for: {topics}." if topics else ""),
        input_schema={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "Words that describe the task, or the name of a tool"},
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
