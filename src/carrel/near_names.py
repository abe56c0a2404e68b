"""Suggestions for misspelled names: the known name that is nearest to one that is not known."""

from __future__ import annotations

import os
from collections.abc import Iterable

from carrel.printable import printable

__all__ = ["did_you_mean", "near", "near_path", "near_uri", "nearest_first"]

#: Maximum number of characters of a list of names.
MAX_LIST = 500
#: Maximum number of names that are compared with a name.
MAX_COMPARED = 5000


def nearest_first(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names: first the names spelled much like ``name``, then the others in their order."""
    from difflib import get_close_matches  # imported only after a mistake

    names = list(known)
    spelled = {each.lower().replace("-", "_"): each for each in reversed(names)}
    close = [spelled[each] for each in get_close_matches(name[:100].lower().replace("-", "_"), spelled, n=3)]
    return [*close, *(each for each in names if each not in close)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a hint such as "; did you mean 'title'?", or an empty string where no known name is near."""
    from difflib import get_close_matches

    spelled = {each.lower().replace("-", "_"): each for each in known}
    close = get_close_matches(name[:100].lower().replace("-", "_"), spelled, n=1)
    return f"; did you mean {spelled[close[0]]!r}?" if close else ""


def near(name: str, known: Iterable[str], otherwise: str = "; there is {}") -> str:
    """Return a "did you mean" hint for an unknown name, or else ``otherwise`` with all names."""
    names = list(known)
    everything = (
        otherwise.format(printable(", ".join(names), MAX_LIST)) if names else "; there are no names to choose from"
    )
    return did_you_mean(name, names) or everything


def near_path(path: str) -> str:
    """Return a "did you mean" hint for a missing absolute path, or an empty string."""
    from difflib import get_close_matches

    parent, name = os.path.split(path)
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return ""
    close = get_close_matches(name, names, n=1)
    return f" (did you mean {os.path.join(parent, close[0])}?)" if close else ""  # noqa: PTH118


def near_uri(given: str, known: Iterable[str]) -> str:
    """Return a "did you mean" hint for a URI or name that is not known, or an empty string.

    The last parts of the paths are compared.
    """
    uris = {uri.rstrip("/").rpartition("/")[2]: uri for uri in known}
    name = given.rstrip("/").rpartition("/")[2]
    if name in uris:
        return f"; did you mean {uris[name]!r}?"
    from difflib import get_close_matches

    close = get_close_matches(name, list(uris)[:MAX_COMPARED], n=1)
    return f"; did you mean {uris[close[0]]!r}?" if close else ""
