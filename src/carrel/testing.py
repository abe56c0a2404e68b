"""Contract tests for resource sources, as a pytest class to inherit.

    from carrel.testing import SourceContract

    class TestNotes(SourceContract):
        @pytest.fixture
        def source(self, tmp_path):
            return NotesSource(tmp_path)        # with some resources in it, not started

        async def create(self, source): ...     # make one more, and return its URI
        async def change(self, source, uri): ...
        async def remove(self, source, uri): ...
        def missing(self, source): ...          # a URI of the source where there is nothing

The tests are asynchronous and need pytest-asyncio. ``docs/writing-a-source.md`` explains what they require, and why.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain, islice, product
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec import UNSET

from carrel.errors import (
    InvalidCursor,
    InvalidParams,
    MCPError,
    ResourceForbidden,
    ResourceNotFound,
    ResourceTooLarge,
)
from carrel.server.skills import SkillSource
from carrel.server.source import Change, Page, Source
from carrel.uri.parse import parse
from carrel.uri.template import UriTemplate
from carrel.wire.resources import BlobResourceContents, Resource

__all__ = ["SourceContract", "listed", "running"]

T = TypeVar("T")

TIMEOUT = 10  # seconds; nothing here takes a tenth of it
ROUNDS = 10
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
BAD_CURSORS = ("", "0", "1", "nonsense", "bm9uc2Vuc2U", "====", "é", "\0", "../..", "x" * 100_000)
HOSTILE = (
    "..",
    "../..",
    "%2e%2e/x",
    "%2e%2e%2fx",
    "%00",
    "x%00y",
    "\0",
    "%",
    "%zz",
    "?",
    "??",
    "?lines=",
    "#",
    "//",
    "\\",
    "é",
)


@asynccontextmanager
async def running(source: Source) -> AsyncIterator[Source]:
    """Context manager that starts a source, and stops it at the end."""
    await source.start()
    try:
        yield source
    finally:
        await source.stop()


async def listed(source: Source, limit: int = 100) -> list[Resource]:
    """Return all resources that a source lists, in pages of up to ``limit``."""
    return await collect(lambda cursor: source.list(cursor, limit), limit)


async def collect(ask: Callable[[str | None], Awaitable[Page[Resource]]], limit: int) -> list[Resource]:
    found: list[Resource] = []
    cursor: str | None = None
    seen: set[str] = set()
    while True:
        page = await ask(cursor)
        assert len(page.items) <= limit, f"a page of {limit} has {len(page.items)} items"
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found
        assert cursor not in seen, "a cursor leads back to where it came from"
        seen.add(cursor)


class Listener:
    """Collects the changes that a watch yields, and waits for given ones."""

    def __init__(self, batches: AsyncIterator[Collection[Change]]) -> None:
        self._batches = batches
        self.heard: list[Change] = []

    async def __aenter__(self) -> Listener:
        async with asyncio.timeout(TIMEOUT):
            first = await anext(self._batches)
        assert not first, "the first batch is empty: it says that the source listens"
        return self

    async def __aexit__(self, *_: object) -> None:
        close = getattr(self._batches, "aclose", None)
        if close is not None:
            await close()

    async def hear(self, uri: str, *kinds: str) -> Change:
        """Wait for a change to a resource, of one of these kinds, or of any kind if none is given."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                for change in self.heard:
                    if change.uri == uri and (not kinds or change.kind in kinds):
                        self.heard.remove(change)
                        return change
                self.heard += await anext(self._batches)


