"""Templates of a store, and completion of their variables."""

from __future__ import annotations

from collections.abc import Sequence

from carrel.sources.base import Variable
from carrel.sources.content.window import SUGGESTIONS, window_templates
from carrel.sources.files.search import escape
from carrel.sources.stores.store import Store, is_shareable
from carrel.uri.parse import UriError, percent_decode
from carrel.wire.completion import Completion
from carrel.wire.resources import ResourceTemplate

__all__ = ["complete", "templates"]

MAX_VALUES = 100


def templates(base: str, title: str) -> Sequence[ResourceTemplate]:
    """Return a template for paths, and one for each kind of window."""
    path = f"{base}{{+path}}"
    about = f"An object in {title}, or a directory, whose path ends with a slash"
    return [ResourceTemplate(path, title, description=about), *window_templates(path, title, "an object")]


async def complete(store: Store, prefix: str, variable: Variable) -> Completion | list[str]:
    """Complete paths that begin with the typed text, one directory at a time, or windows.

    Values are suitable for ``{+path}`` (RFC 6570): ``#``, ``?`` and text that looks like a percent-escape are escaped.

    Raises:
        StoreError: the directory cannot be listed.
    """
    typed = variable.value
    if variable.name != "path":
        return [value for value in SUGGESTIONS[variable.name] if value.startswith(typed)]
    path = typed.lstrip("/") if typed.strip("/") else ""
    candidates = dict.fromkeys((path, unescaped(path)))
    for candidate in candidates:
        if candidate and not is_shareable(candidate):
            continue
        try:
            candidate.encode()
        except UnicodeEncodeError:  # a lone surrogate
            continue
        found = await store.list(prefix + candidate, "", MAX_VALUES + 1)
        keys = [entry.key[len(prefix) :] for entry in found.entries]
        values = [escape(key) for key in keys if is_shareable(key) and key != candidate + "/" * candidate.endswith("/")]
        if values:
            more = found.after is not None or len(values) > MAX_VALUES
            return Completion(values[:MAX_VALUES], total=None if more else len(values), has_more=more)
    return []


def unescaped(text: str) -> str:
    try:
        return percent_decode(text)
    except UriError:
        return text
