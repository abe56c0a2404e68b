"""Extensions that a package adds to every client, once it is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from carrel.compat.mcp2.client.extension import ClientExtension

__all__ = ["InternalClientExtensionFactory", "all_extensions", "register_internal_client_extension_factory"]

#: Function that takes the callback for forms, if the client has one, and returns an extension, or None.
InternalClientExtensionFactory: TypeAlias = Callable[[Any], Any]

_factories: list[InternalClientExtensionFactory] = []


def register_internal_client_extension_factory(factory: InternalClientExtensionFactory) -> None:
    """Add an extension to clients to come, unless it is added already."""
    if factory not in _factories:
        _factories.append(factory)


def all_extensions(given: Iterable[ClientExtension], elicitation_callback: Any) -> dict[str, ClientExtension]:
    """Return the extensions of a client by identifier. One that the program gives replaces an added one.

    Raises:
        ValueError: an extension is given twice.
    """
    chosen: dict[str, ClientExtension] = {}
    for extension in given:
        if extension.identifier in chosen:
            raise ValueError(f"the extension {extension.identifier!r} is given twice")
        chosen[extension.identifier] = extension
    added = (factory(elicitation_callback) for factory in _factories)
    return {**{each.identifier: each for each in added if each is not None}, **chosen}
