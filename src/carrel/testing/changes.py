"""Contract for a provider's lifecycle: changes, concurrent calls, and leaks."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import chain, islice, product
from typing import Any

import pytest

from carrel.catalog.provider import Interest, Provider
from carrel.errors import MCPError
from carrel.testing.caller import TIMEOUT, Caller, Kind, Listener, running
from carrel.testing.hooks import BAD_CURSORS, HOSTILE, Hooks, skip
from carrel.uri.template import UriTemplate
from carrel.wire.resources import Resource

__all__ = ["ChangeTests", "count_descriptors"]


class ChangeTests(Hooks):
    """Watching, concurrency, and resources of the process."""

    rounds = 2
    """How often an operation is repeated to see whether it leaves something open."""

    def requires_watch(self, provider: Provider) -> None:
        """Skip the test unless the provider has a watch."""
        if not provider.offers("watch"):
            skip(provider, "no watch")

    async def created(self, provider: Provider) -> str:
        """Create a resource, or skip the test."""
        uri = await self.create(provider)
        if uri is None:
            skip(provider, "no way to create a resource", "create")
        return uri

    async def test_changes_are_reported_as_what_they_are(self, provider: Provider) -> None:
        async with running(provider), Listener(provider) as listener:
            uri = await self.created(provider)
            if "created" in self.reports:
                await listener.hear(uri, "created")
            await self.change(provider, uri)
            if "changed" in self.reports:
                await listener.hear(uri, "changed")
            await self.remove(provider, uri)
            if "removed" in self.reports:
                await listener.hear(uri, "removed")

    async def test_two_watches_both_hear(self, provider: Provider) -> None:
        self.requires_watch(provider)
        async with running(provider), Listener(provider) as one, Listener(provider) as other:
            uri = await self.created(provider)
            await self.change(provider, uri)
            await asyncio.gather(one.hear(uri, *self.reports), other.hear(uri, *self.reports))

    async def test_a_watch_ends_when_the_provider_stops(self, provider: Provider) -> None:
        self.requires_watch(provider)
        async with AsyncExitStack() as stack:
            async with running(provider):
                listener = await stack.enter_async_context(Listener(provider))
            await listener.end()

    async def test_a_watch_can_be_cancelled_while_it_waits(self, provider: Provider) -> None:
        self.requires_watch(provider)
        async with running(provider):
            batches = provider.watch(Interest())
            async with asyncio.timeout(TIMEOUT):
                assert not await anext(batches)
            waiting = asyncio.ensure_future(anext(batches))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    # All together

    async def test_everything_may_be_asked_for_at_once(self, provider: Provider) -> None:
        async with running(provider):
            caller = Caller(provider)
            whole = [resource.uri for resource in await self.listed(provider, "resources")]
            some = [resource.uri for resource in (await self.readable(provider))[:5]]
            alone = [await caller.read_resource(uri) for uri in some]

            async def list_again() -> None:
                assert [resource.uri for resource in await caller.resources(3)] == whole

            async def read_again() -> None:
                assert [await caller.read_resource(uri) for uri in some] == alone

            async with asyncio.timeout(TIMEOUT * 6):
                await asyncio.gather(*(ask() for _ in range(6) for ask in (list_again, read_again)))

    async def test_stop_lets_go_of_everything(self, provider: Provider) -> None:
        tasks, threads, descriptors = asyncio.all_tasks(), set(threading.enumerate()), count_descriptors()
        for _ in range(self.rounds):
            async with AsyncExitStack() as stack:
                async with running(provider):
                    caller = Caller(provider)
                    for kind in self.kinds(provider):
                        await caller.all(kind)
                    if provider.offers("list_resources"):
                        whole = await self.readable(provider)
                        await asyncio.gather(*(caller.read_resource(resource.uri) for resource in whole[:10]))
                    await stack.enter_async_context(Listener(provider))
                await provider.stop()  # once more
        await asyncio.get_running_loop().shutdown_default_executor()  # the loop's own threads are not the provider's
        await self.settle(provider)
        assert asyncio.all_tasks() <= tasks
        assert set(threading.enumerate()) <= threads
        await fewer_descriptors_than(descriptors + self.rounds)

    async def test_no_operation_leaves_a_descriptor_open(self, provider: Provider) -> None:
        async with running(provider):
            for name, operation in [pair async for pair in self.operations(provider)]:
                for again in range(1 + self.rounds):
                    try:
                        await operation()
                    except MCPError:
                        pass
                    if not again:  # the first call may open what stays open
                        before = count_descriptors()
                try:
                    await fewer_descriptors_than(before + self.rounds)
                except TimeoutError:
                    pytest.fail(
                        f"{name} leaves descriptors open: {count_descriptors() - before} in {self.rounds} times"
                    )

    @staticmethod
    def kinds(provider: Provider) -> list[Kind]:
        """Return the lists that the provider has."""
        kinds: tuple[Kind, ...] = ("resources", "templates", "tools", "prompts", "skills")
        return [kind for kind in kinds if provider.offers(f"list_{kind}")]

    async def operations(self, provider: Provider) -> AsyncIterator[tuple[str, Callable[[], Awaitable[Any]]]]:
        """Yield the operations of a provider, each with a name, including calls that fail."""
        caller = Caller(provider)
        for kind in self.kinds(provider):
            yield f"list of {kind}", partial(caller.all, kind, 10)
            for cursor in BAD_CURSORS[:4]:
                yield f"list of {kind} from {cursor!r}", partial(caller.page, kind, cursor, 10)
        if provider.offers("list_resources") or provider.offers("read_resource"):
            async for operation in self.reads(provider):
                yield operation
        for template in await caller.templates():
            for variable in UriTemplate(template.uri_template).names:
                for typed in ("", "../", "no such thing, surely/"):
                    complete = partial(caller.complete, template.uri_template, variable, typed)
                    yield f"completion of {variable} from {typed!r}", complete
        for query in ("", "a", (await self.searched(provider) or ("e",))[0]):
            yield f"search for {query!r}", partial(caller.search, query)
        for skill in (await caller.all("skills"))[:5]:
            yield f"skill {skill.uri}", partial(caller.get_skill, skill.uri)
        tool, prompt = await self.called(provider), await self.prompted(provider)
        if tool is not None:
            yield f"tool {tool[0]}", partial(caller.call_tool, *tool)
        if prompt is not None:
            yield f"prompt {prompt[0]}", partial(caller.get_prompt, *prompt)

        async def watch() -> None:
            async with Listener(provider):
                pass

        yield "watch", watch

    async def reads(self, provider: Provider) -> AsyncIterator[tuple[str, Callable[[], Awaitable[Any]]]]:
        """Yield reads, and lists of directories."""
        caller = Caller(provider)
        whole = await caller.resources()
        given = (self.nothing(provider), await self.too_large(provider), await self.container(provider))
        uris = {resource.uri for resource in whole[:: len(whole) // 12 + 1]} | {self.foreign, *filter(None, given)}
        for uri in sorted({*uris, *await self.unreadable(provider), *await self.windows(provider, whole)}):
            yield f"read {uri}", partial(caller.read_resource, uri)
            yield f"entries of {uri}", partial(caller.list_directory, uri, None, 2)
        for end in HOSTILE if whole else ():
            yield f"read …{end!r}", partial(caller.read_resource, f"{whole[-1].uri}{end}")

    async def windows(self, provider: Provider, whole: Sequence[Resource]) -> list[str]:
        """Return URIs expanded from the templates with values from completion, up to 6 for each template."""
        found: list[str] = []
        caller = Caller(provider)
        for text in [template.uri_template for template in await caller.templates()]:
            template, values = UriTemplate(text), {}
            for name in template.names:
                suggested = (await caller.complete(text, name, "")).values
                deeper = [value for value in suggested[:5] if value.endswith("/")]
                inside = [(await caller.complete(text, name, value)).values[:5] for value in deeper]
                values[name] = [*suggested[:5], *suggested[-2:], *chain(*inside)]
            some = islice(product(*values.values()), 6)
            found += [template.expand(dict(zip(values, chosen, strict=True))) for chosen in some]
        return found


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
