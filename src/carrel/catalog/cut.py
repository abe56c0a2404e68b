"""Filtering of sorted lists and pages by the rights of the caller."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import msgspec

from carrel.catalog.access import may_reach
from carrel.catalog.provider import ListName, Page, Request
from carrel.uri.template import UriTemplate

if TYPE_CHECKING:
    from carrel.protocol.methods import Verb
    from carrel.protocol.principal import View
    from carrel.uri.intervals import Intervals
    from carrel.wire.skills import Skill

__all__ = [
    "WHOLE",
    "Cut",
    "CutOf",
    "cut_page",
    "cut_prompts",
    "cut_resources",
    "cut_skill",
    "cut_templates",
    "cut_tools",
    "shows_any",
]

T = TypeVar("T")


class Cut(msgspec.Struct, frozen=True):
    """Part of a list: the keys that are in the intervals and ``shown``. None disables a filter."""

    within: Intervals | None = None
    shown: Callable[[str], bool] | None = None


WHOLE = Cut()
CutOf: TypeAlias = "Callable[[View], Cut]"
"""Function that returns the part of a list that is in a view."""


def _cut(view: View, verb: Verb) -> Cut:
    """Return the part of a list of URIs or names that is in a view; the verb says what for."""
    if verb == "list" and not view.hides:
        return WHOLE
    return Cut(view.intervals(verb), partial(view.allows, verb))


def cut_resources(view: View) -> Cut:
    """Return the part of a list of resources that is in a view."""
    return _cut(view, "list")


def cut_tools(view: View) -> Cut:
    """Return the part of a list of tools that is in a view."""
    return _cut(view, "call")


def cut_prompts(view: View) -> Cut:
    """Return the part of a list of prompts that is in a view."""
    return _cut(view, "get")


def cut_templates(view: View) -> Cut:
    """Return the part of a list of resource templates that can name something in a view."""
    if not view.hides:
        return WHOLE
    return Cut(shown=lambda template: may_reach(view, "list", UriTemplate(template)))


#: Parts of the lists that can change that are in a view.
CUTS: Mapping[ListName, CutOf] = {
    "tools_list_changed": cut_tools,
    "prompts_list_changed": cut_prompts,
    "resources_list_changed": cut_resources,
}


def shows_any(view: View, name: ListName, keys: Collection[str]) -> bool:
    """Return whether a view shows any of these entries of a list. Keys of resources may be templates."""
    shown = CUTS[name](view).shown
    if shown is None:
        return True
    if name != "resources_list_changed":
        return any(map(shown, keys))
    return any(may_reach(view, "list", UriTemplate(key)) if "{" in key else shown(key) for key in keys)


def cut_page(page: Page[T], request: Request, uri_of: Callable[[T], str]) -> Page[T]:
    """Filter a page to the entries that the caller may list."""
    view = request.view
    if view is None or not view.hides:
        return page
    return msgspec.structs.replace(page, items=[item for item in page.items if view.allows("list", uri_of(item))])


def cut_skill(skill: Skill, request: Request) -> Skill:
    """Filter the files of a skill to the files that are visible to the caller."""
    if request.view is None or isinstance(skill.resources, str):
        return skill
    return msgspec.structs.replace(
        skill, resources=[file for file in skill.resources if request.allows("read", file.uri)]
    )
