"""Contents of pages as they are read: Markdown of HTML, text in its encoding, bytes; and windows of text."""

from __future__ import annotations

import msgspec

from carrel.errors import ResourceNotFound
from carrel.sources.content.text import UTF8, describe_encoding
from carrel.sources.content.text import decode as detect
from carrel.sources.content.window import invalid_window, parse_window, slice_data
from carrel.sources.web.cache import Cached
from carrel.sources.web.feeds import kind_of, read_feed
from carrel.sources.web.readable import HTML, html_text, to_markdown
from carrel.sources.workers import Workers
from carrel.transports.client.response_text import decode, is_textual
from carrel.wire.resources import BlobResourceContents, ResourceContents, TextResourceContents

__all__ = ["contents_of", "read_entry", "window_of"]

#: Maximum size of a text that is returned whole, and of a window, in bytes.
MAX_TEXT = 4 * 1024 * 1024


async def contents_of(
    workers: Workers, client: str, page: Cached, uri: str, window: str, *, convert: bool
) -> ResourceContents:
    """Return a page; HTML as Markdown with ``convert``. ``window`` is the requested window, or empty.

    Raises:
        InvalidParams: the window is not valid.
    """
    kind, encoding = page.kind, UTF8
    if convert and kind in HTML:
        if page.markdown is None:
            page.markdown = await workers.run(client, convert_page, page)
        text: str | None = page.markdown
        kind = "text/markdown"
    else:
        text = decode(page.data, page.charset) if is_textual(kind) else None
        if text is not None and kind == "" and "\0" in text:
            text = None
        if text is None and is_textual(kind):
            found = await workers.run(client, detect, page.data)
            if found is not None:
                text, encoding = found
    meta = ({"carrel/url": page.url} if convert else {}) | describe_encoding(encoding)
    if text is None:
        return window_of(BlobResourceContents(uri, page.data, mime_type=kind or None, meta=meta or None), window)
    return window_of(TextResourceContents(uri, text, mime_type=kind or None, meta=meta or None), window)


def convert_page(page: Cached) -> str:
    return to_markdown(html_text(page.data, page.charset), page.url)


async def read_entry(workers: Workers, client: str, page: Cached, uri: str, extra: str) -> ResourceContents:
    """Return an entry of a feed as Markdown.

    Raises:
        ResourceNotFound: the feed does not contain the entry, or the page is not a feed.
    """
    wanted = extra.removeprefix("entry=")
    if kind_of(page) == "feed":
        _, entries = await workers.run(client, read_feed, page)
        for entry in entries:
            if entry.id == wanted:
                text = await workers.run(client, entry.markdown)
                return TextResourceContents(uri, text, mime_type="text/markdown")
    raise ResourceNotFound(uri)


def window_of(contents: ResourceContents, query: str) -> ResourceContents:
    """Return a window of a page; all of it if the query is empty.

    Raises:
        InvalidParams: the window is not valid, or is a window of lines of bytes.
        ResourceTooLarge: it is larger than a window may be.
    """
    window = parse_window(query)
    if window is None:
        return contents
    is_text = isinstance(contents, TextResourceContents)
    if not is_text and window.unit != "bytes":
        raise invalid_window("bytes", f"the page is not text and has no {window.unit}, only bytes")
    data = contents.text.encode() if isinstance(contents, TextResourceContents) else contents.blob
    excerpt, more = slice_data(data, window, MAX_TEXT, UTF8 if is_text else None, contents.uri)
    found = {"text": excerpt.decode()} if is_text else {"blob": excerpt}
    return msgspec.structs.replace(contents, meta={**(contents.meta or {}), **more}, **found)
