"""The resources of a server as three read-only tools, for hosts whose model cannot see resources itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec import UNSET, to_builtins

from carrel.errors import InvalidParams, ResourceError, ResourceForbidden, ResourceNotFound, ToolError
from carrel.server.completion import filter_choices
from carrel.server.context import Context
from carrel.server.listing import decode_cursor, encode_cursor
from carrel.server.views import Visible, shown, source_seen, visible_to
from carrel.wire.content import AudioContent, ContentBlock, EmbeddedResource, ImageContent, TextContent
from carrel.wire.resources import BlobResourceContents, ListResourcesResult, Resource, TextResourceContents

if TYPE_CHECKING:
    from carrel.server.app import Server

__all__ = ["mirror"]

F = TypeVar("F", bound=Callable[..., Any])

READ_ONLY = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}


def mirror(app: Server) -> None:
    """Register list_resources, read_resource and search_resources with ``app``.

    Raises:
        ConfigError: a tool of that name is there already.
    """

    @_mendable
    async def list_resources(
        directory: Annotated[str | None, "URI of a directory to look into; without it, everything is listed"] = None,
        cursor: Annotated[str | None, "nextCursor of the answer before, to go on"] = None,
        *,
        context: Context,
    ) -> dict[str, Any]:
        """List the resources that are here: their URIs, names, types and sizes."""
        visible = visible_to(context.call)
        if directory is None:
            return await _list(app, cursor, visible)
        segment, position = (0, None) if cursor is None else decode_cursor(directory, cursor)
        source, uri = app.resources.find_source(directory, visible)
        if segment != 0 or source is None:
            raise ResourceNotFound(directory)
        page = await source.children(uri, None if position is None else str(position), app.page_size)
        more = None if page.next_cursor is None else encode_cursor(directory, 0, page.next_cursor)
        return _described(shown(page.items, visible), more)

    @_mendable
    async def read_resource(
        uri: Annotated[str, "URI of the resource, as list_resources or search_resources gave it"], context: Context
    ) -> list[Any]:
        """Read a resource."""
        contents = await app.read(uri, context)
        return [_block(content) for content in contents]

    async def search_resources(
        query: Annotated[str, "Words to look for in names and URIs"],
        limit: Annotated[int, "How many to return at most"] = 20,
        *,
        context: Context,
    ) -> dict[str, Any]:
        """Find resources by name."""
        if limit < 1:
            raise ToolError("limit must be at least 1")
        return _described(await _search(app, query, min(limit, 100), visible_to(context.call)))

    app.tools.add(list_resources, title="List resources", annotations=READ_ONLY)
    app.tools.add(read_resource, title="Read a resource", annotations=READ_ONLY, structured=False)
    app.tools.add(search_resources, title="Search resources", annotations=READ_ONLY)


def _mendable(function: F) -> F:
    """Convert errors of parameters and of resources to ``ToolError``, whose message the model gets."""

    @wraps(function)
    async def call(**arguments: Any) -> Any:
        try:
            return await function(**arguments)
        except InvalidParams as error:
            raise ToolError(error.message.removeprefix("Invalid params: ")) from None
        except ResourceForbidden as error:
            raise ToolError(str(ResourceNotFound(error.uri))) from None  # what may not be read does not exist
        except ResourceError as error:
            raise ToolError(str(error)) from None

    return call  # type: ignore[return-value]


async def _list(app: Server, cursor: str | None, visible: Visible | None) -> dict[str, Any]:
    result: ListResourcesResult = await app.resources.page(cursor, visible)
    described = _described(result.resources, None if result.next_cursor is UNSET else result.next_cursor)
    templates = [template.uri_template for template in app.resources.templates_seen(visible)]
    return {**described, "templates": templates} if templates and cursor is None else described


def _described(resources: list[Resource], next_cursor: str | None = None) -> dict[str, Any]:
    found = {"resources": [to_builtins(resource) for resource in resources]}
    return found if next_cursor is None else {**found, "nextCursor": next_cursor}


def _block(content: TextResourceContents | BlobResourceContents) -> ContentBlock:
    """Return contents as the block that most models can take: text, image or audio, else an embedded resource."""
    if isinstance(content, TextResourceContents):
        return TextContent(content.text)
    kind = (content.mime_type or "").partition("/")[0]
    if kind == "image":
        return ImageContent(content.blob, content.mime_type or "")
    if kind == "audio":
        return AudioContent(content.blob, content.mime_type or "")
    return EmbeddedResource(content)


async def _search(app: Server, query: str, limit: int, visible: Visible | None) -> list[Resource]:
    listed = shown(app.resources.listed, visible)
    by_name = {f"{resource.title or ''} {resource.name} {resource.uri}": resource for resource in listed}
    found = [by_name[text] for text in filter_choices(by_name, query)][:limit]
    for source in app.resources.sources:
        if len(found) < limit:
            hits = await source_seen(source, visible).search(query, limit - len(found))
            found.extend(shown((hit.resource for hit in hits), visible))
    return found
