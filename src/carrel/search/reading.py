"""Reading of resources for the index: their texts, and whether their sources have windows of lines."""

from __future__ import annotations

import msgspec

from carrel.awaitables import resolved
from carrel.catalog.paging import all_of
from carrel.catalog.provider import Provider, Request
from carrel.errors import MCPError
from carrel.sources.documents.query import TEXT, text_uri
from carrel.wire.resources import ReadResourceResult, Resource, decoded

__all__ = ["gives_windows", "read_text"]


async def gives_windows(provider: Provider) -> bool:
    """Return whether a provider has a template for windows of lines."""
    if not provider.offers("list_templates"):
        return False
    return any([template.uri_template.endswith("{?lines}") async for template in all_of(provider.list_templates)])


async def read_text(
    provider: Provider, resource: Resource, given: ReadResourceResult | bytes | MCPError | None
) -> tuple[Resource, ReadResourceResult]:
    """Read the text of a resource that is not given: of a document, from where the list or the document says it is."""
    if isinstance(given, MCPError):
        raise given
    if given is None:
        result = decoded(await resolved(provider.read_resource(text_uri(resource), Request())))
    else:
        result = decoded(given)
    first = result.contents[0] if result.contents else None
    if first is not None and first.meta is not None and TEXT in first.meta and text_uri(resource) == resource.uri:
        meta = {**(resource.meta or {}), TEXT: first.meta[TEXT]}
        resource = msgspec.structs.replace(resource, mime_type=resource.mime_type or first.mime_type, meta=meta)
        if text_uri(resource) != resource.uri:
            result = decoded(await resolved(provider.read_resource(text_uri(resource), Request())))
    return resource, result
