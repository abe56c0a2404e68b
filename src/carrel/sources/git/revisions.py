"""Revisions: the commits that refs, ids, and forms such as ``main~2`` name, and the repository that has them open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Self

from carrel.errors import ResourceError, ResourceNotFound
from carrel.sources.git.location import RepositoryUris
from carrel.sources.git.objects import DamagedObject, TreeObjectEntry
from carrel.sources.git.options import GitOptions
from carrel.sources.git.process import GitFailed, GitTimeout, pieces, read_output
from carrel.sources.git.refs import BRANCHES, TAGS, Refs
from carrel.sources.git.repository import Repository
from carrel.sources.git.store import Ambiguous, MissingObject, ObjectStore

if TYPE_CHECKING:
    from carrel.catalog.provider import Visible

__all__ = ["OpenRepository", "translate"]

SUFFIX = re.compile(r"((?:[~^][0-9]{0,5})*)\Z")
STEP = re.compile(r"([~^])([0-9]*)")
FEW = 20  # commits that are read one by one


class OpenRepository:
    """A repository with its refs, its objects and the names of its resources."""

    visible: Visible | None = None
    """Whether a resource is visible to the caller; None if all resources are visible."""

    def __init__(self, repository: Repository, store: ObjectStore, names: RepositoryUris, options: GitOptions) -> None:
        self.repository = repository
        self.refs = Refs(repository)
        self.store = store
        self.names = names
        self.options = options

    def seen_by(self, visible: Visible) -> Self:
        """Return the repository as a caller sees it."""
        seen = copy(self)
        seen.visible = visible
        return seen

    def shows(self, kind: str, ref: str, path: str = "") -> bool:
        """Return whether a branch, tag or commit, or a path at a revision, is visible to the caller."""
        if self.visible is None:
            return True
        return self.visible(self.names.uri(kind, ref, tuple(path.split("/")) if path else ()))

    def shows_entry(self, ref: str, folder: Sequence[str], entry: TreeObjectEntry) -> bool:
        """Return whether an entry of a folder at a revision is visible to the caller."""
        return self.shows("tree" if entry.is_directory else "file", ref, "/".join((*folder, entry.name)))

    def resolve(self, name: str, uri: str) -> str:
        """Return the id of the commit that a name of any kind leads to.

        Raises:
            ResourceNotFound: the name does not resolve to a commit.
        """
        match = SUFFIX.search(name)
        suffix = "" if match is None else match[1]
        id = self._base(name[: len(name) - len(suffix)], uri)
        if id is None:
            raise ResourceNotFound(uri, f"There is no revision {name[:200]!r} in the repository")
        found = self.store.peel(id)
        if found.kind != "commit":
            raise ResourceNotFound(uri, f"{name[:200]!r} is not a commit but a {found.kind}")
        id = found.id
        for sign, number in STEP.findall(suffix):
            id = self._step(id, sign, int(number or 1), uri, name)
        return id

    def _base(self, name: str, uri: str) -> str | None:
        if name in ("HEAD", "@"):
            id = self.refs.read("HEAD")
            if id is None:
                raise ResourceNotFound(uri, "The repository has no commits yet, or HEAD leads nowhere")
            return id
        if len(name) != self.repository.digits:
            found = self.refs.find(name)
            if found is not None:
                return found[1]
        try:
            inside = self.store.look_up(name)
        except Ambiguous:
            raise ResourceNotFound(uri, f"Several objects begin with {name}; give more digits") from None
        return None if inside is None else inside.id

    def _step(self, id: str, sign: str, number: int, uri: str, name: str) -> str:
        """Go back in history: ``~3`` is three times the first parent, ``^2`` the second parent."""
        if sign == "~" and number > FEW:
            return self._far(id, number, uri, name)
        for _ in range(number if sign == "~" else min(number, 1)):
            parents = self.store.commit(id).parents
            index = 0 if sign == "~" else number - 1
            if index >= len(parents):
                raise ResourceNotFound(uri, f"There is no revision {name[:200]!r}: history does not go back so far")
            id = parents[index]
        return id

    def _far(self, id: str, number: int, uri: str, name: str) -> str:
        command = ("rev-list", "--first-parent", f"--skip={number}", "--max-count=1", id, "--")
        found = self.output(1000, *command) or b""
        if not found:
            raise ResourceNotFound(uri, f"There is no revision {name[:200]!r}: history does not go back so far")
        return found.decode("ascii", "replace").strip()

    def entry(self, ref: str, parts: Sequence[str], uri: str) -> TreeObjectEntry | None:
        """Return the entry at a path of a revision, or None if it does not exist.

        Raises:
            ResourceNotFound: there is no such revision.
        """
        return self.store.entry(self.store.commit(self.resolve(ref, uri)).tree, parts)

    def pieces(self, *command: str) -> Iterator[bytes]:
        """Run git, and yield its output as it arrives. Raises the errors of ``process.pieces``."""
        return pieces(self.store.isolation, self.options.max_seconds, *command)

    def output(self, limit: int, *command: str) -> bytes | None:
        """Run git, and return its output; None if it has more than ``limit`` bytes. Raises the errors of ``pieces``."""
        return read_output(self.store.isolation, self.options.max_seconds, limit, *command)

    def spelled(self, ref: str) -> str:
        """Return the shortest name of a branch or tag that leads to it alone; ``ref`` is its full name."""
        for prefix in (TAGS, BRANCHES):
            short = ref.removeprefix(prefix)
            if short != ref:
                found = self.refs.find(short) if len(short) != self.repository.digits else None
                return short if found is not None and found[0] == ref else ref
        return ref


def translate(error: Exception, uri: str, repository: Repository, seconds: float) -> ResourceError:
    """Translate an error of the store, or of git, into a resource error."""
    if isinstance(error, GitTimeout):
        return ResourceError(uri, f"git took longer than the limit of {seconds:g} seconds, and was stopped")
    if repository.is_partial:
        return ResourceNotFound(
            uri,
            "An object is missing: this is a shallow or partial clone. Nothing is fetched from other repositories; "
            "git fetch --unshallow (or --refetch) gets the missing objects",
        )
    if isinstance(error, MissingObject):
        return ResourceNotFound(uri, f"The repository has no object {error.id}")
    what = (
        "has a damaged object" if isinstance(error, DamagedObject) else "cannot be read by git (damaged or too large)"
    )
    assert isinstance(error, (GitFailed, DamagedObject))
    return ResourceError(uri, f"The repository {what}; run git fsck for details")
