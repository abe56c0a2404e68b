"""Provider of the search: the template ``search://{+query}{?limit,source,mime_type}``, its completion, and a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Raw

from carrel.catalog.provider import Change, Events, ListChanges, Page, Provider, Recipients, Request
from carrel.errors import InvalidParams, ResourceNotFound
from carrel.log import Log
from carrel.protocol.methods import READ_RESOURCE
from carrel.search.hits import Wanted
from carrel.search.index import MAX_LIMIT, SearchIndex
from carrel.search.results import PassageResults, SearchResults, as_json, as_markdown, passages_as_markdown
from carrel.uri.template import UriTemplate
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.content import ContentBlock, ResourceLink, TextContent
from carrel.wire.resources import ReadResourceResult, ResourceTemplate, TextResourceContents
from carrel.wire.tools import CallToolResult, Tool, ToolAnnotations

__all__ = ["TEMPLATE", "TOOL", "SearchProvider", "request_to_read"]

log = Log("carrel.search")

TEMPLATE = "search://{+query}{?limit,source,mime_type}"
TOOL = "search"
#: Default number of hits.
USUAL = 10
#: Default number of tokens of the page, the most, and how many passages are looked for, so that they fill it.
BUDGET, MAX_BUDGET, PASSAGES = 2000, 100_000, 50

Listener: TypeAlias = Callable[[list[Change], ListChanges, Recipients | None], object]


class SearchArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of the tool."""

    query: str
    limit: int = USUAL
    budget: int = BUDGET
    source: str | None = None
    mime_type: str | None = None
    path: str | None = None


def _text(description: str) -> dict[str, Any]:
    return {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "description": description}


SEARCH = Tool(
    name=TOOL,
    title="Search",
    description="Search names and full text of all resources that are here. Returns the best passages, as many as fit "
    "in the budget of tokens, and links to the best resources, or says that nothing relevant is found.",
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words to look for, in any language"},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_LIMIT,
                "default": USUAL,
                "description": "How many to return at most",
            },
            "budget": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_BUDGET,
                "default": BUDGET,
                "description": "How many tokens of text to return at most",
            },
            "source": _text("Only from this source, by its name or the last part of it"),
            "mime_type": _text("Only of this MIME type, for example text/markdown or text/*"),
            "path": _text("Only where path or URI begin with this"),
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    output_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "hits": {"type": "array", "items": {"type": "object", "additionalProperties": True}},
            "complete": {"type": "boolean"},
            "nearest": {"type": "array", "items": {"type": "object", "additionalProperties": True}},
            "absent": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query", "hits", "complete"],
        "additionalProperties": True,
    },
    annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
)


