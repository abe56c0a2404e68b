"""Words of a search query."""

from __future__ import annotations

__all__ = ["words_of"]

MAX_QUERY = 1000  # characters


def words_of(query: str) -> list[str]:
    """Return the distinct words of a query, case-folded; none if the query is too long."""
    return list(dict.fromkeys(query.casefold().split())) if len(query) <= MAX_QUERY else []
