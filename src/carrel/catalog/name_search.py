"""Search by name: choices and resources that contain a text. Matches at the beginning come first."""

from __future__ import annotations

from collections.abc import Iterable

from carrel.catalog.provider import Hit, Page, Request
from carrel.wire.resources import Resource

__all__ = ["filter_choices", "search_names"]


def filter_choices(choices: Iterable[str], value: str) -> list[str]:
    """Return the choices that match the typed text: first the choices that begin with it, then the choices that contain
    it.
    """
    typed = value.casefold()
    begin: list[str] = []
    contain: list[str] = []
    for choice in choices:
        text = choice.casefold()
        if text.startswith(typed):
            begin.append(choice)
        elif typed in text:
            contain.append(choice)
    return begin + contain


def search_names(resources: Iterable[Resource], query: str, request: Request) -> Page[Hit]:
    """Return the resources with a query in their title, name or URI; resources that begin with it come first."""
    if not query.strip():
        return Page(())
    by_name = {
        f"{resource.title or ''} {resource.name} {resource.uri}".lstrip(): resource
        for resource in resources
        if request.allows("list", resource.uri)
    }
    found = [by_name[text] for text in filter_choices(by_name, query)][: request.limit]
    return Page([Hit(resource, 1 - number / (len(found) + 1)) for number, resource in enumerate(found)])
