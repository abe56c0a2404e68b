"""Templates of a repository, and completion of their variables: refs, commits by id and subject, paths at a ref."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from carrel.errors import InvalidParams, ResourceError
from carrel.media_types import DIRECTORY
from carrel.sources.files.search import escape
from carrel.sources.git.entries import JSON, display, shown_refs
from carrel.sources.git.location import RepositoryUris
from carrel.sources.git.revisions import OpenRepository
from carrel.sources.git.search import Search
from carrel.sources.git.store import Ambiguous
from carrel.wire.completion import Completion
from carrel.wire.resources import ResourceTemplate

__all__ = ["complete", "templates"]

MAX_VALUES = 100
LEAST_WORD = 3  # characters of a subject

SUGGESTIONS = {
    "lines": ["1-100", "1-1000", "1-"],
    "bytes": ["0-4095", "0-65535", "0-1048575"],
    "tail": ["20", "100", "200", "1000"],
    "limit": ["20", "50", "100", "500"],
}


def templates(names: RepositoryUris, title: str) -> list[ResourceTemplate]:
    """Return the resource templates."""
    file = "{ref}/{+path}"
    rows = (
        (f"file/{file}", "file", "A file at a branch, tag or commit", None),
        (f"file/{file}{{?lines}}", "lines of a file", "Lines first-last, for example 100-200 or 100-", None),
        (f"file/{file}{{?tail}}", "the end of a file", "The last lines, for example 200", None),
        (f"file/{file}{{?bytes}}", "bytes of a file", "Bytes first-last, for example 0-65535", None),
        (f"tree/{file}", "folder", "The entries of a folder at a branch, tag or commit", DIRECTORY),
        (f"blame/{file}{{?lines}}", "blame", "The commit, date and author of each line of a file", "text/plain"),
        ("commit/{ref}", "commit", "Author, date, message and changed files of a commit", "text/plain"),
        ("diff/{ref}{?path}", "changes of a commit", "What a commit changed, as a patch", "text/x-diff"),
        (
            "diff/{base}..{ref}{?path}",
            "diff",
            "What differs between two revisions, as a patch; with ... instead of .., from where they parted",
            "text/x-diff",
        ),
        ("log/{ref}{?path,limit,after}", "log", "Commits, the latest first; of a file or folder with path", JSON),
        ("grep/{ref}{?query,path}", "grep", "Lines of files at a revision that have words", "text/plain"),
        ("branch/{name}", "branch", "A branch and its latest commit", JSON),
        ("tag/{name}", "tag", "A tag, its message and its commit", JSON),
    )
    return [
        ResourceTemplate(f"{names.root}/{path}", f"{title}: {name}", description=about, mime_type=kind)
        for path, name, about, kind in rows
    ]


def complete(
    opened: OpenRepository, search: Search, template: str, variable: str, value: str, context: Mapping[str, str]
) -> Completion:
    """Suggest values for a variable of a template.

    Raises:
        ResourceError: the repository cannot be read.
    """
    kind = template.removeprefix(opened.names.root + "/").partition("/")[0]
    if variable in ("ref", "base", "after"):
        values = list(dict.fromkeys(revisions(opened, search, value, context, variable)))
    elif variable == "name":
        values = matching((display(name) for name in shown_refs(opened, kind) if is_text(name)), value)
    elif variable == "path":
        values = paths(opened, value, context.get("ref", "HEAD"), template, kind)
    else:
        values = [one for one in SUGGESTIONS.get(variable, ()) if one.startswith(value)]
    return Completion(values=values[:MAX_VALUES], total=len(values), has_more=len(values) > MAX_VALUES)


def is_text(name: str) -> bool:
    return name.isascii() or not any("\udc80" <= character <= "\udcff" for character in name)


def matching(names: Iterator[str], value: str) -> list[str]:
    """Return the names that contain a text. Names that begin with it come first."""
    wanted = value.casefold()
    groups: tuple[list[str], list[str]] = ([], [])
    for name in names:
        folded = name.casefold()
        if wanted in folded:
            groups[not folded.startswith(wanted)].append(name)
    return groups[0] + groups[1]


def revisions(
    opened: OpenRepository, search: Search, value: str, context: Mapping[str, str], variable: str
) -> Iterator[str]:
    """Yield refs, and commits by the beginning of their id or words of their subject."""
    if variable != "after":
        named = {"HEAD": None} | dict.fromkeys(
            opened.spelled(full) for kind in ("branch", "tag") for full, _ in shown_refs(opened, kind).values()
        )
        yield from matching((name for name in named if is_text(name)), value)
    try:
        found = opened.store.look_up(value)
        if found is not None and found.kind == "commit":
            yield found.id
    except Ambiguous:
        pass
    start = context.get("ref", "HEAD") if variable == "after" else "HEAD"
    wanted = value.casefold()
    if value and len(value) < LEAST_WORD:
        return
    try:
        head = opened.resolve(start, opened.names.root).id
    except ResourceError:
        return
    for number, id in enumerate(search.recent(head)):
        if (not value and number < 10) or (value and (id.startswith(value) or wanted in subject(opened, id))):
            yield id


def subject(opened: OpenRepository, id: str) -> str:
    return opened.store.commit(id).subject.casefold()


def paths(opened: OpenRepository, value: str, ref: str, template: str, kind: str) -> list[str]:
    """Return the entries of one folder that begin with the typed text. Folders end with a slash, and come first."""
    encode = escape if "{+path}" in template else str
    folder, _, last = value.lstrip("/").rpartition("/")
    names = folder.split("/") if folder else []
    try:
        revision = opened.resolve(ref, opened.names.root)
    except (ResourceError, InvalidParams):
        return []
    tree, found = opened.commit(revision).tree, []
    for typed in names:
        inside = [one for one in opened.store.tree(tree) if one.is_directory and typed in (one.name, encode(one.name))]
        if not inside:
            return []
        tree = inside[0].id
        found.append(encode(inside[0].name))
    prefix = "".join(f"{name}/" for name in found)
    groups: tuple[list[str], list[str]] = ([], [])
    wanted = last.casefold()
    for entry in opened.store.tree(tree):
        if (kind == "tree" and not entry.is_directory) or not (is_text(entry.name) or encode is escape):
            continue
        text = encode(entry.name)
        if text.casefold().startswith(wanted) or entry.name.casefold().startswith(wanted):
            groups[not entry.is_directory].append(f"{prefix}{text}/" if entry.is_directory else f"{prefix}{text}")
    return groups[0] + groups[1]
