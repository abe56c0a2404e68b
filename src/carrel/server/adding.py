"""Adding of providers to a server, as objects, paths or URLs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from carrel.catalog.provider import Provider
from carrel.errors import ConfigError

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Mapping

    from carrel.protocol.extension import Extension
    from carrel.server.runtime import Runtime

__all__ = ["Adding", "declare", "open_provider"]

#: Names of extensions, as their modules are not loaded for servers without them.
TASKS, PAGES = "io.modelcontextprotocol/tasks", "io.modelcontextprotocol/ui"


class Adding:
    """Provider that is being added. Awaiting it waits until it has started, on a running server."""

    def __init__(self, provider: Provider, start: Callable[[], Awaitable[None]] | None) -> None:
        self.provider = provider
        self._start = start

    def __await__(self) -> Generator[Any, None, Provider]:
        if self._start is not None:
            yield from self._start().__await__()
        return self.provider


def declare(extensions: Collection[Extension], runtime: Runtime) -> None:
    """Declare the extensions that a provider uses and that need no additional handlers."""
    for extension in extensions:
        if extension.name == TASKS:
            _ = runtime.tasks
        elif extension.name == PAGES and PAGES not in runtime.extensions:
            from carrel.server.apps import use

            use(runtime)


def open_provider(given: Provider | str | os.PathLike[str], options: Mapping[str, object]) -> Provider:
    """Return the given provider, or open a provider for a path or URL.

    Raises:
        ConfigError: no provider exists for the path or URL.
    """
    if isinstance(given, Provider):
        if options:
            raise ConfigError(f"{given.name}: a Provider object takes no options: {', '.join(options)}")
        return given
    if not isinstance(given, str) and not hasattr(given, "__fspath__"):
        remote = "; a client is added as carrel.host.RemoteProvider(client)"
        raise ConfigError(f"A provider is a Provider, a Server, a path or a URL, not a {type(given).__name__}{remote}")
    from carrel import sources

    return sources.open(given, None, **options)
