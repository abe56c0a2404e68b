"""Contract of lists: pages, their order, and cursors."""

from __future__ import annotations

import re

import msgspec
import pytest

from carrel.catalog.provider import Provider
from carrel.errors import InvalidCursor, InvalidParams, MCPError, ResourceForbidden, ResourceNotFound
from carrel.testing.caller import Caller, Kind, belongs, key_of, running
from carrel.testing.hooks import BAD_CURSORS, Hooks, skip
from carrel.uri.parse import parse
from carrel.uri.template import UriTemplate

__all__ = ["ListTests"]

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


class ListTests(Hooks):
    """Pages of any size, in one order, with cursors that stay right."""

    async def first_of(self, provider: Provider, count: int) -> tuple[list[str], str | None]:
        """Return the URIs on the first page of the resources, and its cursor."""
        page = await Caller(provider).list_resources(None, count)
        return [resource.uri for resource in page.items], page.next_cursor

    async def test_pages_of_any_size_give_everything_once_in_the_same_order(self, provider: Provider) -> None:
        async with running(provider):
            for kind, whole in (await self.lists(provider)).items():
                for limit in (1, 2, 3, 7, 1000):
                    items = await Caller(provider).all(kind, limit)
                    assert [key_of(kind, item) for item in items] == whole, f"{kind} in pages of {limit}"

    async def test_what_is_listed_is_described_as_the_protocol_wants(self, provider: Provider) -> None:
        async with running(provider):
            templates = await Caller(provider).templates()
            for resource in await self.listed(provider, "resources"):
                assert parse(resource.uri).scheme
                assert belongs(provider, resource.uri, templates), resource.uri
                assert resource.name
                assert resource.mime_type is None or "/" in resource.mime_type
                assert resource.size is None or resource.size >= 0
                assert len(msgspec.json.encode(resource)) < 8192
                if resource.annotations is not None:
                    modified, priority = resource.annotations.last_modified, resource.annotations.priority
                    assert modified is None or TIMESTAMP.fullmatch(modified)
                    assert priority is None or 0 <= priority <= 1

    async def test_templates_are_templates(self, provider: Provider) -> None:
        async with running(provider):
            for template in await self.listed(provider, "templates"):
                assert UriTemplate(template.uri_template).names
                assert template.name
                msgspec.json.encode(template)

    async def test_a_page_goes_on_where_it_was_whatever_appears_meanwhile(self, provider: Provider) -> None:
        async with running(provider):
            before = [resource.uri for resource in await self.listed(provider, "resources")]
            first, cursor = await self.first_of(provider, 2)
            if await self.create(provider) is None:
                skip(provider, "no way to create a resource", "create")
            uris = [*first, *(item.uri for item in await Caller(provider).remaining("resources", cursor, 2))]
            assert [uri for uri in uris if uri in before] == before
            assert len(set(uris)) == len(uris)

    async def test_a_page_goes_on_where_it_was_whatever_disappears_meanwhile(self, provider: Provider) -> None:
        async with running(provider):
            await self.listed(provider, "resources")
            created = [uri for uri in [await self.create(provider) for _ in range(3)] if uri is not None]
            if not created:
                skip(provider, "no way to create a resource", "create")
            before = [resource.uri for resource in await Caller(provider).resources()]
            for count in range(1, len(before)):
                first, cursor = await self.first_of(provider, count)
                if not first or first[-1] not in created or cursor is None:
                    continue
                # The cursor points right after the resource that is removed now.
                created.remove(first[-1])
                await self.remove(provider, first[-1])
                remaining = await Caller(provider).remaining("resources", cursor, 2)
                now = {resource.uri for resource in await Caller(provider).resources()}
                assert first[-1] not in now
                # Others may have gone with it, such as what else there was of a table.
                assert [resource.uri for resource in remaining] == [uri for uri in before[count:] if uri in now]
                before = [uri for uri in before if uri in now]

    async def test_a_cursor_goes_on_in_another_instance_of_the_provider(self, provider: Provider) -> None:
        pages: list[tuple[Kind, list[str], str | None]] = []
        async with running(provider):
            for kind, whole in (await self.lists(provider, 2)).items():
                for count in (1, len(whole) // 2 or 1):
                    page = await Caller(provider).page(kind, None, count)
                    pages.append((kind, whole[len(page.items) :], page.next_cursor))
        other = self.again(provider)
        if other is None:
            skip(provider, "no second instance", "again")
        async with running(other):
            for kind, expected, cursor in pages:
                assert cursor is not None, f"a page of {kind} before the end has a cursor"
                remaining = await Caller(other).remaining(kind, cursor, 2)
                assert [key_of(kind, item) for item in remaining] == expected, kind

    async def test_a_cursor_that_was_never_given_out_is_refused(self, provider: Provider) -> None:
        async with running(provider):
            for kind in await self.lists(provider):
                for cursor in BAD_CURSORS:
                    with pytest.raises(InvalidCursor):
                        await Caller(provider).page(kind, cursor, 10)

    async def test_a_cursor_that_was_tampered_with_is_refused_or_does_no_harm(self, provider: Provider) -> None:
        async with running(provider):
            for kind, whole in (await self.lists(provider, 2)).items():
                cursor = (await Caller(provider).page(kind, None, 1)).next_cursor
                assert cursor is not None, f"a page of {kind} before the end has a cursor"
                for bad in (cursor[:-1], cursor + "A", cursor[::-1], f" {cursor}", cursor * 2, cursor.swapcase()):
                    try:
                        page = await Caller(provider).page(kind, bad, 2)
                    except InvalidCursor:
                        continue
                    assert {key_of(kind, item) for item in page.items} <= {*whole}, (kind, bad)

    # Directories

    async def entries(self, provider: Provider) -> str:
        """Return a directory, or skip the test."""
        uri = await self.container(provider)
        if uri is None:
            skip(provider, "no directories", "container")
        return uri

    async def test_directories_come_in_pages_as_well(self, provider: Provider) -> None:
        async with running(provider):
            uri = await self.entries(provider)
            templates = await Caller(provider).templates()
            whole = [entry.uri for entry in await Caller(provider).directory(uri, 1000)]
            assert len(whole) >= 3
            assert len(set(whole)) == len(whole)
            assert all(belongs(provider, entry, templates) for entry in whole)
            for limit in (1, 2):
                assert [entry.uri for entry in await Caller(provider).directory(uri, limit)] == whole

    async def test_a_cursor_of_a_directory_goes_on_in_another_instance(self, provider: Provider) -> None:
        async with running(provider):
            uri = await self.entries(provider)
            whole = [entry.uri for entry in await Caller(provider).directory(uri)]
            first = await Caller(provider).list_directory(uri, None, 1)
        other = self.again(provider)
        if other is None:
            skip(provider, "no second instance", "again")
        async with running(other):
            remaining = await Caller(other).list_directory(uri, first.next_cursor, 1000)
            assert [entry.uri for entry in remaining.items] == whole[len(first.items) :]

    async def test_the_cursor_of_one_list_is_refused_by_another(self, provider: Provider) -> None:
        async with running(provider):
            uri = await self.entries(provider)
            of_list = (await Caller(provider).list_resources(None, 2)).next_cursor
            of_directory = (await Caller(provider).list_directory(uri, None, 1)).next_cursor
            with pytest.raises(InvalidCursor):
                await Caller(provider).list_directory(uri, of_list, 2)
            with pytest.raises(InvalidCursor):
                await Caller(provider).list_resources(of_directory, 2)

    async def test_what_is_no_directory_has_no_entries(self, provider: Provider) -> None:
        async with running(provider):
            for uri in (self.nothing(provider), self.foreign):
                with pytest.raises((ResourceNotFound, ResourceForbidden, InvalidParams)):
                    await Caller(provider).list_directory(uri)

    async def test_a_provider_without_directories_says_so(self, provider: Provider) -> None:
        async with running(provider):
            if provider.offers("list_directory"):
                skip(provider, "directories")
            for resource in (await self.listed(provider, "resources"))[:5]:
                with pytest.raises(MCPError):
                    await Caller(provider).list_directory(resource.uri)
