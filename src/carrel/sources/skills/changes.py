"""Change events of skills: the changes of all files, mapped to the files that belong to skills."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from carrel.catalog.provider import Change

__all__ = ["compare"]


def compare(before: Mapping[str, Any], now: Mapping[str, Any], touched: Collection[Change]) -> list[Change]:
    """Return the changes of skill files, given their URIs and frontmatter before and now.

    ``touched`` has the changes of all files, whether or not they belong to skills.
    """
    changes = [Change("removed", uri) for uri in before if uri not in now]
    changes += [Change("created", uri) for uri, value in now.items() if uri not in before or before[uri] != value]
    changed = {change.uri for change in touched if change.uri in before and change.uri in now}
    return changes + [Change("changed", uri) for uri in changed if before[uri] == now[uri]]
