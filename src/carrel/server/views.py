"""Views: results cut to the resources that are visible to a caller, where access rules hide the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from carrel.catalog.provider import Visible
from carrel.uri.template import UriTemplate, UriTemplateError
from carrel.wire.base import CacheableResult
from carrel.wire.completion import Completion

if TYPE_CHECKING:
    from carrel.protocol.server import Call

__all__ = ["private", "suggested"]

R = TypeVar("R", bound=CacheableResult)


def suggested(
    suggestions: Completion | list[str],
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

    if isinstance(suggestions, list):
        return [value for value in suggestions if is_shown(value)]
    kept = [value for value in suggestions.values if is_shown(value)]
    return suggestions if len(kept) == len(suggestions.values) else Completion(kept)


def private(result: R, call: Call) -> R:
    """Return a result with ``cacheScope`` private, where it depends on the caller."""
    if call.view is None or not call.view.key:
        return result
    return msgspec.structs.replace(result, cache_scope="private")
