"""Calls of a provider as a catalog makes them, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import msgspec

from carrel.awaitables import resolved
from carrel.catalog.provider import Change, Hit, Interest, ListName, Page, Provider, Recipients, Request, Visible
from carrel.protocol.encoding import encode
from carrel.protocol.extensions.skills import LIST_SKILLS
from carrel.protocol.methods import ITEM_KEYS, LIST_REQUESTS
from carrel.uri.parse import UriError, normalize
from carrel.uri.template import UriTemplate
from carrel.wire.base import Result
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.prompts import Prompt
from carrel.wire.resources import ReadResourceResult, Resource, ResourceContents, ResourceTemplate, decoded
from carrel.wire.skills import Skill
from carrel.wire.tools import Tool

__all__ = ["KINDS", "Caller", "Kind", "Listener", "Reports", "belongs", "key_of", "reports_of", "running"]

T = TypeVar("T")

Kind: TypeAlias = Literal["resources", "templates", "tools", "prompts", "skills"]
KINDS: dict[Kind, str] = {
    cast("Kind", row.provider_method.removeprefix("list_")): ITEM_KEYS[row.item]
    for row in (*LIST_REQUESTS.values(), LIST_SKILLS)
    if row.item is not None
}
"""Lists of a provider, and the field that is unique in each."""

TIMEOUT = 60  # seconds; nothing here takes a tenth of it, also on a busy machine


class Reports:
    """Events of a provider: the changes and the lists that it has reported."""

    def __init__(self) -> None:
        self.lists: list[ListName] = []
        self.listeners: set[asyncio.Queue[Collection[Change] | BaseException | None]] = set()
        self._loop = asyncio.get_running_loop()

    def publish(
        self,
        changes: Iterable[Change] = (),
        lists: Iterable[ListName] = (),
        recipients: Recipients | None = None,
    ) -> None:
        """Record changes, and pass them to the listeners."""
        self._loop.call_soon_threadsafe(self._publish, list(changes), list(lists))

    def _publish(self, changes: list[Change], lists: list[ListName]) -> None:
        self.lists += lists
        for queue in self.listeners:
            queue.put_nowait(changes)


_reports: WeakKeyDictionary[Provider, Reports] = WeakKeyDictionary()


def reports_of(provider: Provider) -> Reports:
    """Return the events of a provider that runs under ``running``."""
    return _reports[provider]


@asynccontextmanager
async def running(provider: Provider) -> AsyncIterator[Provider]:
    """Context manager that starts a provider, and stops it at the end."""
    reports = _reports[provider] = Reports()
    await provider.start(reports)
    try:
        yield provider
    finally:
        await provider.stop()


def belongs(provider: Provider, uri: str, templates: Iterable[ResourceTemplate] = ()) -> bool:
    """Return whether a URI belongs to a provider: by its prefixes, its exact URIs, or these templates."""
    try:
        uri = normalize(uri)
    except UriError:
        return False
    if any(is_prefix(prefix, uri) for prefix in provider.prefixes) or uri in provider.exact:
        return True
    return any(UriTemplate(template.uri_template).match(uri) is not None for template in templates)


def is_prefix(prefix: str, uri: str) -> bool:
    remaining = uri.removeprefix(prefix)
    return uri.startswith(prefix) and (not remaining or prefix[-1:] in "/:" or remaining[0] in "/?")


def key_of(kind: Kind, item: Any) -> str:
    """Return the unique key of an item in a list."""
    key: str = getattr(item, KINDS[kind])
    return key


class Caller:
    """Calls a provider on behalf of a caller, who sees the ``visible`` resources."""

    def __init__(self, provider: Provider, visible: Visible | None = None) -> None:
        self.provider = provider
        self._request = Request(visible=visible)

    def _page(self, cursor: str | None, limit: int) -> Request:
        return self._request.page(cursor, limit)

    # Lists

    async def page(self, kind: Kind, cursor: str | None = None, limit: int = 100) -> Page[Any]:
        """Return a page of a list."""
        return await resolved(getattr(self.provider, f"list_{kind}")(self._page(cursor, limit)))

    async def all(self, kind: Kind, limit: int = 100) -> list[Any]:
        """Return all items of a list, in pages of up to ``limit``."""
        return await self.remaining(kind, None, limit)

    async def remaining(self, kind: Kind, cursor: str | None, limit: int = 100) -> list[Any]:
        """Return the items of a list after a cursor."""
        found: list[Any] = []
        seen: set[str] = set()
        while True:
            page = await self.page(kind, cursor, limit)
            assert len(page.items) <= limit, f"a page of {limit} has {len(page.items)} items"
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                return found
            assert cursor not in seen, "a cursor leads back to where it came from"
            seen.add(cursor)

    async def list_resources(self, cursor: str | None = None, limit: int = 100) -> Page[Resource]:
        """Return a page of the resources."""
        return await self.page("resources", cursor, limit)

    async def resources(self, limit: int = 100) -> list[Resource]:
        """Return all resources."""
        return await self.all("resources", limit)

    async def templates(self) -> list[ResourceTemplate]:
        """Return all templates."""
        return await self.all("templates")

    async def list_directory(self, uri: str, cursor: str | None = None, limit: int = 100) -> Page[Resource]:
        """Return a page of the entries of a directory."""
        return await resolved(self.provider.list_directory(uri, self._page(cursor, limit)))

    async def directory(self, uri: str, limit: int = 100) -> list[Resource]:
        """Return all entries of a directory."""
        found: list[Resource] = []
        cursor: str | None = None
        while True:
            page = await self.list_directory(uri, cursor, limit)
            assert len(page.items) <= limit, f"a page of {limit} has {len(page.items)} items"
            assert cursor is None or cursor != page.next_cursor, "a cursor leads back to where it came from"
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                return found

    # Resources

    async def read_resource(self, uri: str) -> Sequence[ResourceContents]:
        """Return the contents of a resource."""
        result: ReadResourceResult | bytes = await resolved(self.provider.read_resource(uri, self._request))
        return decoded(result).contents

    async def shows(self, uri: str) -> bool:
        """Return whether a URI leads to nothing hidden."""
        return await resolved(self.provider.shows(uri, self._request))

    async def complete(
        self, template: str, variable: str, value: str, context: dict[str, str] | None = None
    ) -> Completion:
        """Return suggestions for a variable of a template."""
        reference = ResourceTemplateReference(template)
        return await resolved(self.provider.complete(reference, variable, value, context or {}, self._request))

    async def complete_prompt(self, name: str, argument: str, value: str) -> Completion:
        """Return suggestions for an argument of a prompt."""
        return await resolved(self.provider.complete(PromptReference(name), argument, value, {}, self._request))

    async def search(self, query: str, limit: int = 10) -> Sequence[Hit]:
        """Return the first page of search results."""
        page = await resolved(self.provider.search(query, self._page(None, limit)))
        return page.items

    async def list_skills(self, cursor: str | None = None, limit: int = 100) -> Page[Skill]:
        """Return a page of the skills."""
        return await self.page("skills", cursor, limit)

    async def get_skill(self, uri: str) -> Skill:
        """Return a skill."""
        return await resolved(self.provider.get_skill(uri, self._request))

    # Tools and prompts

    async def tools(self) -> list[Tool]:
        """Return all tools."""
        return await self.all("tools")

    async def prompts(self) -> list[Prompt]:
        """Return all prompts."""
        return await self.all("prompts")

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Result | bytes:
        """Call a tool."""
        return await resolved(self.provider.call_tool(name, msgspec.Raw(encode(arguments)), self._request))

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> Result | bytes:
        """Return the messages of a prompt."""
        return await resolved(self.provider.get_prompt(name, arguments, self._request))


class Listener:
    """Collects the changes that a provider reports, by its watch or its events, and waits for given ones."""

    def __init__(self, provider: Provider) -> None:
        self.interest = Interest(set())
        self.heard: list[Change] = []
        self._provider = provider
        self._batches: asyncio.Queue[Collection[Change] | BaseException | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Listener:
        reports_of(self._provider).listeners.add(self._batches)
        if not self._provider.offers("watch"):
            return self
        self._task = asyncio.ensure_future(self._follow())
        async with asyncio.timeout(TIMEOUT):
            first = await self._batches.get()
        if isinstance(first, BaseException):
            raise first
        assert first is not None, "the watch has ended before it has told that it listens"
        assert not first, "the first batch is empty: it says that the provider listens"
        return self

    async def __aexit__(self, *_: object) -> None:
        reports_of(self._provider).listeners.discard(self._batches)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        batches = self._provider.watch(self.interest)
        try:
            async for batch in batches:
                self._batches.put_nowait(batch)
            self._batches.put_nowait(None)
        except Exception as error:
            self._batches.put_nowait(error)
        finally:
            close = getattr(batches, "aclose", None)
            if close is not None:
                await close()

    async def batch(self) -> Collection[Change]:
        """Wait for the next batch.

        Raises:
            EOFError: the watch has ended.
        """
        async with asyncio.timeout(TIMEOUT):
            batch = await self._batches.get()
        if isinstance(batch, BaseException):
            raise batch
        if batch is None:
            self._batches.put_nowait(None)
            raise EOFError("the watch has ended")
        return batch

    async def end(self) -> None:
        """Wait until the watch ends."""
        try:
            while True:
                self.heard += await self.batch()
        except EOFError:
            pass

    async def hear(self, uri: str, *kinds: str) -> Change:
        """Wait for a change of a resource, of one of these kinds, or, without kinds, of any kind.

        A change of a resource is one of its windows, too: servers notify of ``notes.txt?lines=1-5`` with ``notes.txt``.
        """
        names = (uri, uri.partition("?")[0])
        self.interest.uris = {*self.interest.uris, uri}
        self.interest.notify()
        async with asyncio.timeout(TIMEOUT):
            while True:
                for change in self.heard:
                    if change.uri in names and (not kinds or change.kind in kinds):
                        self.heard.remove(change)
                        return change
                self.heard += await self.batch()
