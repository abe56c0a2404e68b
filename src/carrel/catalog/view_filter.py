"""Filtering of sorted lists and pages by the rights of the caller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from carrel.catalog.access import KeptGateView, may_reach
from carrel.catalog.provider import ListName, Page, Request
from carrel.protocol.methods import LIST_NOTIFICATIONS, LIST_REQUESTS, RequestType
from carrel.uri.template import UriTemplate

if TYPE_CHECKING:
    from carrel.protocol.principal import View
    from carrel.uri.intervals import Intervals
    from carrel.wire.skills import Skill

__all__ = ["UNFILTERED", "ListFilter", "filter_page", "filter_skill", "list_filter", "shows_any"]

T = TypeVar("T")
Select = Callable[[Sequence[str], Collection[str]], list[str]]


class ListFilter(msgspec.Struct, frozen=True):
    """Part of a list: the keys that are in the intervals and ``shown``. None disables a filter.

    ``select`` returns the shown keys of a sorted list, if that is faster. It also takes the URIs of the list that may
    have another canonical form.
    """

    within: Intervals | None = None
    shown: Callable[[str], bool] | None = None
    select: Select | None = None


UNFILTERED = ListFilter()


def list_filter(view: View, row: RequestType) -> ListFilter:
    """Return the part of the list of a request that is in a view: for templates, the ones that can name something."""
    verb = row.item_verb
    assert verb is not None
    if verb == "list" and not view.hides:
        return UNFILTERED
    if row.item == "template":
        return ListFilter(shown=lambda template: may_reach(view, "list", UriTemplate(template)))
    select = view.list_selector(verb) if isinstance(view, KeptGateView) else None
    return ListFilter(view.intervals(verb), view.decider(verb), select)


def shows_any(view: View, name: ListName, keys: Collection[str]) -> bool:
    """Return whether a view shows any of these entries of a list. Keys of resources may be templates."""
    row = LIST_REQUESTS[LIST_NOTIFICATIONS[name].items[0]]
    shown = list_filter(view, row).shown
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
