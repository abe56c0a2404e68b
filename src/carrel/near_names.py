"""Suggestions for misspelled names: the known name that is nearest to one that is not known."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean", "nearest_first"]


def nearest_first(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names; those that are spelled much like ``name`` come first, the others in their order."""
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
