"""Documents of a source as Markdown, page by page, for sources of binary contents.

A source makes one ``Documents``, with a function that loads an original, and calls it in five places:

    self._documents = Documents(self, offered=options.documents, limit=options.max_size)

    documents.describe(resource)                                          # each resource of a list
    documents.templates("bucket:{+key}", title)                           # more templates
    await documents.complete(template, value, context, request, load)     # where the argument is in QUERIES
    await documents.read(uri, request, read, load)                        # around its own read_resource
    await documents.stop()                                                # in stop
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from carrel.catalog.provider import Request
from carrel.errors import InvalidParams, ResourceError, ResourceTooLarge, ServerUnavailable
from carrel.log import Log
from carrel.sources.content.text import UTF8
from carrel.sources.content.window import slice_data
from carrel.sources.documents.kinds import IMAGE, PACKAGES, UNREAD, Kind, kind_of
from carrel.sources.documents.messages import WorkerRequest, WorkerResponse
from carrel.sources.documents.query import QUERIES, TEXT, VIEW, DocumentWindow, parse_wanted
from carrel.sources.process import Crashed, ProcessTimeout
from carrel.sources.sized_cache import SizedCache
from carrel.sources.workers import ClientLimiter, Workers
from carrel.uri.template import UriTemplate, UriTemplateError
from carrel.wire.completion import Completion
from carrel.wire.resources import (
    BlobResourceContents,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

if TYPE_CHECKING:
    from carrel.sources.documents.process import Process

__all__ = ["FACTS", "LARGEST", "QUERIES", "Documents", "Load", "Original"]

log = Log("carrel.sources")

FACTS = "carrel/image"
"""Key in ``_meta`` for the metadata of an image."""
LARGEST = 64 * 1024 * 1024
"""Bytes of the largest document that is turned into text."""
MARKDOWN = "text/markdown"
#: Characters of the text of one document or page.
MAX_TEXT = 16 * 1024 * 1024
#: Seconds and bytes of memory for one page, or for the whole text.
SECONDS, MEMORY = 30.0, 1024 * 1024 * 1024
#: Bytes of text that is kept.
KEPT = 32 * 1024 * 1024
#: Seconds to wait for the metadata of an image when it is read.
PATIENCE = 2.0
WAITING_PER_CLIENT = 256
#: Documents of one client, and of all, whose bytes are in memory while they wait for the process or are read.
LOADED_PER_CLIENT, LOADED = 2, 4
#: Length of a text, in characters, from which windows are extracted in a thread.
LONG = 262_144
MAX_SUGGESTIONS = 100


class Original(NamedTuple):
    """Document as it is: its media type, a version that differs whenever its bytes do, and the bytes.

    ``data`` may be None where ``known(version)`` was true.
    """

    mime_type: str | None
    version: Hashable
    data: bytes | None


Load: TypeAlias = Callable[[str, Request, int, Callable[[Hashable], bool]], Awaitable[Original]]
"""Function that loads a document of at most the given number of bytes. The last argument returns whether a version is
already known. It raises the errors of reading the document."""

Read: TypeAlias = Callable[[str, Request], Awaitable[ReadResourceResult]]


class Documents:
    """Documents of one source as text. ``limit`` (bytes) is the maximum size of a text that is returned whole.

    If ``offered`` is false, documents are not converted to text or listed as such. ``locations`` includes the GPS
    position of images. ``seconds`` and ``memory`` (bytes) limit the work for one text.
    """

    variables = QUERIES
    """Variables of ``templates`` that ``complete`` completes."""

    def __init__(
        self,
        owner: object,
        *,
        offered: bool = True,
        limit: int = MAX_TEXT,
        locations: bool = False,
        seconds: float = SECONDS,
        memory: int = MEMORY,
    ) -> None:
        self._offered = offered
        self._limit = limit
        self._locations = locations
        self._seconds = seconds
        self._missing: str | None = None
        self._looked = False
        self._workers = Workers(owner, "carrel-documents", 1, 1, WAITING_PER_CLIENT)
        self._limiter = ClientLimiter(LOADED_PER_CLIENT, LOADED)
        self._memory = memory
        self._process: Process | None = None
        self._kept: SizedCache[tuple[str, Hashable, int], WorkerResponse] = SizedCache(KEPT)

    async def stop(self) -> None:
        """End the process that reads documents, and forget their texts."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()
        await self._workers.stop()
        self._kept.clear()

    # Lists and templates

    def _installed(self) -> bool:
        if not self._looked:
            from importlib.util import find_spec  # deferred import

            self._missing = next((name for name in PACKAGES if find_spec(name) is None), None)
            self._looked = True
            if self._missing is not None:
                log.debug("documents are not offered as text: pip install 'carrel[documents]'")
        return self._missing is None

    def kind(self, mime_type: str | None) -> Kind | None:
        """Return the kind of documents of a media type that are offered as text; None if they are not."""
        kind = kind_of(mime_type) if self._offered else None
        return kind if kind is not None and self._installed() else None

    def describe(self, resource: Resource) -> Resource:
        """Return a listed resource. If it is a document, describe how to read its text."""
        kind = self.kind(resource.mime_type)
        if kind is None or kind is IMAGE or "?" in resource.uri:
            return resource
        about = f"{kind.title}; ?{VIEW} is its text, ?page=1 its first {kind.unit}"
        return msgspec.structs.replace(
            resource,
            description=f"{resource.description}. {about}" if resource.description else about,
            meta={**(resource.meta or {}), TEXT: f"?{VIEW}"},
        )

    def templates(self, prefix: str, title: str) -> list[ResourceTemplate]:
        """Return the templates of texts. ``prefix`` is the template of a document, such as ``file:///a/{+path}``."""
        if not self._offered or not self._installed():
            return []
        formats = "PDF, Word, Excel, PowerPoint, EPUB, OpenDocument, HTML, RTF, notebook, e-mail"
        about = f"of a document as Markdown ({formats})"
        return [
            ResourceTemplate(
                f"{prefix}{{?view}}", f"{title}: text", description=f"The text {about}", mime_type=MARKDOWN
            ),
            ResourceTemplate(
                f"{prefix}{{?page}}",
                f"{title}: page",
                description=f"The text of a page, slide, sheet, chapter or section {about}, counted from 1",
                mime_type=MARKDOWN,
            ),
        ]

    async def complete(
        self, template: str, value: str, context: Mapping[str, str], request: Request, load: Load
    ) -> Completion:
        """Suggest values of ``page`` or ``view`` in one of the templates; pages of the document that it names."""
        if template.endswith("{?view}"):
            values = [view for view in (VIEW.partition("=")[2],) if view.startswith(value)]
            return Completion(values, total=len(values), has_more=False)
        pages = 1 if value in ("", "1") else 0
        document = UriTemplate(template.removesuffix("{?page}"))
        if set(document.names) <= context.keys():
            try:
                uri = document.expand(context)
                hidden = request.visible is not None and not request.visible(uri)
                pages = 0 if hidden else (await self._text(DocumentWindow(uri, 1, None), uri, request, load)).pages
            except (UriTemplateError, ResourceError, InvalidParams):
                pages = 0
        values = [text for text in map(str, range(1, pages + 1)) if text.startswith(value)]
        return Completion(values[:MAX_SUGGESTIONS], total=len(values), has_more=len(values) > MAX_SUGGESTIONS)

    # Reading

    async def read(self, uri: str, request: Request, read: Read, load: Load) -> ReadResourceResult:
        """Return the text of a document if the URI requests it; otherwise call ``read``.

        Raises:
            ResourceError: it is damaged, needs a password, or takes too long; or what ``load`` raises.
            ResourceTooLarge: the document, or its text, is over a limit; the message has the URIs of parts.
            InvalidParams: the page does not exist, or the resource is not a document.
        """
        wanted = parse_wanted(uri) if self._offered else None
        if wanted is None:
            return await self.described(uri, request, await read(uri, request))
        answer = await self._text(wanted, uri, request, load)
        if len(answer.text) < LONG:
            return ReadResourceResult(contents=[self._contents(wanted, uri, answer)])
        return ReadResourceResult(contents=[await asyncio.to_thread(self._contents, wanted, uri, answer)])

    async def described(self, uri: str, request: Request, result: ReadResourceResult) -> ReadResourceResult:
        """Return an original with the URI of its text, or the metadata of an image, in ``_meta``."""
        contents = result.contents[0] if len(result.contents) == 1 and "?" not in uri else None
        kind = self.kind(contents.mime_type) if contents is not None else None
        if contents is None or kind is None:
            return result
        if kind is not IMAGE:
            more: dict[str, object] = {TEXT: f"?{VIEW}"}
        else:
            facts = await self._facts(uri, request, contents) if isinstance(contents, BlobResourceContents) else None
            if not facts:
                return result
            more = {FACTS: facts}
        described = msgspec.structs.replace(contents, meta={**(contents.meta or {}), **more})
        return msgspec.structs.replace(result, contents=[described])

    async def _facts(
        self, uri: str, request: Request, contents: BlobResourceContents
    ) -> dict[str, str | int | float] | None:
        message = self._message(f"image {uri}", IMAGE, contents.blob, 1)
        try:
            async with asyncio.timeout(PATIENCE):
                return (await self._ask(request, message)).facts
        except (TimeoutError, ProcessTimeout, Crashed, ServerUnavailable):
            return None  # the request is for the image; its metadata is optional

    async def _text(self, wanted: DocumentWindow, uri: str, request: Request, load: Load) -> WorkerResponse:
        """Return the text of a document, from the cache if it is there."""
        if not self._installed():
            raise ResourceError(
                uri, f"The text of documents needs the package {self._missing}: pip install 'carrel[documents]'"
            )
        document, page = wanted.document, wanted.page or 0
        original = await load(document, request, LARGEST, lambda _: True)
        answer = self._kept.get((document, original.version, page))
        if answer is None:
            del original
            async with self._limiter.slot(request.client):
                answer = await self._look(wanted, uri, request, load, self._knows)
                if answer is None:  # the known version is no longer cached
                    answer = await self._look(wanted, uri, request, load, lambda *_: False)
        assert answer is not None
        return answer

    async def _look(
        self,
        wanted: DocumentWindow,
        uri: str,
        request: Request,
        load: Load,
        knows: Callable[[str, Hashable, int], bool],
    ) -> WorkerResponse | None:
        """Return the text of a document; None if its bytes are needed, and were not loaded."""
        document, page = wanted.document, wanted.page or 0
        original = await load(document, request, LARGEST, lambda version: knows(document, version, page))
        kind = kind_of(original.mime_type)
        if kind is None:
            about = UNREAD.get(original.mime_type or "")
            about = about or f"{original.mime_type or 'this'} is not a document that has a text"
            raise InvalidParams(f"Invalid params: uri: {about}; read it without ?view and ?page", parameter="uri")
        key = (document, original.version, page)
        if (kept := self._kept.get(key)) is not None:
            return kept
        try:
            answer = await self._ask(request, self._message(repr(key[:2]), kind, original.data, page))
        except ProcessTimeout:
            part = f"; read a part of it, {document}?page=1" if not page and kind.unit != "section" else ""
            raise ResourceTooLarge(
                uri, f"The document takes longer than {self._seconds:g} seconds to read{part}"
            ) from None
        except Crashed:
            if original.data is None:
                return None
            message = "The document cannot be turned into text: it needs too much memory, or is damaged"
            raise ResourceError(uri, message) from None
        if answer.failure == "missing" and original.data is None:
            return None
        self._check(answer, kind, uri)
        self._kept.put(key, answer, 4096 + 2 * len(answer.text))  # a character may have two bytes
        return answer

    def _knows(self, document: str, version: Hashable, page: int) -> bool:
        """Return whether a page is kept, or the document open."""
        process = self._process
        return (document, version, page) in self._kept or (
            process is not None and process.has(repr((document, version)))
        )

    def _message(self, key: str, kind: Kind, data: bytes | None, page: int) -> WorkerRequest:
        return WorkerRequest(key, kind.module, kind.format, kind.unit, data, page, MAX_TEXT, self._locations)

    async def _ask(self, request: Request, message: WorkerRequest) -> WorkerResponse:
        if self._process is None:
            from carrel.sources.documents.process import Process  # deferred import

            self._process = Process(self._seconds, self._memory)
            self._workers.start()
        try:
            return await self._workers.run(request.client, self._process.ask, message)
        except OSError as error:
            log.warning("no process for documents can be started: %s", error.strerror)
            raise ServerUnavailable("Documents cannot be turned into text now") from None

    @staticmethod
    def _check(answer: WorkerResponse, kind: Kind, uri: str) -> None:
        """Raise the error for a document without text.

        Raises:
            ResourceError: it is damaged, or needs a password.
            ResourceTooLarge: it expands too much.
            InvalidParams: there is no such page.
        """
        failure = answer.failure
        if failure is None:
            return
        if failure == "no_page":
            unit = f"{kind.unit}s" if answer.pages != 1 else kind.unit
            raise InvalidParams(f"Invalid params: page: the document has {answer.pages:,} {unit}", parameter="page")
        if failure in ("expands", "memory"):
            why = answer.detail or "it needs too much memory"
            raise ResourceTooLarge(uri, f"The document cannot be turned into text: {why}")
        why = "it is encrypted, and needs a password" if failure == "encrypted" else f"it is not a valid {kind.title}"
        raise ResourceError(uri, f"The document cannot be turned into text: {why}")

    def _contents(self, wanted: DocumentWindow, uri: str, answer: WorkerResponse) -> TextResourceContents:
        """Return a text, or the window of it.

        Raises:
            ResourceTooLarge: it is over the limit; the message has the URIs of parts.
        """
        meta: dict[str, object] = {"carrel/pages": answer.pages}
        if wanted.page is not None:
            meta["carrel/page"] = wanted.page
        if not answer.complete:
            meta["carrel/truncated"] = True
        if answer.facts:
            meta[FACTS] = answer.facts
        data = answer.text.encode()
        if wanted.window is not None:
            excerpt, more = slice_data(data, wanted.window, self._limit, UTF8, uri)
            return TextResourceContents(uri, excerpt.decode(), mime_type=MARKDOWN, meta=meta | more)
        if len(data) > self._limit:
            whole = uri.partition("&")[0]
            parts = [f"{whole}&lines=1-1000"] + ([f"{wanted.document}?page=1"] if wanted.page is None else [])
            raise ResourceTooLarge(
                uri,
                f"The text has {len(data):,} bytes, which is over the limit of {self._limit:,}; "
                f"read a part of it, {' or '.join(parts)}",
            )
        return TextResourceContents(uri, answer.text, mime_type=MARKDOWN, meta=meta)
