"""Documents: the text of PDF, Word and other documents of servers, page by page, made on this machine."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from carrel.catalog.provider import Request
from carrel.errors import ResourceNotFound, ResourceTooLarge
from carrel.sources.documents.documents import Documents, Original
from carrel.studio.api import DocumentPage
from carrel.studio.contents import ContentReader
from carrel.studio.versions import data_of
from carrel.wire.resources import ReadResourceResult, TextResourceContents

__all__ = ["DocumentTexts"]


class DocumentTexts:
    """Texts of documents. A process without secrets reads them, as for sources."""

    def __init__(self, contents: ContentReader) -> None:
        self._contents = contents
        self._documents = Documents(self)

    async def page(self, server: str, uri: str, page: int) -> DocumentPage:
        """Return the text of a page, counted from 1, as Markdown.

        Raises:
            MCPError: the document cannot be read, is damaged, or has no such page.
        """

        async def load(_: str, request: Request, limit: int, known: Callable[[Hashable], bool]) -> Original:
            version = (await self._contents.read(server, uri)).current
            if version.first is None:
                raise ResourceNotFound(uri)
            data = None if known(version.hash) else data_of(version.first)
            if data is not None and len(data) > limit:
                raise ResourceTooLarge(uri, f"The document has more than {limit:,} bytes")
            return Original(version.mime_type.partition(";")[0].strip().lower(), version.hash, data)

        async def read(_: str, request: Request) -> ReadResourceResult:
            return (await self._contents.read(server, uri)).current.result

        name = f"document:page?page={page}"  # the version tells documents apart
        found = (await self._documents.read(name, Request(), read, load)).contents[0]
        assert isinstance(found, TextResourceContents)
        pages = (found.meta or {}).get("carrel/pages")
        return DocumentPage(page=page, pages=pages if isinstance(pages, int) else 1, text=found.text)

    async def close(self) -> None:
        """End the process."""
        await self._documents.stop()
