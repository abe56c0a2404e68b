"""Transform: the resources of a provider as three read-only tools, for hosts whose model cannot see resources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw, to_builtins

from carrel.awaitables import resolved
from carrel.catalog.paging import all_of
from carrel.catalog.provider import Page, Provider, Request
from carrel.errors import InvalidParams, ResourceError, ResourceForbidden, ResourceNotFound, ToolError
from carrel.protocol.extensions.skills import READ_DIRECTORY
from carrel.protocol.methods import LIST_RESOURCE_TEMPLATES, LIST_RESOURCES, READ_RESOURCE
from carrel.protocol.methods import RequestType as Row
from carrel.uri.parse import UriError, normalize
from carrel.wire.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent, TextContent
from carrel.wire.resources import (
    BlobResourceContents,
    ReadResourceResult,
    Resource,
    TextResourceContents,
    decoded,
)
from carrel.wire.tools import CallToolResult, Tool, ToolAnnotations

__all__ = ["ResourcesAsTools"]

READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
MAX_HITS = 100


class ListArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of list_resources."""

    directory: str | None = None
    cursor: str | None = None


class ReadArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of read_resource."""

    uri: str


class ResourceSearchArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of search_resources."""

    query: str
    limit: int = 20


def _schema(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _nullable(description: str) -> dict[str, Any]:
    return {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None, "description": description}


TOOLS = [
    Tool(
        name="list_resources",
        title="List resources",
        description="List the resources that are here: their URIs, names, types and sizes.",
        input_schema=_schema(
            [],
            directory=_nullable("URI of a directory to look into; without it, everything is listed"),
            cursor=_nullable("nextCursor of the previous page"),
        ),
        output_schema={"type": "object", "additionalProperties": True},
        annotations=READ_ONLY,
    ),
    Tool(
        name="read_resource",
        title="Read a resource",
        description="Read a resource.",
        input_schema=_schema(
            ["uri"],
            uri={
                "type": "string",
                "description": "URI of the resource, as list_resources or search_resources gave it",
            },
        ),
        annotations=READ_ONLY,
    ),
    Tool(
        name="search_resources",
        title="Search resources",
        description="Find resources by name.",
        input_schema=_schema(
            ["query"],
            query={"type": "string", "description": "Words to look for in names and URIs"},
            limit={"type": "integer", "default": 20, "description": "How many to return at most"},
        ),
        output_schema={"type": "object", "additionalProperties": True},
        annotations=READ_ONLY,
    ),
]


class ResourcesAsTools(Provider):
    """Provider of the tools list_resources, read_resource and search_resources over another provider's resources.

    The tools respect the rights of the caller. Lists have ``page_size`` entries. Without
    ``search``, search_resources is left out.
    """

    prompt_names = frozenset[str]()

    def __init__(self, provider: Provider, page_size: int = 100, *, search: bool = True) -> None:
        self.name = f"{provider.name} as tools"
        self._provider = provider
        self._page_size = page_size
        self._tools: dict[str, Callable[[Raw, Request], Awaitable[CallToolResult]]] = {
            "list_resources": self._list,
            "read_resource": self._read,
            "search_resources": self._search,
        }
        if not search:
            del self._tools["search_resources"]
        self._listed = [tool for tool in TOOLS if tool.name in self._tools]
        self.tool_names: frozenset[str] = frozenset(self._tools)

    def list_tools(self, request: Request) -> Page[Tool]:
        """Return the tools."""
        return Page(self._listed)

    async def call_tool(self, name: str, arguments: Raw, request: Request) -> CallToolResult:
        """Call one of the tools.

        Raises:
            InvalidParams: there is no such tool.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise InvalidParams(f"Invalid params: unknown tool: {name[:200]}", parameter="name")
        request = Request(request.call, request.channel, request.visible, view=request.view)
        try:
            return await tool(arguments, request)
        except msgspec.ValidationError as error:
            return _failed(f"Invalid arguments: {error}")
        except InvalidParams as error:
            return _failed(error.message.removeprefix("Invalid params: "))
        except ResourceForbidden as error:
            return _failed(str(ResourceNotFound(error.uri)))  # a hidden resource does not exist for the caller
        except (ResourceError, ToolError) as error:
            return _failed(str(error))

    async def _list(self, arguments: Raw, request: Request) -> CallToolResult:
        given = msgspec.json.decode(arguments, type=ListArguments)
        _check(request, LIST_RESOURCES if given.directory is None else READ_DIRECTORY)
        asked = request.page(given.cursor, self._page_size)
        if given.directory is None:
            page = await resolved(self._provider.list_resources(asked))
            if given.cursor is None and _permits(request, LIST_RESOURCE_TEMPLATES):
                templates = [found.uri_template async for found in all_of(self._provider.list_templates, request)]
                return _described(page, templates)
        else:
            page = await resolved(self._provider.list_directory(_normal(given.directory), asked))
        return _described(page)

    async def _read(self, arguments: Raw, request: Request) -> CallToolResult:
        uri = msgspec.json.decode(arguments, type=ReadArguments).uri
        _check(request, READ_RESOURCE)
        if not request.allows("read", uri):
            raise ResourceNotFound(uri)
        result: ReadResourceResult | bytes = await resolved(self._provider.read_resource(uri, request))
        return CallToolResult(content=[_block(contents) for contents in decoded(result).contents])

    async def _search(self, arguments: Raw, request: Request) -> CallToolResult:
        given = msgspec.json.decode(arguments, type=ResourceSearchArguments)
        _check(request, LIST_RESOURCES)
        if given.limit < 1:
            raise ToolError("limit must be at least 1")
        page = await resolved(self._provider.search(given.query, request.page(None, min(given.limit, MAX_HITS))))
        return _described(Page([hit.resource for hit in page.items]))


def _permits(request: Request, row: Row) -> bool:
    return request.view is None or request.view.permits(row.method)


def _check(request: Request, row: Row) -> None:
    """Check that the caller may send the request that a tool stands for.

    Raises:
        ToolError: its scopes do not permit that method.
    """
    if not _permits(request, row):
        raise ToolError(f"This requires a scope for {row.method}, which the access token lacks")


def _normal(uri: str) -> str:
    try:
        return normalize(uri)
    except UriError as error:
        raise ToolError(f"{uri[:1000]}: {error}") from None


def _failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(message)], is_error=True)


def _described(page: Page[Resource], templates: list[str] | None = None) -> CallToolResult:
    found: dict[str, Any] = {"resources": [to_builtins(resource) for resource in page.items]}
    if page.next_cursor is not None:
        found["nextCursor"] = page.next_cursor
    if templates:
        found["templates"] = templates
    return CallToolResult(content=[TextContent(msgspec.json.encode(found).decode())], structured_content=found)


def _block(contents: TextResourceContents | BlobResourceContents) -> ContentBlock:
    """Return contents as the block that most models can take: text, image or audio, else an embedded resource."""
    if isinstance(contents, TextResourceContents):
        return TextContent(contents.text)
    kind = (contents.mime_type or "").partition("/")[0]
    if kind == "image":
        return ImageContent(contents.blob, contents.mime_type or "")
    if kind == "audio":
        return AudioContent(contents.blob, contents.mime_type or "")
    return EmbeddedResource(contents)
