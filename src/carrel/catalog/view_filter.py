"""Filtering of sorted lists and pages by the rights of the caller."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from carrel.catalog.access import may_reach
from carrel.catalog.provider import ListName, Page, Request
from carrel.protocol.methods import (
    LIST_NOTIFICATIONS,
    LIST_PROMPTS,
    LIST_REQUESTS,
    LIST_RESOURCES,
    LIST_TOOLS,
    RequestType,
)
from carrel.uri.template import UriTemplate

if TYPE_CHECKING:
    from carrel.protocol.principal import View
    from carrel.uri.intervals import Intervals
    from carrel.wire.skills import Skill

__all__ = [
    "UNFILTERED",
    "FilterOf",
    "ListFilter",
    "filter_page",
    "filter_skill",
    "prompt_filter",
    "resource_filter",
    "shows_any",
    "template_filter",
    "tool_filter",
]

T = TypeVar("T")


class ListFilter(msgspec.Struct, frozen=True):
    """Part of a list: the keys that are in the intervals and ``shown``. None disables a filter."""

    within: Intervals | None = None
    shown: Callable[[str], bool] | None = None


UNFILTERED = ListFilter()
FilterOf: TypeAlias = "Callable[[View], ListFilter]"
"""Function that returns the part of a list that is in a view."""


def _filter(view: View, row: RequestType[Any, Any]) -> ListFilter:
    """Return the part of the list of a request that is in a view."""
    verb = row.item_verb
    assert verb is not None
    if verb == "list" and not view.hides:
        return UNFILTERED
    return ListFilter(view.intervals(verb), partial(view.allows, verb))


def resource_filter(view: View) -> ListFilter:
    """Return the part of a list of resources that is in a view."""
    return _filter(view, LIST_RESOURCES)


def tool_filter(view: View) -> ListFilter:
    """Return the part of a list of tools that is in a view."""
    return _filter(view, LIST_TOOLS)


def prompt_filter(view: View) -> ListFilter:
    """Return the part of a list of prompts that is in a view."""
    return _filter(view, LIST_PROMPTS)


def template_filter(view: View) -> ListFilter:
    """Return the part of a list of resource templates that can name something in a view."""
    if not view.hides:
        return UNFILTERED
    return ListFilter(shown=lambda template: may_reach(view, "list", UriTemplate(template)))


def shows_any(view: View, name: ListName, keys: Collection[str]) -> bool:
    """Return whether a view shows any of these entries of a list. Keys of resources may be templates."""
    row = LIST_REQUESTS[LIST_NOTIFICATIONS[name].items[0]]
    shown = _filter(view, row).shown
    if shown is None:
        return True
    if row.item != "resource":
        return any(map(shown, keys))
    return any(may_reach(view, "list", UriTemplate(key)) if "{" in key else shown(key) for key in keys)


def filter_page(page: Page[T], request: Request, uri_of: Callable[[T], str]) -> Page[T]:
    """Filter a page to the entries that the caller may list."""
    view = request.view
    if view is None or not view.hides:
        return page
    return msgspec.structs.replace(page, items=[item for item in page.items if view.allows("list", uri_of(item))])


def filter_skill(skill: Skill, request: Request) -> Skill:
    """Filter the files of a skill to the files that are visible to the caller."""
    if request.view is None or isinstance(skill.resources, str):
        return skill
    return msgspec.structs.replace(
        skill, resources=[file for file in skill.resources if request.allows("read", file.uri)]
    )
