"""Views: the resources that are visible to a caller, where access rules for resources hide the rest.

URIs are checked here, for every source alike. Where one URI leads to another place, as a link in a folder does, only
the source can tell: it then implements ``ViewableSource``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, TypeVar

import msgspec

from carrel.uri.template import UriTemplate, UriTemplateError
from carrel.wire.base import CacheableResult
from carrel.wire.completion import Completion
from carrel.wire.resources import Resource

if TYPE_CHECKING:
    from carrel.protocol.server import Call
    from carrel.server.source import Source

__all__ = [
    "ViewableSource",
    "Visible",
    "is_viewable",
    "private",
    "private_later",
    "shown",
    "source_seen",
    "suggested",
    "template_seen",
    "visible_to",
]

Visible: TypeAlias = Callable[[str], bool]
"""Predicate: whether the resource that a URI names is visible to a caller."""

R = TypeVar("R", bound=CacheableResult)


class ViewableSource(Protocol):
    """Optional protocol of a source, beside ``Source``: several of its URIs may lead to one resource."""

    def seen_by(self, visible: Visible) -> Source:
        """Return this source as a caller sees it. It reads, lists, completes and finds nothing at hidden places."""

    async def shows(self, uri: str) -> bool:
        """Return, for such a view, whether a URI leads to no hidden place; true where there is nothing at all."""


def visible_to(call: Call) -> Visible | None:
    """Return the predicate for resources that are visible to the caller; None if all of them are."""
    return None if call.principal is None else call.principal.visible


def is_viewable(source: Source) -> TypeGuard[ViewableSource]:
    """Return whether a source makes views. One that delegates to another does not: a view would bypass it."""
    return hasattr(type(source), "seen_by")


def source_seen(source: Source, visible: Visible | None) -> Source:
    """Return a source as a caller sees it."""
    return source.seen_by(visible) if visible is not None and is_viewable(source) else source


def shown(resources: Iterable[Resource], visible: Visible | None) -> list[Resource]:
    """Return the resources that are visible to a caller."""
    return [resource for resource in resources if visible is None or visible(resource.uri)]


def template_seen(template: UriTemplate, visible: Visible | None) -> bool:
    """Return whether a template is visible to a caller: not if everything that it could name is hidden."""
    return visible is None or visible(template.place({}))


def suggested(
    suggestions: Completion | Iterable[str] | None,
    template: UriTemplate,
    variable: str,
    values: Mapping[str, str],
    visible: Visible,
) -> Completion | list[str]:
    """Return suggestions for a variable without those that name hidden resources, and without their number."""

    def is_shown(value: str) -> bool:
        try:
            return visible(template.place({**values, variable: value}))
        except UriTemplateError:
            return False

    if isinstance(suggestions, Completion):
        kept = [value for value in suggestions.values if is_shown(value)]
        return suggestions if len(kept) == len(suggestions.values) else Completion(kept)
    given = [suggestions] if isinstance(suggestions, str) else map(str, suggestions or ())
    return [value for value in given if is_shown(value)]


def private(result: R, call: Call) -> R:
    """Return a result with ``cacheScope`` private, where it depends on the caller."""
    principal: Any = call.principal
    if principal is None or not principal.view:
        return result
    return msgspec.structs.replace(result, cache_scope="private")


def private_later(pending: Awaitable[R], call: Call) -> Awaitable[R]:
    """Return an awaitable that applies ``private`` to a pending result."""

    async def wait() -> R:
        return private(await pending, call)

    return wait()
