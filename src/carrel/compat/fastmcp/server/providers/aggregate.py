"""Provider of the components of several providers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal

from carrel.compat.fastmcp.exceptions import NotFoundError
from carrel.compat.fastmcp.server.providers.base import Provider
from carrel.compat.fastmcp.server.transforms.namespace import Namespace
from carrel.compat.fastmcp.utilities.versions import VersionSpec, version_sort_key
from carrel.log import Log

__all__ = ["AggregateProvider"]

logger = Log("fastmcp.server.providers.aggregate")


class AggregateProvider(Provider):
    """Provider of other providers' components. A provider that fails is logged and left out, or its error is raised."""

    def __init__(
        self,
        providers: Sequence[Provider] | None = None,
        *,
        provider_error_strategy: Literal["warn", "raise"] = "warn",
    ) -> None:
        super().__init__()
        self.provider_error_strategy = provider_error_strategy
        self.providers: list[Provider] = []
        for each in providers or ():
            self.add_provider(each)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(providers={self.providers!r})"

    def add_provider(self, provider: Provider, *, namespace: str = "") -> None:
        """Add a provider, with a namespace in names and URIs."""
        self.providers.append(provider.wrap_transform(Namespace(namespace)) if namespace else provider)

    def required_extensions(self) -> Sequence[Any]:
        """Return the extensions of all providers."""
        return [each for provider in self.providers for each in provider.required_extensions()]

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Set up the providers in order, and tear them down in reverse."""
        async with AsyncExitStack() as stack:
            for provider in self.providers:
                await stack.enter_async_context(provider.lifespan())
            yield

    async def _collected(self, method: str, *arguments: Any) -> list[Any]:
        """Return the answers of all providers that do not fail, in their order."""
        calls = [getattr(provider, method)(*arguments) for provider in self.providers]
        if len(calls) == 1 and self.provider_error_strategy == "raise":
            return [await calls[0]]
        found = []
        for provider, answer in zip(self.providers, await asyncio.gather(*calls, return_exceptions=True), strict=True):
            if not isinstance(answer, BaseException):
                found.append(answer)
            elif self.provider_error_strategy == "raise" or not isinstance(answer, Exception):
                raise answer
            elif not isinstance(answer, NotFoundError):
                logger.warning("Error during %s from provider %r: %s", method, provider, answer)
        return found

    async def _all(self, method: str) -> list[Any]:
        return [each for answer in await self._collected(method) for each in answer]

    async def _list_tools(self) -> Sequence[Any]:
        return await self._all("list_tools")

    async def _list_resources(self) -> Sequence[Any]:
        return await self._all("list_resources")

    async def _list_resource_templates(self) -> Sequence[Any]:
        return await self._all("list_resource_templates")

    async def _list_prompts(self) -> Sequence[Any]:
        return await self._all("list_prompts")

    async def _newest(self, kind: str, identifier: str, version: VersionSpec | None) -> Any:
        found = await self._collected(f"get_{kind}", identifier, version)
        return max((each for each in found if each is not None), key=version_sort_key, default=None)
