"""A provider of numbered resources, for tests of what servers make of providers."""

from __future__ import annotations

from collections.abc import Mapping

from carrel.catalog.provider import Page, Provider, Request
from carrel.errors import InvalidCursor, ResourceNotFound
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents


class Numbers(Provider):
    """A provider of ``count`` resources whose cursors are the last number."""

    def __init__(self, name: str, count: int) -> None:
        self.name = name
        self.prefixes = (f"{name}:",)
        self.count = count

    async def list_resources(self, request: Request) -> Page[Resource]:
        cursor = request.cursor
        if cursor is not None and not cursor.isdecimal():
            raise InvalidCursor
        begin = 0 if cursor is None else int(cursor)
        end = min(begin + request.limit, self.count)
        items = [Resource(f"{self.name}:{number}", str(number)) for number in range(begin, end)]
        return Page(items, str(end) if end < self.count else None)

    async def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        return Page([ResourceTemplate(f"{self.name}:{{number}}", self.name)])

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        if not uri.rpartition(":")[2].isdecimal():
            raise ResourceNotFound(uri)
        return ReadResourceResult(contents=[TextResourceContents(uri, uri)])

    async def complete(
        self,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
    ) -> Completion:
        return Completion([value + "0"])
