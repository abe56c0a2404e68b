"""Entries of trees, branches and tags as resources, with their types, sizes and dates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from carrel.media_types import DIRECTORY, type_of_name
from carrel.sources.folder.describe import display, timestamp
from carrel.sources.git.objects import DamagedObject, TreeObjectEntry
from carrel.sources.git.process import GitFailed
from carrel.sources.git.refs import BRANCHES, REMOTES, TAGS
from carrel.sources.git.revisions import OpenRepository
from carrel.sources.git.store import MissingObject
from carrel.wire.base import Annotations
from carrel.wire.resources import Resource

__all__ = ["JSON", "LINK", "SUBMODULE", "describe_entries", "describe_refs", "overview", "shown_refs"]

JSON = "application/json"
LINK = "inode/symlink"
SUBMODULE = "application/x-git-submodule"


def describe_entries(
    opened: OpenRepository, ref: str, folder: tuple[str, ...], entries: Sequence[TreeObjectEntry], *, sizes: bool = True
) -> list[Resource]:
    """Return the entries of a folder as resources. Submodules and links are shown as such, and never followed."""
    blobs = [entry.id for entry in entries if not entry.is_directory and not entry.is_submodule]
    known = dict(zip(blobs, opened.store.look_up_all(blobs), strict=True)) if sizes else {}
    found = []
    for entry in entries:
        parts = (*folder, entry.name)
        shown = display(entry.name)
        if entry.is_directory:
            found.append(Resource(opened.names.uri("tree", ref, parts), shown, mime_type=DIRECTORY))
        elif entry.is_submodule:
            about = f"submodule at commit {entry.id}"
            uri = opened.names.uri("file", ref, parts)
            found.append(Resource(uri, shown, mime_type=SUBMODULE, description=about))
        else:
            blob = known.get(entry.id)
            kind = LINK if entry.is_link else type_of_name(entry.name)
            size = None if blob is None else blob.size
            found.append(Resource(opened.names.uri("file", ref, parts), shown, mime_type=kind, size=size))
    return found


def shown_refs(opened: OpenRepository, kind: str, *, remote: bool = True) -> dict[str, tuple[str, str]]:
    """Return the visible branches (local, and with ``remote`` remote ones) or tags.

    They are full names and object ids by the ref in their URIs.
    """
    found = {}
    for name, id in opened.refs.all().items():
        if name.startswith(TAGS) == (kind == "tag") and (remote or not name.startswith(REMOTES)):
            short = name.removeprefix(TAGS if kind == "tag" else BRANCHES)
            # A local branch may have the name of a remote one: "refs/remotes/x" is always the latter.
            ref = name if short.startswith("refs/") else short
            if opened.shows(kind, ref):
                found[ref] = (name, id)
    return found


def describe_refs(opened: OpenRepository, kind: str, refs: Sequence[tuple[str, str, str]]) -> list[Resource]:
    """Return branches or tags as resources: (ref in the URI, full name, object id)."""
    head = opened.refs.head()
    found = []
    for ref, name, id in refs:
        uri, shown = opened.names.uri(kind, ref), display(ref.removeprefix("refs/remotes/"))
        description, modified = None, None
        try:
            commit = opened.store.commit(opened.store.peel(id).id)
        except (MissingObject, DamagedObject, GitFailed):
            description = "leads to an object that is missing, damaged or no commit"
        else:
            description, modified = commit.subject or None, timestamp(commit.committer.time)
        annotations = Annotations(priority=1.0 if name == head else 0.5, last_modified=modified)
        found.append(Resource(uri, shown, description=description, mime_type=JSON, annotations=annotations))
    return found


def overview(opened: OpenRepository, title: str) -> list[Resource]:
    """Return the resources that every repository has: itself, the files and the history at HEAD, branches, tags."""
    uri = opened.names.uri
    return [
        Resource(uri(), title, description="git repository", mime_type=DIRECTORY),
        Resource(uri("tree", "HEAD"), f"{title}: files", description="The files at HEAD", mime_type=DIRECTORY),
        Resource(uri("log", "HEAD"), f"{title}: history", description="The latest commits", mime_type=JSON),
        Resource(uri("branches"), f"{title}: branches", mime_type=DIRECTORY),
        Resource(uri("tags"), f"{title}: tags", mime_type=DIRECTORY),
    ]


def json_lines(resources: Sequence[Resource]) -> Iterator[bytes]:
    """Yield the lines of a JSON array of resources."""
    yield b"[\n"
    for number, resource in enumerate(resources, 1):
        yield msgspec.json.encode(resource) + (b",\n" if number < len(resources) else b"\n")
    yield b"]\n"
