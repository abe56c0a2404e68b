"""Git repositories as resources: files at any revision, history, differences, blame, with changes of refs.

``repository`` finds the repository and decides what of it can be used; ``isolation`` runs git on its objects alone;
``refs`` reads branches and tags; ``store`` reads objects; ``reader`` answers requests.
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH100, PTH111, PTH119

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Hashable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from carrel.catalog.provider import Change, Interest, Page, Request
from carrel.errors import ConfigError, MCPError, ResourceError
from carrel.log import Log
from carrel.sources.base import ReaderSource
from carrel.sources.documents.documents import Documents, Original
from carrel.sources.folder.describe import display
from carrel.sources.git.location import RepositoryUris
from carrel.sources.git.options import GitOptions
from carrel.sources.git.reader import GitReader
from carrel.sources.git.refs import RefsAt
from carrel.sources.polling import changes_between
from carrel.sources.workers import Workers
from carrel.uri.parse import UriError, file_path
from carrel.wire.resources import Resource, ResourceTemplate

if TYPE_CHECKING:
    from carrel.sources.folder.watch import FolderWatch

__all__ = ["GitSource"]

UNWATCHED = ("/objects/", "/logs/", "/modules/", "/hooks/", "/info/", "/lfs/", "/rr-cache/", "*.lock")

log = Log("carrel.sources")


class GitSource(ReaderSource[GitReader]):
    """Provider of a git repository: a working tree, a worktree or a bare repository, by ``git:PATH`` or ``git+file:``.

    Raises:
        ConfigError: the URL names no path on this machine.
    """

    options = GitOptions
    _documents: Documents
    naming = "give each repository its own name with the option repository, in carrel.toml or in Python"

    def __init__(self, target: str | os.PathLike[str], options: GitOptions = GitOptions()) -> None:  # noqa: B008
        self.path = os.path.abspath(os.path.expanduser(path_of(os.fspath(target))))
        name = options.repository or os.path.basename(self.path).removesuffix(".git") or "repository"
        if name == ".":
            name = "repository"
        self.title = display(name)
        uris = RepositoryUris(name)
        self.name = self.uri = uris.root
        self.prefixes = (self.uri,)
        self._documents = Documents(
            self, offered=options.documents, limit=options.max_size, locations=options.image_locations
        )
        threads = (options.threads, options.threads_per_client, options.max_waiting)
        reader = GitReader(self.path, options, uris, self.title, self._documents)
        super().__init__(reader, Workers(self, "carrel-git", *threads))

    def __repr__(self) -> str:
        return f"GitSource({self.path!r})"

    def _seen(self, request: Request) -> GitReader:
        return self._reader if request.visible is None else self._reader.seen_by(request.visible)

    def shows(self, uri: str, request: Request) -> bool:
        """Return whether a URI names nothing that is hidden from the caller, in any spelling."""
        return self._seen(request).shows(uri)

    def accepts(self, uri: str, request: Request) -> bool:
        """Return True: absent files accept subscriptions, so hidden files must accept them too."""
        return True

    def is_guarded(self, uri: str) -> bool:
        """Return True: a URI may have several spellings, and rules are about one of them."""
        return True

    def _failed(self, error: OSError) -> ResourceError:
        log.warning("%s cannot be read: %s", self.title, error.strerror)
        return ResourceError(self.uri, f"Resource cannot be read ({error.strerror})")

    # Resources

    async def list_searchable(self, request: Request) -> Page[Resource]:
        """Return a page of the resources and of all files at HEAD."""
        return await self._run(request, lambda reader: reader.list_searchable(request.cursor, max(request.limit, 1)))

    async def _original(self, uri: str, request: Request, limit: int, known: Callable[[Hashable], bool]) -> Original:
        return await self._run(request, lambda reader: reader.original(uri, limit, known))

    def _templates(self) -> Sequence[ResourceTemplate]:
        self._workers.check()
        return super()._templates()

    # Changes

    def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Return the changes of branches and tags, and of the subscribed resources at these refs, when refs move.

        Raises:
            ConfigError: watchfiles is not installed, or the system does not allow watching.
        """
        return self._watches.join(self._changes(interest, self._listen()))

    async def _changes(self, interest: Interest, watch: FolderWatch) -> AsyncGenerator[Collection[Change], None]:
        moved = asyncio.ensure_future(watch.__anext__())
        subscribed = asyncio.ensure_future(interest.wait())
        known: dict[str, Hashable] = {}
        refs: RefsAt | None = None  # as they were when last looked at
        try:
            while True:
                done, _ = await asyncio.wait({moved, subscribed}, return_when=asyncio.FIRST_COMPLETED)
                if subscribed in done:
                    subscribed = asyncio.ensure_future(interest.wait())
                    if refs is not None:
                        # Refs may have moved since: a new subscription is compared with the earlier refs.
                        fresh = set(interest.uris) - known.keys()
                        known |= await self._look(
                            partial(GitReader.fingerprints, refs=refs, uris=fresh, listed=False), {}
                        )
                if moved not in done:
                    continue
                try:
                    moved.result()
                except StopAsyncIteration:
                    return
                moved = asyncio.ensure_future(watch.__anext__())
                is_first, refs = refs is None, await self._run(Request(), lambda reader: RefsAt(reader.opened.refs))
                uris = tuple(interest.uris)
                found = await self._look(partial(GitReader.fingerprints, refs=refs, uris=uris), known)
                changes = () if is_first else changes_between(known, found)
                known = found
                if is_first or changes:
                    yield changes
        finally:
            moved.cancel()
            subscribed.cancel()
            await asyncio.gather(moved, subscribed, return_exceptions=True)
            await watch.aclose()

    def _listen(self) -> FolderWatch:
        """Return a watch on HEAD and the refs, which are files.

        Raises:
            ConfigError: the source has not been started.
        """
        from carrel.sources.folder.options import FolderOptions  # deferred imports
        from carrel.sources.folder.shared import SharedFolder
        from carrel.sources.folder.watch import FolderWatch

        self._workers.check()
        options = FolderOptions(exclude=UNWATCHED, hidden=True, gitignore=False)
        folder = SharedFolder(self._reader.opened.repository.common_dir, options)
        return FolderWatch(folder.tree, folder.path, "/".join, is_file=False)

    async def _look(
        self, function: Callable[[GitReader], dict[str, Hashable]], otherwise: dict[str, Hashable]
    ) -> dict[str, Hashable]:
        """Call a function with the reader. Return ``otherwise`` if the repository cannot be read."""
        try:
            return await self._run(Request(), function)
        except MCPError as error:
            log.warning("%s cannot be looked at for changes: %s", self.title, error)
            return otherwise


def path_of(target: str) -> str:
    """Return the path that ``git:PATH``, ``git+file:PATH`` or ``git+file:///PATH`` names.

    Raises:
        ConfigError: the URL names another machine, which is not supported, or has no path.
    """
    scheme, colon, remaining = target.partition(":")
    if not colon or scheme.lower() not in ("git", "git+file"):
        if colon and scheme.lower().startswith("git+"):
            raise ConfigError(f"{scheme}: repositories are not fetched; clone it, and share the copy as git:PATH")
        return target
    if not remaining.startswith("//"):
        return remaining
    if scheme.lower() == "git":
        raise ConfigError("git://: repositories are not fetched; clone it, and share the copy as git:PATH")
    try:
        return file_path(f"file:{remaining}")
    except UriError as error:
        raise ConfigError(f"{target} cannot be shared: {error}") from None
