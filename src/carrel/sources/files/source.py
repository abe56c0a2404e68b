"""Files as resources: a folder, or one file, shared under ``file:`` URIs, with windows and change events.

``folder.selection`` selects the shared files of a folder; ``folder.sandbox`` ensures that no other file can be opened;
``folder.tree`` walks the folder; ``content.window`` reads parts of large files; ``folder.watch`` turns file system
events into changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Sequence

from carrel.catalog.provider import Request
from carrel.errors import ConfigError, MCPError
from carrel.sources.documents.documents import Documents, Original
from carrel.sources.files.options import FilesOptions
from carrel.sources.files.reader import FilesReader
from carrel.sources.folder.source import FolderSource
from carrel.sources.workers import Workers
from carrel.uri.parse import UriError, file_path
from carrel.wire.resources import ReadResourceResult

__all__ = ["FilesSource"]


class FilesSource(FolderSource[FilesReader]):
    """Provider of the files in a folder, or of one file, given by its path or its ``file:`` URL.

    A file of more than ``max_size`` bytes is read in windows only, and to find the first line of a window, up to
    ``max_scan`` bytes are scanned.

    Raises:
        ConfigError: a pattern is not valid, a number is less than 1, or there is no such URL or path.
    """

    options = FilesOptions
    _documents: Documents

    def __init__(self, target: str | os.PathLike[str], options: FilesOptions = FilesOptions()) -> None:  # noqa: B008
        for what, size in (("max_size", options.max_size), ("max_scan", options.max_scan)):
            if size < 1:
                raise ConfigError(f"{what} must be 1 byte or more, not {size}")
        self._documents = Documents(
            self, offered=options.documents, limit=options.max_size, locations=options.image_locations
        )
        reader = FilesReader(path_of(target), options, self._documents)
        threads = (options.threads, options.threads_per_client, options.max_waiting)
        super().__init__(reader, Workers(self, "carrel-files", *threads))
        self.name = self.uri = reader.root
        self.path = reader.folder.path
        self.title = reader.title
        # The forms of file: URIs that RFC 8089 allows.
        path = self.uri.removeprefix("file://")
        self.prefixes = (self.uri, *((f"file:{path}", f"file://localhost{path}") if path[:1] == "/" else ()))

    async def read_searchable(self, uris: Sequence[str], request: Request) -> list[ReadResourceResult | MCPError]:
        """Return what ``read_resource`` returns for each of some URIs, or its error: all of them in one thread."""
        found = await self._run(request, lambda reader: reader.read_searchable(uris))
        return [
            each
            if isinstance(each, MCPError)
            else await self._documents.described(uri, request, ReadResourceResult(contents=[each]))
            for uri, each in zip(uris, found, strict=True)
        ]

    async def _original(self, uri: str, request: Request, limit: int, known: Callable[[Hashable], bool]) -> Original:
        return await self._run(request, lambda reader: reader.original(uri, limit, known))


def path_of(target: str | os.PathLike[str]) -> str:
    """Return the path that a path or a ``file:`` URL names.

    Raises:
        ConfigError: the URL does not name a path on this machine.
    """
    target = os.fspath(target)
    if not target.lower().startswith("file:"):
        return target
    try:
        return file_path(target)
    except UriError as error:
        raise ConfigError(f"{target} cannot be shared: {error}") from None
