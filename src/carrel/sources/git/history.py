"""Commits, logs, branches and tags as documents; differences between revisions; the commits of lines (blame)."""

from __future__ import annotations

import re
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
    "read_diff",
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
    """Return the names of refs by the ids of their objects (of tags that are not annotated)."""
    found: dict[str, list[str]] = {}
    for number, (name, id) in enumerate(opened.refs.all().items()):
        if number >= MAX_DECORATED:
            break
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
    limit, after, path = limit_of(location), location.parameters.get("after"), path_of(location)
    id = opened.resolve(location.ref, uri)
    after = None if after is None else opened.resolve(after, uri)
    ids, incomplete = walk(opened, id, path, after, limit + 1)
    decorations = refs_of(opened)
    lines = []
    for id in ids[:limit]:
        entry = summary(opened, id, opened.store.commit(id))
        if id in decorations:
            entry["refs"] = decorations[id]
        lines.append(msgspec.json.encode(entry).decode())
    following = None
    if len(ids) > limit:
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


def walk(opened: OpenRepository, id: str, path: str, after: str | None, count: int) -> tuple[list[str], bool]:
    """Return the ids of a commit and its ancestors, and whether the search was stopped by the time limit.

    If ``after`` is given, the ids begin after that commit.

    Raises:
        InvalidParams: ``after`` is not in the history.
    """
    found: list[str] = []
    begun, left = after is None, b""
    arguments = [] if after is not None else [f"--max-count={count}"]
    # git prints commits as it finds them, so the walk can stop at the end of the page.
    command = ("rev-list", *arguments, id, "--", *([path] if path else []))
    try:
        for data in opened.pieces(*command):
            *lines, left = (left + data).split(b"\n")
            for line in lines:
                one = line.decode("ascii", "replace")
                if begun:
                    found.append(one)
                    if len(found) == count:
                        return found, False
                elif one == after:
                    begun = True
    except GitTimeout:
        return found, True
    if not begun:
        raise InvalidParams("Invalid params: after: the commit is not in this log", parameter="after")
    return found, False


# Commits


def read_commit(opened: OpenRepository, location: GitLocation, uri: str) -> TextResourceContents:
    """Read a commit: who, when, the message, and the files changed since its first parent.

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
        lines.append(f"{len(files):,} {'file' if len(files) == 1 else 'files'} changed")
        lines += [f"{kind} {display(path)}" for kind, path in files[:MAX_CHANGED]]
        lines += [f"and {len(files) - MAX_CHANGED:,} more"] if len(files) > MAX_CHANGED else []
    return TextResourceContents(uri, "\n".join(lines) + "\n", mime_type="text/plain")


def changed_files(opened: OpenRepository, base: str, id: str) -> list[tuple[str, str]] | None:
    """Return the files that differ, each with a letter: A(dded), D(eleted), M(odified), T(ype changed); None: too many.

    ``base`` and ``id`` are ids of commits or trees.
    """
    command = ("diff-tree", "-r", "-z", "--name-status", "--no-renames", "--no-ext-diff", base, id, "--")
    data = opened.output(MAX_LISTED, *command)
    if data is None:
        return None
    fields = data.decode("utf-8", "surrogateescape").split("\0")
    return [(kind[:1], path) for kind, path in zip(fields[::2], fields[1::2], strict=False)]


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
        id = opened.resolve(location.ref, uri)
        parents = opened.store.commit(id).parents
        return (parents[0] if parents else opened.repository.empty_tree), id
    left, right = opened.resolve(base or "HEAD", uri), opened.resolve(name or "HEAD", uri)
    if dots == "...":
        command = ("merge-base", left, right)
        try:
            found = opened.output(1000, *command) or b""
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
    data = opened.output(limit, *command)
    if data is None:
        files = changed_files(opened, left, right) or []
        advised = [
            f"{uri.partition('?')[0]}?path={percent_encode(name, undecodable=True)}"
            for _, name in files[:ADVISED]
            if name != path
        ]
        hint = f"; read the history of one file, {' or '.join(advised)}" if advised else ""
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
    id = opened.resolve(location.ref, uri)
    entry = opened.store.entry(opened.store.commit(id).tree, location.parts)
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
