"""Contents of pages as they are read: Markdown of HTML, text in its encoding, bytes; and windows of text."""

from __future__ import annotations

from carrel.errors import ResourceNotFound, ResourceTooLarge
from carrel.sources.content.text import UTF8, describe_encoding
from carrel.sources.content.text import decode as detect
from carrel.sources.content.window import (
    TooFar,
    TooWide,
    Window,
    invalid_window,
    parse_window,
    slice_bytes,
    slice_lines,
    slice_tail,
)
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
        return bytes_of(BlobResourceContents(uri, page.data, mime_type=kind or None, meta=meta or None), window)
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


def bytes_of(contents: BlobResourceContents, query: str) -> BlobResourceContents:
    """Return a window of bytes; all of them if the query is empty.

    Raises:
        InvalidParams: the window is not valid, or is a window of lines.
        ResourceTooLarge: it is larger than a window may be.
    """
    window = parse_window(query)
    if window is None:
        return contents
    if window.unit != "bytes":
        raise invalid_window("bytes", f"the page is not text and has no {window.unit}, only bytes")
    data, uri = contents.blob, contents.uri
    try:
        excerpt = slice_bytes(lambda offset, count: data[offset : offset + count], len(data), window, MAX_TEXT, None)
    except TooWide as error:
        raise too_wide(uri, error) from None
    meta = {**(contents.meta or {}), "carrel/window": excerpt.describe("bytes"), "carrel/size": len(data)}
    return BlobResourceContents(uri, excerpt.data, mime_type=contents.mime_type, meta=meta)


def too_wide(uri: str, error: TooWide | TooFar) -> ResourceTooLarge:
    shown = " or ".join(getattr(error, "queries", ())) or "lines=1-100"
    return ResourceTooLarge(uri, f"The window has more than {MAX_TEXT:,} bytes; read {shown}")


def window_of(contents: TextResourceContents, query: str) -> TextResourceContents:
    """Return a window of a text; all of it if the query is empty.

    Raises:
        InvalidParams: the window is not valid.
        ResourceTooLarge: it is larger than a window may be.
    """
    window = parse_window(query)
    if window is None:
        return contents
    data = contents.text.encode()
    unit, uri = window.unit, contents.uri

    def read_at(offset: int, count: int) -> bytes:
        return data[offset : offset + count]

    try:
        if unit == "bytes":
            excerpt = slice_bytes(read_at, len(data), window, MAX_TEXT, UTF8)
        elif unit == "lines":
            excerpt = slice_lines(read_at, len(data), window, MAX_TEXT, UTF8)
        else:
            excerpt = slice_tail(read_at, len(data), Window("tail", 0, window.last), MAX_TEXT, UTF8)
    except (TooWide, TooFar) as error:
        raise too_wide(uri, error) from None
    meta = {**(contents.meta or {}), "carrel/window": excerpt.describe(unit), "carrel/size": len(data)}
    return TextResourceContents(uri, excerpt.data.decode(), mime_type=contents.mime_type, meta=meta)
