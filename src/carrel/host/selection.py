"""Selection: filters and sort orders for the lists of a host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

from carrel.errors import ConfigError
from carrel.host.filters import Hosted, ItemFilter, uri_of
from carrel.near_names import did_you_mean
from carrel.wire.timestamps import modified_at

__all__ = ["KEYS", "Hosted", "Order", "Selection", "check", "select", "wants_server"]

T = TypeVar("T")
Order: TypeAlias = Literal["name", "recency", "priority", "size"]
ORDERS = ("name", "recency", "priority", "size")


class Selection(TypedDict, total=False):
    """Filters and sort order of a list. An entry must match all filters.

    ``servers`` selects servers by name, ``tags`` servers with at least one of the tags. ``audience`` is "user" or
    "assistant"; entries without an audience match both. ``min_priority`` is 0 to 1; entries without a priority have 0.
    ``mime_type`` is a pattern such as ``text/*``. ``filter`` has the terms that people write (see ``ItemFilter``),
    such as ``type:image changed:<7d``. ``sort`` is "name", "recency" (last modified first), "priority" or "size"
    (highest first); entries without the value come last. Without ``sort``, entries are in the order of the servers'
    names, and of each server's list.
    """

    servers: Collection[str]
    tags: Collection[str]
    audience: Literal["user", "assistant"]
    min_priority: float
    mime_type: str
    uri_prefix: str
    filter: str | ItemFilter
    sort: Order


def check(selection: Selection) -> None:
    """Validate a selection.

    Raises:
        ConfigError: there is no such sort order, ``servers`` or ``tags`` is not a list, or a term of the filter is
            invalid.
    """
    terms = _filter_of(selection)
    if terms is not None:
        terms.check()
    order = selection.get("sort")
    if order is not None and order not in ORDERS:
        raise ConfigError(f"sort: there is no order {order!r}{did_you_mean(order, ORDERS)}; it is {', '.join(ORDERS)}")
    for name in ("servers", "tags"):
        if isinstance(selection.get(name), str):
            raise ConfigError(f"{name}: a list of names is expected, not one text")


def wants_server(selection: Selection, name: str, tags: Collection[str]) -> bool:
    """Return whether a selection includes a server."""
    servers, wanted = selection.get("servers"), selection.get("tags")
    return (servers is None or name in servers) and (wanted is None or not set(wanted).isdisjoint(tags))


def select(entries: Iterable[Hosted[T]], selection: Selection) -> list[Hosted[T]]:
    """Return the entries that match the filters, sorted. The filters for servers are not applied here."""
    tests = list(_tests(selection))
    terms = _filter_of(selection)
    found = [
        entry
        for entry in entries
        if all(test(entry.item) for test in tests) and (terms is None or terms.matches(entry.server, entry.item))
    ]
    order = selection.get("sort")
    if order is not None:
        found.sort(key=lambda entry: KEYS[order](entry.item))
    return found


def _filter_of(selection: Selection) -> ItemFilter | None:
    written = selection.get("filter")
    return ItemFilter(written) if isinstance(written, str) else written


def _tests(selection: Selection) -> Iterable[Callable[[Any], bool]]:
    audience, priority = selection.get("audience"), selection.get("min_priority")
    pattern, prefix = selection.get("mime_type"), selection.get("uri_prefix")
    if audience is not None:
        yield lambda item: not (listed := _note(item, "audience")) or audience in listed
    if priority is not None:
        yield lambda item: (_note(item, "priority") or 0.0) >= priority
    if pattern is not None:
        lowered = pattern.lower()
        yield lambda item: fnmatchcase((getattr(item, "mime_type", None) or "").partition(";")[0].lower(), lowered)
    if prefix is not None:
        yield lambda item: uri_of(item).startswith(prefix)


def _note(item: Any, name: str) -> Any:
    return getattr(getattr(item, "annotations", None), name, None)


def _name(item: Any) -> tuple[str, str]:
    name = getattr(item, "name", None) or uri_of(item)
    return str(getattr(item, "title", None) or name).casefold(), name


def _descending(value: float | None) -> tuple[bool, float]:
    return (True, 0.0) if value is None else (False, -value)


#: Functions that return the sort key of an entry, by sort order.
KEYS: dict[str, Callable[[Any], Any]] = {
    "name": _name,
    "recency": lambda item: _descending(modified_at(getattr(item, "annotations", None))),
    "priority": lambda item: _descending(_note(item, "priority")),
    "size": lambda item: _descending(getattr(item, "size", None)),
}
