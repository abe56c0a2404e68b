"""Commits, logs, branches and tags as documents; the commits of lines (blame)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from carrel.errors import InvalidParams, ResourceNotFound, ResourceTooLarge
from carrel.sources.content.text import decode
from carrel.sources.content.window import parse_window
from carrel.sources.folder.describe import display
from carrel.sources.git.entries import JSON
from carrel.sources.git.location import GitLocation
from carrel.sources.git.objects import Commit, Person
from carrel.sources.git.process import GitFailed, GitTimeout
from carrel.sources.git.refs import BRANCHES, REMOTES, TAGS, is_ref_name
from carrel.sources.git.revisions import OpenRepository
from carrel.uri.parse import percent_encode
from carrel.wire.resources import TextResourceContents

__all__ = [
    "changed_files",
    "named_ref",
    "read_blame",
    "read_branch",
    "read_commit",
    "read_log",
    "read_tag",
]

PAGE, MAX_PAGE = 50, 500
MAX_LISTED = 2 * 1024 * 1024  # bytes of the list of changed files
MAX_CHANGED = 1000  # files that a commit names
MAX_DECORATED = 20_000  # refs to search for the refs of a commit


def who(person: Person) -> str:
    return f"{person.name} <{person.email}>"


def summary(opened: OpenRepository, id: str, commit: Commit) -> dict[str, Any]:
    return {
        "uri": opened.names.uri("commit", id),
        "id": id,
        "parents": commit.parents,
        "author": who(commit.author),
        "date": commit.committer.date,
        "subject": commit.subject,
    }


def read_branch(opened: OpenRepository, location: GitLocation, uri: str) -> TextResourceContents:
    """Read a branch: its commit, and the URIs of its files and its history.

    Raises:
        ResourceNotFound: the branch does not exist.
    """
    name, id = named_ref(opened, location, uri)
    return about_ref(opened, name, opened.store.peel(id).id, uri, {"head": opened.refs.head() == name})


def read_tag(opened: OpenRepository, location: GitLocation, uri: str) -> TextResourceContents:
    """Read a tag: its commit, and, if it is annotated, its author and message.

    Raises:
        ResourceNotFound: the tag does not exist.
    """
    name, id = named_ref(opened, location, uri)
    tag = opened.store.tag(id)
    about: dict[str, Any] = {}
    if tag is not None:
        about = {"tagger": who(tag.tagger), "tagged": tag.tagger.date, "message": tag.message}
    return about_ref(opened, name, opened.store.peel(id).id, uri, about)


def named_ref(opened: OpenRepository, location: GitLocation, uri: str) -> tuple[str, str]:
    """Return the full name and the object id of a branch or a tag. Local branches come before remote branches.

    Raises:
        ResourceNotFound: the branch or tag does not exist.
    """
    prefixes = (TAGS,) if location.kind == "tag" else (BRANCHES, REMOTES)
    names = [f"{prefix}{location.ref}" for prefix in prefixes]
    for name in [location.ref, *names] if location.ref.startswith(prefixes) else names:
        id = opened.refs.read(name) if is_ref_name(name) else None
        if id is not None:
            return name, id
    raise ResourceNotFound(uri)


def about_ref(opened: OpenRepository, name: str, id: str, uri: str, more: dict[str, Any]) -> TextResourceContents:
    ref = opened.spelled(name)
    document = {"ref": display(name), **more}
    found = opened.store.look_up(id)
    if found is not None and found.kind == "commit":
        document["commit"] = summary(opened, id, opened.store.commit(id))
        document |= {kind: opened.names.uri(kind, ref) for kind in ("tree", "log")}
    else:
        document["object"] = {"id": id, "type": None if found is None else found.kind}
    return TextResourceContents(uri, indented(document), mime_type=JSON)


def indented(document: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def refs_of(opened: OpenRepository) -> dict[str, list[str]]:
    """Return the names of visible refs by the ids of their objects (of tags that are not annotated)."""
    found: dict[str, list[str]] = {}
    for number, (name, id) in enumerate(opened.refs.all().items()):
        if number >= MAX_DECORATED:
            break
        kind = "tag" if name.startswith(TAGS) else "branch"
        if opened.shows(kind, name if name.startswith(REMOTES) else name.split("/", 2)[2]):
            found.setdefault(id, []).append(display(name.split("/", 2)[2]))
    return found


# Logs


def read_log(opened: OpenRepository, location: GitLocation, uri: str) -> TextResourceContents:
    """Read a page of a log, the latest commits first: one line of JSON for each, and the URI of the next page.

    ``after`` is the id of the last commit of the previous page. It stays valid when commits are added.

    Raises:
        ResourceNotFound: there is no such revision.
        InvalidParams: a parameter is not valid.
    """
    limit, after = limit_of(location), location.parameters.get("after")
    id = opened.resolve(location.ref, uri)
    after = None if after is None else opened.resolve(after, uri)
    ids, incomplete = walk(log_of(opened, id, location, None if after else limit + 1), after, limit + 1)
    decorations = refs_of(opened)
    lines = []
    for id in ids[:limit]:
        entry = summary(opened, id, opened.store.commit(id))
        if id in decorations:
            entry["refs"] = decorations[id]
        lines.append(msgspec.json.encode(entry).decode())
    following = None
    if len(ids) > limit:
        path = path_of(location)
        query = f"?path={percent_encode(path, undecodable=True)}&" if path else "?"
        following = f"{opened.names.uri('log', location.ref)}{query}limit={limit}&after={ids[limit - 1]}"
    end = msgspec.json.encode({"next": following, "incomplete": incomplete}).decode()
    text = '{"commits":[\n' + ",\n".join(lines) + ("\n" if lines else "") + "]," + end[1:] + "\n"
    return TextResourceContents(uri, text, mime_type=JSON)


def limit_of(location: GitLocation) -> int:
    text = location.parameters.get("limit", str(PAGE))
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= 1):
        raise InvalidParams(f"Invalid params: limit: {text[:50]!r} is not a number from 1 up", parameter="limit")
    return min(int(text), MAX_PAGE)


def path_of(location: GitLocation) -> str:
    """Return the path in the query, without slashes around it."""
    path = location.parameters.get("path", "").strip("/")
    if any(name in ("", ".", "..") for name in path.split("/") if path):
        raise InvalidParams(f"Invalid params: path: {display(path)[:200]!r} is not a path", parameter="path")
    return path


def log_of(opened: OpenRepository, id: str, location: GitLocation, count: int | None) -> Iterator[str]:
    """Yield the ids of a commit and its ancestors. With a path, skip commits that changed no visible file there.

    ``count`` is the number of ids that are needed, if it is known.
    """
    path = path_of(location)
    if not path or opened.visible is None:
        limit = [] if count is None else [f"--max-count={count}"]
        yield from lines_of(opened.pieces("rev-list", *limit, id, "--", *([path] if path else [])))
        return
    # No path begins with a slash, and the first path of a commit follows a newline. -m repeats a merge for each parent.
    options = ("-z", "--name-only", "--no-renames", "-m", "--format=//%H")
    found, shown = "", True
    for text in lines_of(opened.pieces("log", *options, id, "--", path), b"\0"):
        if text.startswith("//"):
            found, shown = text[2:], shown and text[2:] == found
        elif not shown and opened.shows("file", location.ref, text.removeprefix("\n")):
            shown = True
            yield found


def lines_of(pieces: Iterable[bytes], end: bytes = b"\n") -> Iterator[str]:
    """Yield the lines that git prints. It prints commits as it finds them, so a walk can stop at the end of a page."""
    left = b""
    for data in pieces:
        *lines, left = (left + data).split(end)
        for line in lines:
            yield line.decode("utf-8", "surrogateescape")


def walk(commits: Iterable[str], after: str | None, count: int) -> tuple[list[str], bool]:
    """Return the first ids of a log, and whether the search was stopped by the time limit.

    If ``after`` is given, the ids begin after that commit.

    Raises:
        InvalidParams: ``after`` is not in the history.
    """
    found: list[str] = []
    begun = after is None
    try:
        for id in commits:
            if begun:
                found.append(id)
                if len(found) == count:
                    return found, False
            elif id == after:
                begun = True
    except GitTimeout:
        return found, True
    if not begun:
        raise InvalidParams("Invalid params: after: the commit is not in this log", parameter="after")
    return found, False


# Commits


def read_commit(opened: OpenRepository, location: GitLocation, uri: str) -> TextResourceContents:
    """Read a commit: who, when, the message, and the visible files changed since its first parent.

    Raises:
        ResourceNotFound: the commit does not exist.
    """
    id = opened.resolve(location.ref, uri)
    commit = opened.store.commit(id)
    refs = refs_of(opened).get(id, [])
    lines = [f"commit {id}"]
    lines += [f"Refs: {', '.join(refs)}"] if refs else []
    lines += [f"Parent: {opened.names.uri('commit', parent)}" for parent in commit.parents]
    lines += [f"Author: {who(commit.author)}", f"Date: {commit.author.date}"]
    if (commit.committer.name, commit.committer.email) != (commit.author.name, commit.author.email):
        lines += [f"Committer: {who(commit.committer)}", f"Committed: {commit.committer.date}"]
    lines += [f"Files: {opened.names.uri('tree', id)}", f"Diff: {opened.names.uri('diff', id)}"]
    lines += ["", commit.message.rstrip("\n"), ""]
    base = commit.parents[0] if commit.parents else opened.repository.empty_tree
    files = changed_files(opened, base, id)
    if files is None:
        lines.append("More files were changed than can be listed.")
    else:
        files = [(kind, path) for kind, path in files if opened.shows("file", location.ref, path)]
        lines.append(f"{len(files):,} {'file' if len(files) == 1 else 'files'} changed")
        lines += [f"{kind} {display(path)}" for kind, path in files[:MAX_CHANGED]]
        lines += [f"and {len(files) - MAX_CHANGED:,} more"] if len(files) > MAX_CHANGED else []
    return TextResourceContents(uri, "\n".join(lines) + "\n", mime_type="text/plain")


def changed_files(opened: OpenRepository, base: str, id: str, path: str = "") -> list[tuple[str, str]] | None:
    """Return the files that differ, each with a letter: A(dded), D(eleted), M(odified), T(ype changed); None: too many.

    ``base`` and ``id`` are ids of commits or trees. ``path`` limits the files to a path.
    """
    command = ["diff-tree", "-r", "-z", "--name-status", "--no-renames", "--no-ext-diff", base, id, "--"]
    command += [path] if path else []
    data = opened.output(MAX_LISTED, *command)
    if data is None:
        return None
    fields = data.decode("utf-8", "surrogateescape").split("\0")
    return [(kind[:1], path) for kind, path in zip(fields[::2], fields[1::2], strict=False)]


def read_blame(opened: OpenRepository, location: GitLocation, uri: str) -> TextResourceContents:
    """Read a file with the commit, date, author and number of each line.

    Raises:
        ResourceNotFound: there is no such file.
        ResourceTooLarge: it has more than ``max_size`` bytes; the message has the URI of a window.
        InvalidParams: the file is not text, or does not have these lines.
    """
    id = opened.resolve(location.ref, uri)
    entry = opened.entry(location.ref, location.parts, uri)
    if entry is None or entry.is_directory or entry.is_submodule:
        raise ResourceNotFound(uri)
    window = parse_window(location.query)
    limit = opened.options.max_size
    command = ["blame", "--porcelain", "--no-progress"]
    if window is not None:
        command += ["-L", f"{window.first},{'' if window.last is None else window.last}"]
    command += [id, "--", "/".join(location.parts)]
    try:
        # The description of each line takes several times its own length.
        data = opened.output(8 * limit, *command)
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
