"""Contract of resources and their look-up: reading, completion, search, and URIs that mean harm."""

from __future__ import annotations

import re

import msgspec
import pytest

from carrel.catalog.provider import Provider
from carrel.errors import InvalidParams, MCPError, ResourceForbidden, ResourceNotFound, ResourceTooLarge
from carrel.testing.caller import Caller, belongs, running
from carrel.testing.hooks import HOSTILE, Hooks, skip
from carrel.uri.template import UriTemplate
from carrel.wire.resources import BlobResourceContents, Resource

__all__ = ["ReadingTests"]


class ReadingTests(Hooks):
    """Reading of existing and missing resources, completion and search."""

    async def test_what_is_listed_can_be_read(self, provider: Provider) -> None:
        async with running(provider):
            for resource in (await self.readable(provider))[:50]:
                await self.check_contents(provider, resource)

    async def check_contents(self, provider: Provider, resource: Resource) -> None:
        """Read a resource, and check that its contents match its listing."""
        contents = await Caller(provider).read_resource(resource.uri)
        assert contents, "a resource that is there has contents"
        for part in contents:
            assert part.uri
            assert part.mime_type is None or "/" in part.mime_type
            msgspec.json.encode(part)
        if len(contents) == 1 and isinstance(contents[0], BlobResourceContents) and resource.size is not None:
            assert len(contents[0].blob) == resource.size

    async def test_what_is_not_there_is_not_found(self, provider: Provider) -> None:
        async with running(provider):
            uri = self.nothing(provider)
            assert belongs(provider, uri, await Caller(provider).templates())
            with pytest.raises((ResourceNotFound, ResourceForbidden)) as raised:
                await Caller(provider).read_resource(uri)
            assert raised.value.uri == uri

    async def test_what_cannot_be_read_is_refused_with_a_documented_error(self, provider: Provider) -> None:
        async with running(provider):
            uris = await self.unreadable(provider)
            if not uris:
                skip(provider, "nothing that it refuses", "unreadable")
            for uri in uris:
                with pytest.raises((ResourceNotFound, ResourceForbidden, InvalidParams)):
                    await Caller(provider).read_resource(uri)

    async def test_what_belongs_to_others_is_not_read(self, provider: Provider) -> None:
        async with running(provider):
            assert not belongs(provider, self.foreign, await Caller(provider).templates())
            with pytest.raises((ResourceNotFound, InvalidParams)):
                await Caller(provider).read_resource(self.foreign)

    async def test_a_hostile_uri_meets_with_a_documented_error(self, provider: Provider) -> None:
        async with running(provider):
            caller = Caller(provider)
            whole = await self.listed(provider, "resources")
            ours = {resource.uri for resource in (*whole[:1], *whole[-1:])}
            for uri in ours | {self.nothing(provider), self.foreign, ""}:
                for end in HOSTILE:
                    for bad in (uri + end, f"{uri}/{end}"):
                        for ask in (caller.read_resource, caller.list_directory, caller.get_skill, caller.shows):
                            try:
                                await ask(bad)
                            except MCPError:
                                pass

    async def test_what_is_over_the_limit_is_refused_with_advice(self, provider: Provider) -> None:
        async with running(provider):
            uri = await self.too_large(provider)
            if uri is None:
                skip(provider, "no limit to the size of a resource", "too_large")
            with pytest.raises(ResourceTooLarge) as raised:
                await Caller(provider).read_resource(uri)
            assert raised.value.uri == uri
            assert re.search(r"\d", raised.value.message), "the message says how much is too much"
            advised = [word.strip(",.") for word in raised.value.message.split() if word.startswith(uri)]
            assert advised, "the message has URIs that can be read instead"
            for window in advised:
                contents = await Caller(provider).read_resource(window)
                assert [part.uri for part in contents] == [window] * len(contents)

    # Completion

    async def test_completion_suggests_what_goes_on_from_what_is_typed(self, provider: Provider) -> None:
        async with running(provider):
            wanted = await self.completed(provider)
            if wanted is None:
                skip(provider, "no completion", "completed")
            template, variable, typed, expected = wanted
            assert template in [known.uri_template for known in await Caller(provider).templates()]
            found = await Caller(provider).complete(template, variable, typed)
            assert expected in found.values
            assert len(found.values) <= 100
            assert found.total is None or found.total >= len(found.values)

    async def test_completion_of_nonsense_suggests_nothing(self, provider: Provider) -> None:
        async with running(provider):
            for template in await self.listed(provider, "templates"):
                for variable in UriTemplate(template.uri_template).names:
                    for typed in ("../../", "/etc/", "\0", "no such thing, surely", "%", "\ud800", "x" * 100_000):
                        found = await Caller(provider).complete(template.uri_template, variable, typed)
                        assert not found.values, (variable, typed[:50])

    async def test_completion_of_an_unknown_template_or_variable_is_refused(self, provider: Provider) -> None:
        async with running(provider):
            if not provider.offers("complete"):
                skip(provider, "no completion")
            [template, *_] = await self.listed(provider, "templates")
            for uri, variable in (("carrel-nobody://{has}", "has"), (template.uri_template, "surely-not")):
                with pytest.raises(InvalidParams):
                    await Caller(provider).complete(uri, variable, "")

    # Search

    async def test_search_finds_best_first_and_no_more_than_asked_for(self, provider: Provider) -> None:
        async with running(provider):
            wanted = await self.searched(provider)
            if wanted is None:
                skip(provider, "no search", "searched")
            query, expected = wanted
            hits = await Caller(provider).search(query, 10)
            assert hits, "the search finds something"
            assert hits[0].resource.uri == expected
            scores = [hit.score for hit in hits]
            assert scores == sorted(scores, reverse=True)
            assert all(0 <= score <= 1 for score in scores)
            assert len(await Caller(provider).search(query, 1)) == 1

    async def test_search_for_nonsense_finds_nothing(self, provider: Provider) -> None:
        async with running(provider):
            if not provider.offers("search"):
                skip(provider, "no search")
            for query in ("", " ", "\0", "qxzqxzqxz", "\ud800", "qxz" * 10_000):
                assert len(await Caller(provider).search(query, 10)) == 0
