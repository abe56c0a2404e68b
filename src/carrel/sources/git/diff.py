"""Differences between revisions: the changed files, and the patch of the files that are visible to the caller."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from carrel.errors import ResourceNotFound, ResourceTooLarge
from carrel.sources.content.text import decode
from carrel.sources.git.history import changed_files, path_of
from carrel.sources.git.location import GitLocation
from carrel.sources.git.process import GitFailed
from carrel.sources.git.revisions import OpenRepository
from carrel.uri.parse import percent_encode
from carrel.wire.resources import TextResourceContents

__all__ = ["ends", "read_diff"]

DIFF = "text/x-diff"
ADVISED = 3
MAX_PATHS = 64 * 1024  # bytes of the paths in a command of git


def names_of_ends(location: GitLocation) -> tuple[str, str, str]:
    """Return the revisions of a diff, and the dots between them: none if it is a commit, which both then are."""
    for dots in ("...", ".."):
        base, found, name = location.ref.partition(dots)
        if found:
            return base or "HEAD", name or "HEAD", dots
    return location.ref, location.ref, ""


def ends(opened: OpenRepository, location: GitLocation, uri: str) -> tuple[str, str]:
    """Return the ids of both sides: of ``a..b``, of ``a...b`` (from their merge base), or of a commit's parent and the
    commit.

    Raises:
        ResourceNotFound: there is no such revision.
    """
    base, name, dots = names_of_ends(location)
    if not dots:
        id = opened.resolve(location.ref, uri)
        parents = opened.store.commit(id).parents
        return (parents[0] if parents else opened.repository.empty_tree), id
    left, right = opened.resolve(base, uri), opened.resolve(name, uri)
    if dots == "...":
        command = ("merge-base", left, right)
        try:
            found = opened.output(1000, *command) or b""
        except GitFailed:
            raise ResourceNotFound(uri, "The two revisions have no common history") from None
        left = found.decode("ascii", "replace").strip()
    return left, right


def read_diff(opened: OpenRepository, location: GitLocation, uri: str) -> TextResourceContents:
    """Read a diff of the visible files as a patch. Files are compared without filters or textconv.

    Raises:
        ResourceTooLarge: it has more than ``max_size`` bytes; the message has the URIs of parts.
    """
    path = path_of(location)
    left, right = ends(opened, location, uri)
    command = ["diff-tree", "-r", "-p", "-M", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color"]
    command += [left, right, "--"]
    limit = opened.options.max_size
    parts: list[bytes | None] = []
    for paths in parts_of_diff(opened, location, (left, right), uri):
        parts.append(opened.output(limit - sum(map(len, filter(None, parts))), *command, *paths))
        if parts[-1] is None:
            break
    data = b"".join(filter(None, parts))
    if None in parts:
        files = visible_changes(opened, location, changed_files(opened, left, right) or [])
        advised = [
            f"{uri.partition('?')[0]}?path={percent_encode(name, undecodable=True)}"
            for name in files[:ADVISED]
            if name != path
        ]
        hint = f"; read the history of one file, {' or '.join(advised)}" if advised else ""
        raise ResourceTooLarge(uri, f"The diff has more than {limit:,} bytes, which is the limit{hint}")
    # Each file has its own encoding. Lines of files begin with a space, a plus or a minus.
    texts = [(decode(file), file) for file in re.split(rb"^(?=diff --git )", data, flags=re.MULTILINE)]
    found = "".join(file.decode("utf-8", "replace") if text is None else text.text for text, file in texts)
    return TextResourceContents(uri, found, mime_type=DIFF, meta={"carrel/base": left, "carrel/commit": right})


def visible_changes(opened: OpenRepository, location: GitLocation, files: Sequence[tuple[str, str]]) -> list[str]:
    """Return the changed files that are visible at both sides of a diff."""
    refs = set(names_of_ends(location)[:2])
    return [path for _, path in files if all(opened.shows("file", ref, path) for ref in refs)]


def parts_of_diff(
    opened: OpenRepository, location: GitLocation, sides: tuple[str, str], uri: str
) -> Iterator[list[str]]:
    """Yield the paths to compare, in one part if possible: a command of git takes ``MAX_PATHS`` bytes of them.

    Raises:
        ResourceTooLarge: there are more changed files than can be listed.
    """
    path = path_of(location)
    if opened.visible is None:
        yield [path] if path else []
        return
    files = changed_files(opened, *sides, path)
    if files is None:
        raise ResourceTooLarge(uri, "The diff has too many files; read the diff of a folder, with ?path=")
    shown = visible_changes(opened, location, files)
    if len(shown) == len(files):
        yield [path] if path else []
        return
    # A path that was a file and is a folder on the other side matches the files in it, which may be hidden.
    folders = {above for _, name in files for above in parents(name)}
    part, size = list[str](), 0
    for name in shown:
        if name in folders:
            continue
        part.append(name)
        size += len(name.encode("utf-8", "surrogateescape")) + 1
        if size > MAX_PATHS:
            yield part
            part, size = [], 0
    if part:
        yield part


def parents(path: str) -> Iterator[str]:
    """Yield the folders above a path."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
