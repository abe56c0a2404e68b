"""Differences between revisions, and the commits that lines of a file come from (blame)."""

from __future__ import annotations

import re

from carrel.errors import InvalidParams, ResourceNotFound, ResourceTooLarge
from carrel.sources.content.text import decode
from carrel.sources.content.window import parse_window
from carrel.sources.git.history import changed_files, path_of
from carrel.sources.git.location import GitLocation
from carrel.sources.git.objects import Person
from carrel.sources.git.process import GitFailed, read_output
from carrel.sources.git.revisions import OpenRepository
from carrel.uri.parse import percent_encode
from carrel.wire.resources import TextResourceContents

__all__ = ["read_blame", "read_diff"]

DIFF = "text/x-diff"
ADVISED = 3


def ends(opened: OpenRepository, location: GitLocation, uri: str) -> tuple[str, str]:
    """Return the ids of both sides: of ``a..b``, of ``a...b`` (from their merge base), or of a commit's parent and the
    commit.

    Raises:
        ResourceNotFound: there is no such revision.
    """
    base, dots, name = location.ref.partition("...")
    if not dots:
        base, dots, name = location.ref.partition("..")
    if not dots:
        revision = opened.resolve(location.ref, uri)
        parents = opened.commit(revision).parents
        return (parents[0] if parents else opened.repository.empty_tree), revision.id
    left, right = opened.resolve(base or "HEAD", uri).id, opened.resolve(name or "HEAD", uri).id
    if dots == "...":
        command = ("merge-base", left, right)
        try:
            found = read_output(opened.store.isolation, opened.options.max_seconds, 1000, *command) or b""
        except GitFailed:
            raise ResourceNotFound(uri, "The two revisions have no common history") from None
        left = found.decode("ascii", "replace").strip()
    return left, right


def read_diff(opened: OpenRepository, location: GitLocation, uri: str) -> TextResourceContents:
    """Read a diff as a patch. Files are compared without filters or textconv.

    Raises:
        ResourceTooLarge: it has more than ``max_size`` bytes; the message has the URIs of parts.
    """
    path = path_of(location)
    left, right = ends(opened, location, uri)
    command = ["diff-tree", "-r", "-p", "-M", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color"]
    command += [left, right, "--", *([path] if path else [])]
    limit = opened.options.max_size
    data = read_output(opened.store.isolation, opened.options.max_seconds, limit, *command)
    if data is None:
        files = changed_files(opened, left, right) or []
        advised = [
            f"{uri.partition('?')[0]}?path={percent_encode(name, undecodable=True)}"
            for _, name in files[:ADVISED]
            if name != path
        ]
        hint = f"; read that of one file, {' or '.join(advised)}" if advised else ""
        raise ResourceTooLarge(uri, f"The diff has more than {limit:,} bytes, which is the limit{hint}")
    # Each file has its own encoding. Lines of files begin with a space, a plus or a minus.
    texts = [(decode(file), file) for file in re.split(rb"^(?=diff --git )", data, flags=re.MULTILINE)]
    found = "".join(file.decode("utf-8", "replace") if text is None else text.text for text, file in texts)
    return TextResourceContents(uri, found, mime_type=DIFF, meta={"carrel/base": left, "carrel/commit": right})


def read_blame(opened: OpenRepository, location: GitLocation, uri: str) -> TextResourceContents:
    """Read a file with the commit, date, author and number of each line.

    Raises:
        ResourceNotFound: there is no such file.
        ResourceTooLarge: it has more than ``max_size`` bytes; the message has the URI of a window.
        InvalidParams: the file is not text, or does not have these lines.
    """
    revision = opened.resolve(location.ref, uri)
    entry = opened.store.entry(opened.commit(revision).tree, location.parts)
    if entry is None or entry.is_directory or entry.is_submodule:
        raise ResourceNotFound(uri)
    window = parse_window(location.query)
    limit = opened.options.max_size
    command = ["blame", "--porcelain", "--no-progress"]
    if window is not None:
        command += ["-L", f"{window.first},{'' if window.last is None else window.last}"]
    command += [revision.id, "--", "/".join(location.parts)]
    try:
        # The description of each line takes several times its own length.
        data = read_output(opened.store.isolation, opened.options.max_seconds, 8 * limit, *command)
    except GitFailed:
        if window is not None and window.first > 1:
            raise InvalidParams("Invalid params: lines: the file has fewer lines", parameter="lines") from None
        raise
    text = None if data is None else annotated(data, opened.repository.digits)
    if text is None and data is not None:
        raise InvalidParams("Invalid params: uri: the file is not text, and has no lines", parameter="uri")
    if text is None or len(text) > limit:
        advised = f"{uri.partition('?')[0]}?lines=1-1000"
        raise ResourceTooLarge(uri, f"The result has more than {limit:,} bytes; read some lines, {advised}")
    return TextResourceContents(uri, text, mime_type="text/plain")


def annotated(data: bytes, digits: int) -> str | None:
    """Return the output of ``git blame --porcelain`` with a line of text for each line; None if it is not text."""
    people: dict[bytes, dict[bytes, bytes]] = {}
    heads: list[tuple[bytes, bytes]] = []
    contents: list[bytes] = []
    about: dict[bytes, bytes] = {}
    for line in data.split(b"\n"):
        if line.startswith(b"\t"):
            contents.append(line[1:])
            continue
        key, _, value = line.partition(b" ")
        if len(key) == digits:
            about = people.setdefault(key, {})
            heads.append((key, value.split(b" ")[1]))
        elif key:
            about[key] = value
    text = decode(b"\n".join(contents))
    if text is None:
        return None
    lines = []
    for (id, number), content in zip(heads, text.text.split("\n"), strict=False):
        about = people[id]
        author = about.get(b"author", b"").decode("utf-8", "replace")
        moment = about.get(b"author-time", b"0")
        day = Person("", "", int(moment) if moment.isdigit() else 0, 0).date[:10]
        lines.append(f"{id[:10].decode()} {day} {author[:20]:<20} {number.decode():>5}| {content.rstrip(chr(13))}\n")
    return "".join(lines)
