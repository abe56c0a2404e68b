"""Path completion, and search for files by name."""

from __future__ import annotations

from heapq import nlargest
from typing import NamedTuple

from carrel.sources.content.words import words_of
from carrel.sources.folder.notices import check_exhausted
from carrel.sources.folder.position import START, Parts
from carrel.sources.folder.sandbox import MAX_DEPTH
from carrel.sources.folder.tree import Tree, VisitedDirectory
from carrel.sources.folder.work import PAGE, WHOLE, Work
from carrel.uri.parse import UriError, percent_decode
from carrel.wire.completion import Completion

__all__ = ["NameMatch", "complete_path", "escape", "rate", "search_names"]

MAX_VALUES = 100
SPELL = 0.5  # microseconds of work for a name that is compared


class NameMatch(NamedTuple):
    """A file or directory found by name, and its score from 0 to 1."""

    score: float
    parts: Parts


def complete_path(tree: Tree, typed: str) -> Completion:
    """Complete a partial path with entries of one directory; directories end with a slash.

    Names that begin with the last segment come before names that contain it, ignoring case; directories before files.
    Values are suitable for ``{+path}`` (RFC 6570): ``#``, ``?`` and text that looks like a percent-escape are escaped.
    """
    directory, _, last = typed.lstrip("/").rpartition("/")
    work = Work(PAGE)
    parts = find_directory(tree, directory, work) if directory.count("/") < MAX_DEPTH else None
    if parts is None:
        return Completion(values=[], total=0, has_more=False)
    wanted = last.casefold()
    groups: tuple[list[str], list[str]] = ([], [])
    prefix = "".join(f"{escape(name)}/" for name in parts)
    try:
        with tree.open(parts, work) as node:
            if node.handle is None:
                return Completion(values=[], total=0, has_more=False)
            found = tree.directory(node, parts, work)
            visited = VisitedDirectory(parts, node, found)
            for names, is_directory in ((found.directories, True), (found.files, False)):
                for name in names:
                    value = escape(name)
                    folded = name.casefold()
                    if wanted not in folded and wanted not in value.casefold():
                        continue
                    if work.is_over:
                        break
                    if tree.has(visited, name, is_directory=is_directory, work=work):
                        begins = folded.startswith(wanted) or value.casefold().startswith(wanted)
                        groups[not begins].append(f"{prefix}{value}/" if is_directory else f"{prefix}{value}")
    except OSError as error:
        check_exhausted(error)
        return Completion(values=[], total=0, has_more=False)
    values = groups[0] + groups[1]
    total = None if work.is_over else len(values)
    return Completion(values=values[:MAX_VALUES], total=total, has_more=work.is_over or len(values) > MAX_VALUES)


def find_directory(tree: Tree, path: str, work: Work) -> Parts | None:
    """Find a directory by its path, ignoring case. Return None if it does not exist.

    Raises:
        OSError: the process can open no more files.
    """
    parts: Parts = ()
    for typed in path.split("/") if path else ():
        if typed in ("", ".", "..") or "\0" in typed:
            return None
        try:
            with tree.open(parts, work) as node:
                if node.handle is None or work.is_over:
                    return None
                visited = VisitedDirectory(parts, node, tree.directory(node, parts, work))
                names = visited.directory.directories
                folded = typed.casefold()
                exact = [name for name in names if typed in (name, escape(name))]
                alike = exact or [name for name in names if folded in (name.casefold(), escape(name).casefold())]
                inner = next((name for name in alike if tree.has(visited, name, is_directory=True, work=work)), None)
        except OSError as error:
            check_exhausted(error)
            return None
        if inner is None:
            return None
        parts = (*parts, inner)
    return parts


def escape(name: str) -> str:
    """Percent-encode characters that the expansion of ``{+path}`` would not preserve."""
    if "%" in name:
        try:
            name = name.replace("%", "%25") if percent_decode(name) != name else name
        except UriError:
            pass  # not an escape, and will be escaped by the expansion
    name = name.replace("#", "%23").replace("?", "%3F")
    if name.isascii():
        return name
    return "".join(
        f"%{ord(character) - 0xDC00:02X}" if "\udc80" <= character <= "\udcff" else character for character in name
    )


def search_names(tree: Tree, query: str, limit: int) -> list[NameMatch]:
    """Return the files and directories whose path contains all words of the query, best first.

    Matches in the name score higher than matches in the path to it. A search that exceeds its work budget returns the
    matches found so far.

    Raises:
        OSError: the process can open no more files.
    """
    words = words_of(query)
    if not words or limit < 1:
        return []
    found: list[NameMatch] = []
    work = Work(WHOLE)
    for visited in tree.walk(START, work):
        path = "/".join(visited.parts).casefold()
        missing = [word for word in words if word not in path]
        for names, is_directory in ((visited.directory.files, False), (visited.directory.directories, True)):
            work.spent += SPELL * len(names)
            for name in names:
                folded = name.casefold()
                if (
                    all(word in folded for word in missing)
                    and not work.is_over
                    and tree.has(visited, name, is_directory=is_directory, work=work)
                ):
                    score = rate(words, folded, len(path))
                    found.append(NameMatch(score, (*visited.parts, name)))
        if len(found) > 20 * limit + 1000:
            found = nlargest(limit, found)
    return nlargest(limit, found)


def rate(words: list[str], name: str, depth: int) -> float:
    """Return the score of a match: by full name, stem, beginning, any part of the name, or words only in the path."""
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
