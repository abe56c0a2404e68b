"""Base of the ready-made sources: templates and the completion of their variables, search in one page."""

from __future__ import annotations

import errno
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote

from carrel.awaitables import MaybeAwaitable, resolved
from carrel.catalog.paging import page_of
from carrel.catalog.provider import Events, Hit, Page, Provider, Request
from carrel.errors import InvalidCursor, InvalidParams, ResourceError, ResourceForbidden, ResourceNotFound
from carrel.sources.watches import RunningWatches
from carrel.sources.workers import Workers
from carrel.uri.template import UriTemplate
from carrel.wire.completion import Completion, PromptReference, ResourceTemplateReference
from carrel.wire.resources import ReadResourceResult, Resource, ResourceContents, ResourceTemplate

if TYPE_CHECKING:
    from carrel.sources.documents.documents import Documents, Original

__all__ = ["MAX_SUGGESTIONS", "BaseSource", "PartialVariable", "ReaderSource", "SourceReader", "translate"]

T = TypeVar("T")
R = TypeVar("R", bound="SourceReader")

MAX_SUGGESTIONS = 100
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL, None)


class PartialVariable(NamedTuple):
    """Variable to complete: its template, its name, the typed text, and the values of other variables."""

    template: ResourceTemplate
    name: str
    value: str
    context: Mapping[str, str]


class BaseSource(Provider):
    """Base of a source. It implements the methods below by ``_templates``, ``_suggest`` and ``_hits``."""

    _documents: Documents | None = None
    """Documents whose text is offered; ``_original`` loads one."""

    def _templates(self) -> Sequence[ResourceTemplate]:
        """Return the templates."""
        return ()

    def _suggest(self, variable: PartialVariable, request: Request) -> MaybeAwaitable[Sequence[str] | Completion]:
        """Return suggestions for a variable, best first."""
        return ()

    def _hits(self, query: str, limit: int, request: Request) -> MaybeAwaitable[Sequence[Hit]]:
        """Return up to ``limit`` resources that match a query, best first."""
        return ()

    async def _original(self, uri: str, request: Request, limit: int, known: Callable[[Hashable], bool]) -> Original:
        """Return a resource of at most ``limit`` bytes as a document."""
        raise NotImplementedError

    def list_templates(self, request: Request) -> Page[ResourceTemplate]:
        """Return a page of the templates."""
        return page_of(self._templates(), request, lambda template: template.uri_template)

    async def complete(
        self,
        reference: ResourceTemplateReference | PromptReference,
        argument: str,
        value: str,
        context: Mapping[str, str],
        request: Request,
    ) -> Completion:
        """Return suggestions for a variable of one of the templates."""
        uri = getattr(reference, "uri", None)
        template = next((one for one in self._templates() if one.uri_template == uri), None)
        if template is None:
            raise InvalidParams("Invalid params: ref: there is no such template", parameter="ref")
        names = UriTemplate(template.uri_template).names
        if argument not in names and argument not in map(unquote, names):
            raise InvalidParams(
                f"Invalid params: the template has no variable {argument[:200]!r}", parameter="argument"
            )
        documents = self._documents
        if documents is not None and argument in documents.variables:
            return await documents.complete(template.uri_template, value, context, request, self._original)
        found: Completion | Sequence[str] = await resolved(
            self._suggest(PartialVariable(template, argument, value, context), request)
        )
        if isinstance(found, Completion):
            return found
        return Completion(list(found[:MAX_SUGGESTIONS]), total=len(found), has_more=len(found) > MAX_SUGGESTIONS)

    async def search(self, query: str, request: Request) -> Page[Hit]:
        """Return the resources that match a query, best first, in one page."""
        if request.cursor is not None:
            raise InvalidCursor
        return Page(await resolved(self._hits(query, max(request.limit, 0), request)))


class SourceReader(Protocol):
    """Blocking part of a source. Its methods have the limits and the errors of the methods of ``Provider``."""

    def inspect(self) -> None:
        """Check that the resources can be read. Raises ``ConfigError`` otherwise."""

    def forget(self) -> None:
        """Clear the caches."""

    def templates(self) -> Sequence[ResourceTemplate]:
        """Return the resource templates."""

    def list_resources(self, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the resources."""

    def list_directory(self, uri: str, cursor: str | None, limit: int) -> Page[Resource]:
        """Return a page of the entries of a directory, directories first."""

    def read_resource(self, uri: str) -> ResourceContents:
        """Return the contents of a resource, or a directory as a JSON array of resources."""

    def complete(self, variable: PartialVariable) -> Sequence[str] | Completion:
        """Return suggestions for a variable of the templates."""

    def search(self, query: str, limit: int) -> Sequence[Hit]:
        """Return the resources that match a query, best first."""


class ReaderSource(BaseSource, Generic[R]):
    """Base of a source with a reader, which is called in threads that clients share fairly."""

    changes = "machine"
    shares_watch = True

    def __init__(self, reader: R, workers: Workers) -> None:
        self._reader = reader
        self._workers = workers
        self._watches = RunningWatches()

    async def start(self, events: Events) -> None:
        """Start the threads, and check the resources.

        Raises:
            ConfigError: a resource does not exist, or may not be read.
        """
        await self._workers.open(self._reader.inspect)

    async def stop(self) -> None:
        """End all watches, wait for running reads, and clear the caches."""
        await self._watches.stop()
        if self._documents is not None:
            await self._documents.stop()
        await self._workers.stop()
        self._reader.forget()

    def _seen(self, request: Request) -> R:
        """Return the reader as the caller sees it."""
        return self._reader

    def _failed(self, error: OSError) -> ResourceError:
        """Return the error for a process that can open no more files."""
        return translate(error, self.prefixes[0])

    async def _run(self, request: Request, function: Callable[[R], T]) -> T:
        """Call a function in a thread with the reader as the caller sees it.

        Raises:
            ResourceError: the process can open no more files.
        """
        self._workers.check()
        try:
            return await self._workers.run(request.client, function, self._seen(request))
        except OSError as error:
            raise self._failed(error) from None

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of the resources."""
        return await self._run(request, lambda reader: reader.list_resources(request.cursor, max(request.limit, 1)))

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        """Return a page of the entries of a directory."""
        limit = max(request.limit, 1)
        return await self._run(request, lambda reader: reader.list_directory(uri, request.cursor, limit))

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        """Return the contents of a resource, the text of a document, or a directory as a JSON array of resources."""
        if self._documents is not None:
            return await self._documents.read(uri, request, self._read, self._original)
        return await self._read(uri, request)

    async def _read(self, uri: str, request: Request) -> ReadResourceResult:
        return ReadResourceResult(contents=[await self._run(request, lambda reader: reader.read_resource(uri))])

    def _templates(self) -> Sequence[ResourceTemplate]:
        return self._reader.templates()

    async def _suggest(self, variable: PartialVariable, request: Request) -> Sequence[str] | Completion:
        return await self._run(request, lambda reader: reader.complete(variable))

    async def _hits(self, query: str, limit: int, request: Request) -> Sequence[Hit]:
        return await self._run(request, lambda reader: reader.search(query, limit))


def translate(error: OSError, uri: str) -> ResourceError:
    """Translate an error of the file system into a resource error."""
    if isinstance(error, PermissionError):
        return ResourceForbidden(uri)
    if error.errno in ABSENT:
        return ResourceNotFound(uri)
    return ResourceError(uri, f"Resource cannot be read ({error.strerror})")