@pytest.mark.asyncio
class SourceContract:
    """Contract tests for a source. Inherit it, provide a fixture ``source``, and override the hooks below."""

    foreign = "carrel-nobody://has/this"
    """A URI that the source does not own."""

    # Hooks for the author of the source

    @pytest.fixture
    def source(self) -> Source:
        """Return a source that has not been started, with at least five resources to list."""
        raise pytest.UsageError(f"{type(self).__name__} needs a fixture called source")

    async def create(self, source: Source) -> str | None:
        """Create another resource that is listed, and return its URI. None if that is not possible."""
        return None

    async def change(self, source: Source, uri: str) -> None:
        """Change the contents of a resource made by ``create``."""

    async def remove(self, source: Source, uri: str) -> None:
        """Remove a resource made by ``create``."""

    def missing(self, source: Source) -> str:
        """Return a URI that the source owns, but that does not exist."""
        raise pytest.UsageError(f"{type(self).__name__} needs a method called missing")

    async def too_large(self, source: Source) -> str | None:
        """Return the URI of a resource over the size limit; None if there is no limit."""
        return None

    async def container(self, source: Source) -> str | None:
        """Return the URI of a resource with at least three children; None if no resource has any."""
        return None

    async def unreadable(self, source: Source) -> Collection[str]:
        """Return URIs that the source owns and refuses, one for each reason it has: not shared, not permitted, ….

        Reading them raises ``ResourceNotFound``, ``ResourceForbidden`` or ``InvalidParams``.
        """
        return []

    async def searched(self, source: Source) -> tuple[str, str] | None:
        """Return a search query, and the URI of its expected first hit; None if there is no search."""
        return None

    async def completed(self, source: Source) -> tuple[str, str, str, str] | None:
        """Return a template, a variable, a partial value, and an expected value; None if there are no templates."""
        return None

    # Listing

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
    async def test_pages_of_any_size_give_everything_once_in_the_same_order(self, source: Source, limit: int) -> None:
        async with running(source):
            whole = [resource.uri for resource in await listed(source, 1000)]
            assert len(whole) >= 5, "the contract needs a source with five resources"
            assert len(set(whole)) == len(whole)
            assert [resource.uri for resource in await listed(source, limit)] == whole

    async def test_what_is_listed_is_described_as_the_protocol_wants(self, source: Source) -> None:
        async with running(source):
            for resource in await listed(source):
                assert parse(resource.uri).scheme
                assert source.owns(resource.uri), resource.uri
                assert resource.name
                assert resource.mime_type is UNSET or "/" in resource.mime_type
                assert resource.size is UNSET or resource.size >= 0
                assert len(msgspec.json.encode(resource)) < 8192
                if resource.annotations is not UNSET:
                    modified, priority = resource.annotations.last_modified, resource.annotations.priority
                    assert modified is UNSET or TIMESTAMP.fullmatch(modified)
                    assert priority is UNSET or 0 <= priority <= 1

    async def test_what_is_listed_can_be_read(self, source: Source) -> None:
        async with running(source):
            for resource in (await self.readable(source))[:50]:
                await self.check_contents(source, resource)

    async def test_a_page_goes_on_where_it_was_whatever_appears_meanwhile(self, source: Source) -> None:
        async with running(source):
            before = [resource.uri for resource in await listed(source)]
            first = await source.list(None, 2)
            if await self.create(source) is None:
                return
            rest = await collect(lambda cursor: source.list(cursor or first.next_cursor, 2), 2)
            uris = [resource.uri for resource in [*first.items, *rest]]
            assert [uri for uri in uris if uri in before] == before
            assert len(set(uris)) == len(uris)

    async def test_a_page_goes_on_where_it_was_whatever_disappears_meanwhile(self, source: Source) -> None:
        async with running(source):
            created = [uri for uri in [await self.create(source) for _ in range(3)] if uri is not None]
            before = [resource.uri for resource in await listed(source)]
            for count in range(1, len(before)):
                first = await source.list(None, count)
                if not created or first.items[-1].uri not in created:
                    continue
                # The cursor points right after the resource that is removed now.
                gone = first.items[-1].uri
                created.remove(gone)
                await self.remove(source, gone)
                rest = await collect(lambda cursor: source.list(cursor or first.next_cursor, 2), 2)  # noqa: B023
                assert [resource.uri for resource in rest] == before[count:]
                before.remove(gone)

    @pytest.mark.parametrize("cursor", BAD_CURSORS)
    async def test_a_cursor_that_was_never_given_out_is_refused(self, source: Source, cursor: str) -> None:
        async with running(source):
            with pytest.raises(InvalidCursor):
                await source.list(cursor, 10)

    async def test_a_cursor_that_was_tampered_with_is_refused_or_does_no_harm(self, source: Source) -> None:
        async with running(source):
            whole = {resource.uri for resource in await listed(source)}
            cursor = (await source.list(None, 2)).next_cursor
            assert cursor is not None
            for bad in (cursor[:-1], cursor + "A", cursor[::-1], f" {cursor}", cursor * 2, cursor.swapcase()):
                try:
                    page = await source.list(bad, 2)
                except InvalidCursor:
                    continue
                assert {resource.uri for resource in page.items} <= whole

    # Reading

    async def test_what_is_not_there_is_not_found(self, source: Source) -> None:
        async with running(source):
            uri = self.missing(source)
            assert source.owns(uri)
            with pytest.raises((ResourceNotFound, ResourceForbidden)) as raised:
                await source.read(uri)
            assert raised.value.uri == uri

    async def test_what_cannot_be_read_is_refused_with_a_documented_error(self, source: Source) -> None:
        async with running(source):
            for uri in await self.unreadable(source):
                assert source.owns(uri), uri
                with pytest.raises((ResourceNotFound, ResourceForbidden, InvalidParams)):
                    await source.read(uri)

    async def test_what_belongs_to_others_is_neither_owned_nor_read(self, source: Source) -> None:
        async with running(source):
            assert not source.owns(self.foreign)
            with pytest.raises((ResourceNotFound, InvalidParams)):
                await source.read(self.foreign)

    async def test_a_hostile_uri_meets_with_a_documented_error(self, source: Source) -> None:
        async with running(source):
            whole = await listed(source)
            for uri in {resource.uri for resource in whole[:3]} | {self.missing(source), self.foreign, ""}:
                for end in HOSTILE:
                    for bad in (uri + end, f"{uri}/{end}"):
                        source.owns(bad)
                        for ask in (source.read(bad), source.children(bad, None, 10)):
                            try:
                                await ask
                            except MCPError:
                                pass

    async def test_what_is_over_the_limit_is_refused_with_advice(self, source: Source) -> None:
        async with running(source):
            uri = await self.too_large(source)
            if uri is None:
                return
            with pytest.raises(ResourceTooLarge) as raised:
                await source.read(uri)
            assert raised.value.uri == uri
            assert re.search(r"\d", raised.value.message), "the message says how much is too much"
            advised = [word.strip(",.") for word in raised.value.message.split() if word.startswith(uri)]
            assert advised, "the message has URIs that can be read instead"
            for window in advised:
                assert source.owns(window)
                contents = await source.read(window)
                assert [part.uri for part in contents] == [window] * len(contents)

    # Children

    async def test_children_come_in_pages_as_well(self, source: Source) -> None:
        async with running(source):
            uri = await self.container(source)
            if uri is None:
                return
            whole = [child.uri for child in await collect(lambda cursor: source.children(uri, cursor, 1000), 1000)]
            assert len(whole) >= 3
            assert len(set(whole)) == len(whole)
            assert all(source.owns(child) for child in whole)
            for limit in (1, 2):
                paged = await collect(lambda cursor: source.children(uri, cursor, limit), limit)  # noqa: B023
                assert [child.uri for child in paged] == whole

    async def test_the_cursor_of_one_list_is_refused_by_another(self, source: Source) -> None:
        async with running(source):
            uri = await self.container(source)
            if uri is None:
                return
            of_list = (await source.list(None, 2)).next_cursor
            of_children = (await source.children(uri, None, 1)).next_cursor
            with pytest.raises(InvalidCursor):
                await source.children(uri, of_list, 2)
            with pytest.raises(InvalidCursor):
                await source.list(of_children, 2)

    async def test_what_has_nothing_inside_by_its_nature_has_no_children(self, source: Source) -> None:
        async with running(source):
            for uri in (self.missing(source), self.foreign):
                with pytest.raises((ResourceNotFound, ResourceForbidden, InvalidParams)):
                    await source.children(uri, None, 10)

    # Templates, completion, search

    async def test_templates_are_templates(self, source: Source) -> None:
        async with running(source):
            templates = source.templates()
            assert len({template.uri_template for template in templates}) == len(templates)
            for template in templates:
                assert UriTemplate(template.uri_template).names
                assert template.name
                msgspec.json.encode(template)

    async def test_completion_suggests_what_goes_on_from_what_is_typed(self, source: Source) -> None:
        async with running(source):
            wanted = await self.completed(source)
            if wanted is None:
                return
            template, variable, typed, expected = wanted
            assert template in [known.uri_template for known in source.templates()]
            found = await source.complete(template, variable, typed, {})
            assert expected in found.values
            assert len(found.values) <= 100
            assert found.total is UNSET or found.total >= len(found.values)

    async def test_completion_of_nonsense_suggests_nothing(self, source: Source) -> None:
        async with running(source):
            for template in source.templates():
                for variable in UriTemplate(template.uri_template).names:
                    for typed in ("../../", "/etc/", "\0", "no such thing, surely", "%", "\ud800", "x" * 100_000):
                        found = await source.complete(template.uri_template, variable, typed, {})
                        assert not found.values, (variable, typed[:50])

    async def test_search_finds_best_first_and_no_more_than_asked_for(self, source: Source) -> None:
        async with running(source):
            wanted = await self.searched(source)
            if wanted is None:
                return
            query, expected = wanted
            hits = await source.search(query, 10)
            assert hits[0].resource.uri == expected
            scores = [hit.score for hit in hits]
            assert scores == sorted(scores, reverse=True)
            assert all(0 <= score <= 1 for score in scores)
            assert len(await source.search(query, 1)) == 1

    async def test_search_for_nonsense_finds_nothing(self, source: Source) -> None:
        async with running(source):
            for query in ("", " ", "\0", "qxzqxzqxz", "\ud800", "qxz" * 10_000):
                assert len(await source.search(query, 10)) == 0

    # Changes

    async def test_a_watch_tells_what_is_created_changed_and_removed(self, source: Source) -> None:
        async with running(source), Listener(source.watch()) as listener:
            uri = await self.create(source)
            if uri is None:
                return
            await listener.hear(uri, "created")
            await self.change(source, uri)
            await listener.hear(uri, "changed")
            await self.remove(source, uri)
            await listener.hear(uri, "removed")

    async def test_two_watches_both_hear(self, source: Source) -> None:
        async with running(source), Listener(source.watch()) as one, Listener(source.watch()) as other:
            uri = await self.create(source)
            if uri is None:
                return
            await asyncio.gather(one.hear(uri, "created"), other.hear(uri, "created"))

    async def test_a_watch_ends_when_the_source_stops(self, source: Source) -> None:
        batches = source.watch()
        async with running(source):
            async with asyncio.timeout(TIMEOUT):
                await anext(batches)
            waiting = asyncio.ensure_future(anext(batches, None))
            await asyncio.sleep(0)
        async with asyncio.timeout(TIMEOUT):
            assert not await waiting

    async def test_a_watch_can_be_cancelled_while_it_waits(self, source: Source) -> None:
        async with running(source):
            batches = source.watch()
            async with asyncio.timeout(TIMEOUT):
                await anext(batches)
            waiting = asyncio.ensure_future(anext(batches))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    # All together

    async def test_everything_may_be_asked_for_at_once(self, source: Source) -> None:
        async with running(source):
            whole = await listed(source)
            some = (await self.readable(source))[:5]
            alone = [await source.read(resource.uri) for resource in some]

            async def list_again() -> None:
                assert [resource.uri for resource in await listed(source, 3)] == [resource.uri for resource in whole]

            async def read_again() -> None:
                assert [await source.read(resource.uri) for resource in some] == alone

            async with asyncio.timeout(TIMEOUT * 6):
                await asyncio.gather(*(ask() for _ in range(20) for ask in (list_again, read_again)))

    async def test_stop_lets_go_of_everything(self, source: Source) -> None:
        tasks, threads, descriptors = asyncio.all_tasks(), set(threading.enumerate()), count_descriptors()
        for _ in range(ROUNDS):
            await source.start()
            try:
                whole = await self.readable(source)
                await asyncio.gather(*(source.read(resource.uri) for resource in whole[:10]))
                batches = source.watch()
                async with asyncio.timeout(TIMEOUT):
                    await anext(batches)
            finally:
                await source.stop()
                await source.stop()
            async with asyncio.timeout(TIMEOUT):
                assert await anext(batches, None) is None
        await asyncio.get_running_loop().shutdown_default_executor()  # the loop's own threads are not the source's
        assert asyncio.all_tasks() <= tasks
        assert set(threading.enumerate()) <= threads
        await fewer_descriptors_than(descriptors + ROUNDS)

    async def test_no_operation_leaves_a_descriptor_open(self, source: Source) -> None:
        async with running(source):
            for name, operation in [pair async for pair in self.operations(source)]:
                for again in range(1 + ROUNDS):
                    try:
                        await operation()
                    except MCPError:
                        pass
                    if not again:  # the first call may open what stays open
                        before = count_descriptors()
                try:
                    await fewer_descriptors_than(before + ROUNDS)
                except TimeoutError:
                    pytest.fail(f"{name} leaves descriptors open: {count_descriptors() - before} in {ROUNDS} times")

    async def operations(self, source: Source) -> AsyncIterator[tuple[str, Callable[[], Awaitable[Any]]]]:
        """Yield all operations of a source, each with a name, including calls that fail."""
        whole = await listed(source)
        yield "list", lambda: listed(source, 10)
        for cursor in BAD_CURSORS[:4]:
            yield f"list from {cursor!r}", partial(source.list, cursor, 10)
        uris = {resource.uri for resource in whole[:50]} | {self.missing(source), self.foreign}
        uris |= {uri for uri in (await self.too_large(source), await self.container(source)) if uri is not None}
        for uri in sorted({*uris, *await self.unreadable(source), *await self.windows(source, whole)}):
            yield f"read {uri}", partial(source.read, uri)
            yield f"children of {uri}", partial(source.children, uri, None, 2)
        for end in HOSTILE:
            yield f"read …{end!r}", partial(source.read, f"{whole[-1].uri}{end}")
        for template in source.templates():
            for variable in UriTemplate(template.uri_template).names:
                for typed in ("", "a", "../", "no such thing, surely/"):
                    complete = partial(source.complete, template.uri_template, variable, typed, {})
                    yield f"completion of {variable} from {typed!r}", complete
        for query in ("", "a", (await self.searched(source) or ("e",))[0]):
            yield f"search for {query!r}", partial(source.search, query, 10)
        if isinstance(source, SkillSource):
            yield "skills", partial(source.skills, None, 100)
            for uri in (self.missing(source), *(skill.uri for skill in (await source.skills(None, 5)).items)):
                yield f"skill {uri}", partial(source.skill, uri)

        async def watch() -> None:
            async with Listener(source.watch()):
                pass

        yield "watch", watch

    async def windows(self, source: Source, whole: Sequence[Resource]) -> list[str]:
        """Return URIs expanded from the templates with values from completion, up to 40 for each template."""
        found: list[str] = []
        for template in (UriTemplate(template.uri_template) for template in source.templates()):
            values = {}
            for name in template.names:
                suggested = (await source.complete(str(template), name, "", {})).values
                deeper = [value for value in suggested[:5] if value.endswith("/")]
                inside = [(await source.complete(str(template), name, value, {})).values[:5] for value in deeper]
                values[name] = [*suggested[:5], *suggested[-2:], *chain(*inside)]
            some = islice(product(*values.values()), 40)
            found += [template.expand(dict(zip(values, chosen, strict=True))) for chosen in some]
        return found

    async def readable(self, source: Source) -> list[Resource]:
        """Return the listed resources, without the one over the size limit."""
        too_large = await self.too_large(source)
        return [resource for resource in await listed(source) if resource.uri != too_large]

    async def check_contents(self, source: Source, resource: Resource) -> None:
        """Read a resource, and check that its contents match its listing."""
        contents = await source.read(resource.uri)
        assert contents, "a resource that is there has contents"
        for part in contents:
            assert part.uri
            assert part.mime_type is UNSET or "/" in part.mime_type
            msgspec.json.encode(part)
        if len(contents) == 1 and isinstance(contents[0], BlobResourceContents) and resource.size is not UNSET:
            assert len(contents[0].blob) == resource.size


def count_descriptors() -> int:
    """Return the number of open file descriptors of this process, or 0 where the system does not show them."""
    for path in ("/proc/self/fd", "/dev/fd"):
        try:
            return len(os.listdir(path))  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):  # being out of descriptors is an error
            continue
    return 0


async def fewer_descriptors_than(number: int) -> None:
    """Wait until fewer descriptors than ``number`` are open, because the system may close its own a little later.

    Raises:
        TimeoutError: they stay open.
    """
    async with asyncio.timeout(TIMEOUT):
        while count_descriptors() >= number:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