class SearchProvider(Provider):
    """Provider of a template and a tool that ask an index. ``listeners`` are called with changes of all resources."""

    name = "search"
    tool_names = frozenset({TOOL})
    prompt_names = frozenset[str]()

    def __init__(self, index: SearchIndex, listeners: MutableSequence[Any]) -> None:
        self.index = index
        self._listeners = listeners
        self._template = UriTemplate(TEMPLATE)
        index.skip.add(self)

    async def start(self, events: Events) -> None:
        """Begin to index in the background.

        Raises:
            ConfigError: tantivy is not installed, or the folder of the index cannot be used.
        """
        await self.index.start()
        self._listeners.append(self.index.on_changes)

    async def stop(self) -> None:
        """Stop, and keep the index as it is."""
        if self.index.on_changes in self._listeners:
            self._listeners.remove(self.index.on_changes)
        await self.index.stop()

    # The template

    def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return the template."""
        template = ResourceTemplate(
            TEMPLATE,
            "search",
            title="Search",
            description="Search names and full text of everything that is here",
            mime_type="text/markdown",
        )
        return Page([template] if request.cursor is None else [])

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        """Return the hits of a query: a page in Markdown, and the same as JSON.

        Raises:
            ResourceNotFound: it is not the URI of a search.
            InvalidParams: the query is empty, or the limit is not a number from 1 to 100.
        """
        values = self._template.match(uri)
        if values is None:
            raise ResourceNotFound(uri)
        given = {name: value for name, value in values.items() if isinstance(value, str) and value}
        query = given.get("query", "").strip()
        if not query:
            raise _invalid("write the query after search://, percent-encoded", uri)
        limit = given.get("limit", str(USUAL))
        if not (limit.isascii() and limit.isdigit() and len(limit) < 10 and 1 <= int(limit) <= MAX_LIMIT):
            raise _invalid(f"limit must be a number from 1 to {MAX_LIMIT}, not {limit[:100]!r}", uri)
        results = await self.index.search(
            query,
            limit=int(limit),
            source=given.get("source"),
            mime_type=given.get("mime_type"),
            request=request,
        )
        json = msgspec.json.encode(as_json(results)).decode()
        return ReadResourceResult(
            contents=[
                TextResourceContents(uri, as_markdown(results), mime_type="text/markdown"),
                TextResourceContents(uri, json, mime_type="application/json"),
            ],
            ttl_ms=0,
            cache_scope="private",
        )

    async def complete(
        self,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
    ) -> Completion:
        """Return suggestions: names of resources for the query, names of sources, and MIME types.

        Raises:
            InvalidParams: there is no such template or variable.
        """
        if not isinstance(reference, ResourceTemplateReference) or reference.uri != TEMPLATE:
            raise InvalidParams("Invalid params: ref: there is no such template", parameter="ref")
        if argument == "query":
            return Completion(await self.index.names(value, request))
        if argument == "limit":
            return Completion([each for each in ("5", "10", "20", "50", "100") if each.startswith(value)])
        if argument in ("source", "mime_type"):
            typed = value.casefold()
            found = [each for each in await self.index.choices(argument, request) if typed in each.casefold()]
            return Completion(sorted(found, key=lambda each: not each.casefold().startswith(typed))[:100])
        raise InvalidParams(f"Invalid params: the template has no variable {argument[:200]!r}", parameter="argument")

    # The tool

    def list_tools(self, request: Request) -> Page[Tool]:
        """Return the tool."""
        return Page([SEARCH] if request.cursor is None else [])

    async def call_tool(self, name: str, arguments: Raw, request: Request) -> CallToolResult:
        """Search.

        Raises:
            InvalidParams: there is no such tool.
        """
        if name != TOOL:
            raise InvalidParams(f"Invalid params: unknown tool: {name[:200]}", parameter="name")
        try:
            given = msgspec.json.decode(arguments, type=SearchArguments)
        except msgspec.ValidationError as error:
            return _failed(f"Invalid arguments: {error}")
        if not given.query.strip():
            return _failed("Invalid arguments: query is empty")
        if not 1 <= given.budget <= MAX_BUDGET:
            return _failed(f"Invalid arguments: budget must be between 1 and {MAX_BUDGET}")
        if not 1 <= given.limit <= MAX_LIMIT:
            return _failed(f"Invalid arguments: limit must be between 1 and {MAX_LIMIT}")
        try:
            reader = request_to_read(request)
        except ValueError as error:
            return _failed(str(error))
        results, passages = await self._found(given, reader)
        if not results.hits and not results.complete:
            await self.index.ready_soon()  # the server has just started
            results, passages = await self._found(given, reader)
        page = passages_as_markdown(passages, given.budget)
        return CallToolResult(content=[TextContent(page), *_links(results)], structured_content=as_json(results))

    async def _found(self, given: SearchArguments, reader: Request) -> tuple[SearchResults, PassageResults]:
        return await self.index.hits_and_passages(
            given.query,
            wanted=Wanted(given.limit, PASSAGES, given.budget),
            request=reader,
            source=given.source,
            mime_type=given.mime_type,
            path=given.path,
        )


def request_to_read(request: Request) -> Request:
    """Return the request for reading on behalf of a caller of a tool or prompt.

    Raises:
        ValueError: the access token lacks the scope to read.
    """
    if request.view is not None and not request.view.permits(READ_RESOURCE.method):
        raise ValueError(f"This requires a scope for {READ_RESOURCE.method}, which the access token lacks")
    return Request(request.call, request.channel, request.visible, view=request.view)


def _links(results: SearchResults) -> list[ContentBlock]:
    """Return links to hits, for applications that show them."""
    return [
        ResourceLink(
            uri=hit.link,
            name=hit.resource.name,
            title=hit.resource.title,
            mime_type=hit.resource.mime_type,
            annotations=hit.resource.annotations,
        )
        for hit in results.hits
    ]


def _failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(message)], is_error=True)


def _invalid(message: str, uri: str) -> InvalidParams:
    return InvalidParams(f"Invalid params: uri: {message}", {"uri": uri[:1000], "reason": "invalid"}, parameter="uri")
