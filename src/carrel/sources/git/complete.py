"""Templates of a repository, and completion of their variables: refs, commits by id and subject, paths at a ref."""

from __future__ import annotations

from collections.abc import Iterator

from carrel.errors import InvalidParams, ResourceError
from carrel.media_types import DIRECTORY
from carrel.sources.base import PartialVariable
from carrel.sources.content.window import SUGGESTIONS
from carrel.sources.files.search import escape
from carrel.sources.folder.describe import display
from carrel.sources.git.entries import JSON, shown_refs
from carrel.sources.git.location import RepositoryUris
from carrel.sources.git.revisions import OpenRepository
from carrel.sources.git.search import Search
from carrel.sources.git.store import Ambiguous
from carrel.wire.resources import ResourceTemplate

__all__ = ["complete", "templates"]

LEAST_WORD = 3  # characters of a subject

SUGGESTED = {**SUGGESTIONS, "limit": ["20", "50", "100", "500"]}


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
        ("diff/{ref}{?path}", "changes of a commit", "Changes of a commit, as a patch", "text/x-diff"),
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


def complete(opened: OpenRepository, search: Search, variable: PartialVariable) -> list[str]:
    """Suggest values for a variable of a template.

    Raises:
        ResourceError: the repository cannot be read.
    """
    name, value, template = variable.name, variable.value, variable.template.uri_template
    kind = template.removeprefix(opened.names.root + "/").partition("/")[0]
    if name in ("ref", "base", "after"):
        return list(dict.fromkeys(revisions(opened, search, variable)))
    if name == "name":
        return matching((display(name) for name in shown_refs(opened, kind) if is_text(name)), value)
    if name == "path":
        return paths(opened, value, variable.context.get("ref", "HEAD"), template, kind)
    return [one for one in SUGGESTED.get(name, ()) if one.startswith(value)]


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


def revisions(opened: OpenRepository, search: Search, variable: PartialVariable) -> Iterator[str]:
    """Yield refs, and commits by the beginning of their id or words of their subject."""
    value, is_after = variable.value, variable.name == "after"
    if not is_after:
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
    start = variable.context.get("ref", "HEAD") if is_after else "HEAD"
    wanted = value.casefold()
    if value and len(value) < LEAST_WORD:
        return
    try:
        head = opened.resolve(start, opened.names.root)
    except ResourceError:
        return
    for number, id in enumerate(search.recent(head)):
        if (not value and number < 10) or (value and (id.startswith(value) or wanted in subject(opened, id))):
            yield id


def subject(opened: OpenRepository, id: str) -> str:
    return opened.store.commit(id).subject.casefold()


def paths(opened: OpenRepository, value: str, ref: str, template: str, kind: str) -> list[str]:
    """Return the visible entries of one folder that begin with the typed text: first the folders, with a slash."""
    encode = escape if "{+path}" in template else str
    folder, _, last = value.lstrip("/").rpartition("/")
    names = folder.split("/") if folder else []
    try:
        id = opened.resolve(ref, opened.names.root)
    except (ResourceError, InvalidParams):
        return []
    tree, found = opened.store.commit(id).tree, []
    folders: list[str] = []
    for typed in names:
        inside = [one for one in opened.store.tree(tree) if one.is_directory and typed in (one.name, encode(one.name))]
        if not inside:
            return []
        tree = inside[0].id
        found.append(encode(inside[0].name))
        folders.append(inside[0].name)
    prefix = "".join(f"{name}/" for name in found)
    groups: tuple[list[str], list[str]] = ([], [])
    wanted = last.casefold()
    for entry in opened.store.tree(tree):
        if (kind == "tree" and not entry.is_directory) or not (is_text(entry.name) or encode is escape):
            continue
        kinds = ("tree", "file") if entry.is_directory else ("file",)
        if not any(opened.shows(one, ref, "/".join((*folders, entry.name))) for one in kinds):
            continue
        text = encode(entry.name)
        if text.casefold().startswith(wanted) or entry.name.casefold().startswith(wanted):
            groups[not entry.is_directory].append(f"{prefix}{text}/" if entry.is_directory else f"{prefix}{text}")
    return groups[0] + groups[1]
