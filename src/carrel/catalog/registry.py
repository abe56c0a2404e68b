"""Registry of providers, with their capabilities and the owners of tool and prompt names.

Providers are ordered by name, and may be added and removed at any time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, Protocol, TypeAlias

from carrel.catalog.paging import all_of
from carrel.catalog.provider import Change, ListChanges, Provider, Recipients, ReportedEvents
from carrel.catalog.routes import ProviderRoutes
from carrel.errors import ConfigError, MCPError, ProviderUnavailable
from carrel.log import Log
from carrel.protocol.methods import LIST_REQUESTS

__all__ = ["ChangeListener", "Kind", "Registry"]

Kind: TypeAlias = Literal["tool", "prompt"]

#: Seconds that a request waits for a provider whose lists have changed.
PATIENCE = 1.0
log = Log("carrel")


class ChangeListener(Protocol):
    """Function that gets the changes that a registry's providers report; without ``recipients``, for all clients."""

    def __call__(
        self, changes: Iterable[Change], lists: ListChanges, /, *, recipients: Recipients | None = None
    ) -> None: ...


class _Known(Container[str]):
    """Names that a registry has a provider for."""

    def __init__(self, knows: Callable[[str], bool]) -> None:
        self._knows = knows

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._knows(name)


class Registry(Provider):
    """Registry of providers by name: base class of the catalog.

    ``listener`` is called with every change that a provider reports, maybe from another thread.
    """

    def __init__(self, listener: ChangeListener | None = None) -> None:
        self._listener = listener
        self.routes = ProviderRoutes()
        """Finds the provider of a URI."""
        self.only: Provider | None = None
        """The only provider, where there is one."""
        self.exact = self.routes
        self.tool_names = _Known(lambda name: self._has("tool", name))
        self.prompt_names = _Known(lambda name: self._has("prompt", name))
        self._providers: dict[str, Provider] = {}
        self._offering: dict[str, tuple[Provider, ...]] = {}
        self._names: dict[Kind, dict[str, Mapping[str, Provider]]] = {"tool": {}, "prompt": {}}
        self.away: set[str] = set()
        self.failures: Counter[str] = Counter()
        """How often each provider has become unavailable."""
        """Names of providers that are not available."""
        self.stale: set[str] = set()
        """Names of providers whose templates and names have changed; ``freshen`` reads them."""
        self._freshening: dict[str, asyncio.Task[None]] = {}

    # Providers

    @property
    def providers(self) -> Sequence[Provider]:
        """All providers, in the order of their names."""
        return tuple(self._providers.values())

    def get(self, name: str) -> Provider | None:
        """Return the provider of a name, or None."""
        return self._providers.get(name)

    async def add(self, provider: Provider) -> None:
        """Start a provider, and add it.

        Raises:
            ConfigError: there is a provider of that name, or it cannot be started.
        """
        self._check(provider)
        await provider.start(ReportedEvents(partial(self.publish, provider)))
        try:
            self._check(provider)  # its name may be set at start-up
            self.put(provider)
            try:
                await self.learn(provider)
            except ProviderUnavailable as error:
                self.leave_out(error)  # it reports its lists once it is available
            except BaseException:
                self.take(provider.name)
                raise
        except BaseException:
            await provider.stop()
            raise

    def _check(self, provider: Provider) -> None:
        if provider.name in self._providers:
            hint = f": {provider.naming}" if provider.naming else ""
            raise ConfigError(f"There is a provider {provider.name} already{hint}")

    def put(self, provider: Provider) -> None:
        """Add a running provider without reading its lists."""
        self._providers = dict(sorted([*self._providers.items(), (provider.name, provider)]))
        self._index()

    async def remove(self, name: str) -> None:
        """Remove a provider, and stop it.

        Raises:
            KeyError: no provider has this name.
        """
        await self.take(name).stop()

    def take(self, name: str) -> Provider:
        """Remove a provider without stopping it, and return it.

        Raises:
            KeyError: no provider has this name.
        """
        providers = dict(self._providers)
        provider = providers.pop(name)
        self._providers = providers
        self.stale.discard(name)
        learning = self._freshening.pop(name, None)
        if learning is not None:
            learning.cancel()
        for names in self._names.values():
            names.pop(name, None)
        self.routes.route(provider, ())
        self._index()
        return provider

    def _index(self) -> None:
        providers = self.providers
        self.only = providers[0] if len(providers) == 1 else None
        self.routes.index(providers)
        self._offering.clear()

    def offering(self, method: str) -> tuple[Provider, ...]:
        """Return the providers that implement a method of ``Provider``."""
        found = self._offering.get(method)
        if found is None:
            found = self._offering[method] = tuple(one for one in self.providers if one.offers(method))
        return found

    def offers(self, method: str) -> bool:
        """Return whether a provider implements a method."""
        return bool(self.offering(method))

    # Changes

    def publish(
        self, provider: Provider, changes: Iterable[Change], lists: ListChanges, recipients: Recipients | None = None
    ) -> None:
        """Publish the changes that a provider reports. Thread-safe."""
        if lists and (provider.tool_names is None or provider.prompt_names is None or not provider.prefixes):
            self.stale.add(provider.name)
        if lists:
            self._offering.clear()
        if self._listener is not None:
            self._listener(changes, lists, recipients=recipients)

    async def freshen(self) -> None:
        """Read the lists of providers whose lists have changed.

        If a provider takes more than ``PATIENCE`` seconds, its previous lists stay in use until it answers.
        """
        begun: list[asyncio.Task[None]] = []
        while self.stale:
            provider = self._providers.get(self.stale.pop())
            if provider is None:
                continue
            before = self._freshening.pop(provider.name, None)
            if before is not None:
                before.cancel()
            task = self._freshening[provider.name] = asyncio.ensure_future(self._learn_again(provider))
            task.add_done_callback(partial(self._end_freshening, provider.name))
            begun.append(task)
        if begun:
            done, _ = await asyncio.wait(begun, timeout=PATIENCE)
            for task in done:
                if not task.cancelled():
                    task.result()

    async def _learn_again(self, provider: Provider) -> None:
        try:
            await self.learn(provider)
        except MCPError as error:  # the previous lists stay in use until it reports a change
            log.warning("%s: its lists cannot be read: %s", provider.name, error)

    def _end_freshening(self, name: str, task: asyncio.Task[None]) -> None:
        if self._freshening.get(name) is task:
            del self._freshening[name]

    async def learn(self, provider: Provider) -> None:
        """Read the templates of a provider, and the names of its tools and prompts."""
        if provider.offers("list_templates"):
            self.routes.route(provider, [found.uri_template async for found in all_of(provider.list_templates)])
        if provider.tool_names is None and provider.offers("list_tools"):
            self._names["tool"][provider.name] = {tool.name: provider async for tool in all_of(provider.list_tools)}
        if provider.prompt_names is None and provider.offers("list_prompts"):
            prompts = {prompt.name: provider async for prompt in all_of(provider.list_prompts)}
            self._names["prompt"][provider.name] = prompts

    # Looking up

    def find_named(self, kind: Kind, name: str) -> Provider | None:
        """Return the provider of a tool or prompt, or None."""
        offering = self.offering(LIST_REQUESTS[kind].provider_method)
        if len(offering) == 1:
            return offering[0]
        return next((provider for provider in offering if self._names_has(kind, provider, name)), None)

    def _names_has(self, kind: Kind, provider: Provider, name: str) -> bool:
        names = provider.tool_names if kind == "tool" else provider.prompt_names
        return name in (self._names[kind].get(provider.name, ()) if names is None else names)

    def _has(self, kind: Kind, name: str) -> bool:
        return any(
            self._names_has(kind, provider, name) for provider in self.offering(LIST_REQUESTS[kind].provider_method)
        )

    def leave_out(self, error: ProviderUnavailable) -> None:
        """Log that a provider is not available, once until it is again."""
        if error.provider not in self.away:
            self.away.add(error.provider)
            self.failures[error.provider] += 1
            log.warning("%s; its items are missing from lists", error)
