"""Finding files by parts of their names: completion of a path, and search."""

from __future__ import annotations

from heapq import nlargest
from typing import NamedTuple

from carrel.protocol.uri import UriError, percent_decode
from carrel.sources.root import MAX_DEPTH, Parts
from carrel.sources.tree import Tree
from carrel.threads import stop_if_cancelled
from carrel.wire.completion import Completion

__all__ = ["Match", "complete_path", "search_names", "words_of"]

MAX_VALUES = 100
MAX_NAMES = 200_000  # names looked at in one search, or in one directory to complete a name
MAX_QUERY = 1000  # characters


class Match(NamedTuple):
    """A file or directory whose name fits, and how well, from 0 to 1."""

    score: float
    parts: Parts
    is_directory: bool


def complete_path(tree: Tree, typed: str) -> Completion:
    """Suggest paths that go on from what has been typed: the entries of one directory, directories with a slash.

    Names that begin with what has been typed come before those that contain it, whatever the case; directories before
    files. Values are as ``{+path}`` takes them: ``#``, ``?`` and what looks like an escape are escaped.
    """
    directory, _, last = typed.lstrip("/").rpartition("/")
    parts = find_directory(tree, directory) if directory.count("/") < MAX_DEPTH else None
    if parts is None:
        return Completion(values=[], total=0, has_more=False)
    wanted = last.casefold()
    groups: tuple[list[str], list[str]] = ([], [])
    prefix = "".join(f"{escape(name)}/" for name in parts)
    try:
        with tree.open(parts) as node:
            if node.place is None:
                return Completion(values=[], total=0, has_more=False)
            found = tree.directory(node, parts)
            for names, is_directory in ((found.directories, True), (found.files, False)):
                for name in names[:MAX_NAMES]:
                    value = escape(name)
                    folded = name.casefold()
                    if wanted not in folded and wanted not in value.casefold():
                        continue
                    if name in found.links or node.guard.admits(name, is_directory):
                        begins = folded.startswith(wanted) or value.casefold().startswith(wanted)
                        groups[not begins].append(f"{prefix}{value}/" if is_directory else f"{prefix}{value}")
    except OSError:
        return Completion(values=[], total=0, has_more=False)
    values = groups[0] + groups[1]
    return Completion(values=values[:MAX_VALUES], total=len(values), has_more=len(values) > MAX_VALUES)


def find_directory(tree: Tree, path: str) -> Parts | None:
    """Return the directory that has been typed, in whatever case; None if there is none."""
    parts: Parts = ()
    for typed in path.split("/") if path else ():
        stop_if_cancelled()
        if typed in ("", ".", "..") or "\0" in typed:
            return None
        try:
            with tree.open(parts) as node:
                if node.place is None:
                    return None
                names = tree.directory(node, parts).directories[:MAX_NAMES]
        except OSError:
            return None
        folded = typed.casefold()
        exact = [name for name in names if typed in (name, escape(name))]
        alike = exact or [name for name in names if folded in (name.casefold(), escape(name).casefold())]
        if not alike:
            return None
        parts = (*parts, alike[0])
    return parts


def escape(name: str) -> str:
    """Escape what would not stay itself in the expansion of ``{+path}``."""
    if "%" in name:
        try:
            name = name.replace("%", "%25") if percent_decode(name) != name else name
        except UriError:
            pass  # no escape, and will be escaped
    name = name.replace("#", "%23").replace("?", "%3F")
    if name.isascii():
        return name
    return "".join(
        f"%{ord(character) - 0xDC00:02X}" if "\udc80" <= character <= "\udcff" else character for character in name
    )


def search_names(tree: Tree, query: str, limit: int) -> list[Match]:
    """Return the files and directories in whose path all words of the query occur, best first.

    What matches in the name itself is better than what matches in the path to it.
    """
    words = words_of(query)
    if not words or limit < 1:
        return []
    found: list[Match] = []
    left = MAX_NAMES
    for visit in tree.walk():
        stop_if_cancelled()
        path = "/".join(visit.parts).casefold()
        missing = [word for word in words if word not in path]
        for names, is_directory in ((visit.directory.files, False), (visit.directory.directories, True)):
            looked_at = names[: max(left, 0)]
            left -= len(names)
            for name in looked_at:
                folded = name.casefold()
                if all(word in folded for word in missing) and (
                    name in visit.directory.links or visit.node.guard.admits(name, is_directory)
                ):
                    score = rate(words, folded, len(path))
                    found.append(Match(score, (*visit.parts, name), is_directory))
        if left < 0:
            break
        if len(found) > 20 * limit + 1000:
            found = nlargest(limit, found)
    return nlargest(limit, found)


def words_of(query: str) -> list[str]:
    """Return the words of a query, each once, in lower case; none if it is too long to be found in a path."""
    return list(dict.fromkeys(query.casefold().split())) if len(query) <= MAX_QUERY else []


def rate(words: list[str], name: str, depth: int) -> float:
    """Rate how well a name fits: all of it, its stem, its beginning, somewhere in it, some words only in its path."""
    query = " ".join(words)
    stem = name.rpartition(".")[0] or name
    if query == name:
        score = 1.0
    elif query == stem:
        score = 0.95
    elif name.startswith(query):
        score = 0.85
    elif all(word in name for word in words):
        # A word at the beginning of a word is better than one in the middle.
        starts = sum(
            any(not name[at - 1].isalnum() for at in [name.find(word)] if at >= 0) or name.startswith(word)
            for word in words
        )
        score = 0.6 + 0.2 * starts / len(words)
    else:
        score = 0.2 + 0.3 * sum(word in name for word in words) / len(words)
    return round(score * (1 - min(depth + len(name), 400) / 4000), 4)
