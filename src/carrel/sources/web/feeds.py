"""Parse feeds (RSS and Atom with feedparser, JSON Feed) and sitemaps into lists of entries. Called in threads.

https://www.jsonfeed.org/version/1.1/
https://www.sitemaps.org/protocol.html
"""

from __future__ import annotations

import hashlib
import io
import re
import time
import zlib
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from carrel.sources.content.text import decode as detect
from carrel.sources.web.cache import Cached
from carrel.sources.web.readable import Attributes, fragment_to_markdown
from carrel.transports.client.fetch import Inflation
from carrel.transports.client.response_text import decode, is_encoding

__all__ = ["FeedEntry", "Sitemap", "kind_of", "read_feed", "read_sitemap"]

MAX_ENTRIES = 1000
#: The largest sitemap after decompression, in bytes, as its protocol says.
MAX_SITEMAP = 50 * 1024 * 1024
SNIFFED = 2048
_DECLARED = re.compile(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._:-]{1,40})")

JSON_TYPES = ("application/feed+json", "application/json", "text/json")


class FeedEntry(NamedTuple):
    """Entry of a feed. ``id`` is stable while the feed keeps its own; ``modified`` is a timestamp, or None."""

    id: str
    title: str
    link: str
    modified: str | None
    html: str
    author: str = ""

    def markdown(self) -> str:
        """Return the entry as Markdown."""
        byline = " · ".join(part for part in (self.author, self.modified or "") if part)
        parts = [f"# {self.title}", byline, fragment_to_markdown(self.html), f"<{self.link}>" if self.link else ""]
        return "\n\n".join(part for part in parts if part) + "\n"


class Sitemap(NamedTuple):
    """Pages of a sitemap with their times of modification, and the sitemaps that it refers to."""

    pages: dict[str, str | None]
    sitemaps: list[str]


def kind_of(page: Cached) -> Literal["feed", "sitemap", "page"]:
    """Return whether a response is a feed, a sitemap, or an ordinary page."""
    if page.kind in ("text/html", "application/xhtml+xml"):
        return "page"
    start = page.data[:SNIFFED].lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"\x1f\x8b"):
        return "sitemap" if page.url.partition("?")[0].endswith(".xml.gz") else "page"
    if start.startswith(b"{"):
        versioned = b"https://jsonfeed.org/version/" in start.replace(b"\\/", b"/")
        return "feed" if versioned and page.kind in JSON_TYPES else "page"
    if start.startswith(b"<"):
        if b"<urlset" in start or b"<sitemapindex" in start:
            return "sitemap"
        if any(root in start for root in (b"<rss", b"<feed", b"<rdf:RDF")):
            return "feed"
    return "page"


def read_feed(page: Cached) -> tuple[str, list[FeedEntry]]:
    """Return the title of a feed, and its entries, each id once.

    A feed that cannot be parsed has the entries before the error.
    """
    title, found = read_json_feed(page.data) if page.data.lstrip()[:1] == b"{" else read_xml_feed(page)
    entries: dict[str, FeedEntry] = {}
    for entry in found:
        entries.setdefault(entry.id, entry)
        if len(entries) == MAX_ENTRIES:
            break
    return title, list(entries.values())


def read_xml_feed(page: Cached) -> tuple[str, Iterator[FeedEntry]]:
    import feedparser  # type: ignore[import-untyped]

    headers = {"content-type": "application/xml; charset=utf-8", "content-location": page.url}
    # A file object: text would be taken for a URL or a path, and opened.
    data = xml_text(page.data, page.charset).encode("utf-8", "replace")
    if is_costly(data):
        return "", iter(())
    parsed = feedparser.parse(io.BytesIO(data), response_headers=headers)

    def entries() -> Iterator[FeedEntry]:
        for item in parsed.get("entries", ()):
            contents = [str(content.get("value", "")) for content in item.get("content", ())]
            html = max([*contents, str(item.get("summary", ""))], key=len)
            title, link = str(item.get("title", "")), str(item.get("link", ""))
            timestamp = dict.get(item, "updated_parsed") or dict.get(item, "published_parsed")
            yield entry_of(
                str(item.get("id") or link or title + html),
                title,
                link,
                shown(timestamp),
                html,
                str(item.get("author", "")),
            )

    return str(parsed.get("feed", {}).get("title", "")), entries()


def is_costly(data: bytes) -> bool:
    """Return whether feedparser would take long: for an element with very many attributes, or entities of entities."""
    from xml.parsers import expat

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = Attributes().start
    parser.EntityDeclHandler = refuse_nested_entity
    try:
        parser.Parse(data, True)
    except expat.ExpatError:  # feedparser reads the rest in another way
        return False
    except ValueError:
        return True
    return False


def refuse_nested_entity(name: str, is_parameter: bool, value: str | None, *_: str | None) -> None:
    if value is not None and "&" in value.replace("&#", ""):
        raise ValueError(f"the entity {name} has entities")


def xml_text(data: bytes, charset: str) -> str:
    """Decode a feed by its byte order mark, its Content-Type, its XML declaration, or as its bytes look.

    feedparser would use any Python codec that a feed names, including codecs with unexpected errors or quadratic time.
    """
    declared = _DECLARED.match(data)
    for name in (charset, declared[1].decode() if declared else "", "utf-8"):
        text = decode(data, name) if name and is_encoding(name) else None
        if text is not None:
            return text
    found = detect(data)
    return data.decode("cp1252", "replace") if found is None else found.text


def read_json_feed(data: bytes) -> tuple[str, Iterator[FeedEntry]]:
    try:
        feed = msgspec.json.decode(data.lstrip(b"\xef\xbb\xbf"), type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return "", iter(())

    def text(item: dict[str, Any], *names: str) -> str:
        return next((item[name] for name in names if isinstance(item.get(name), str) and item[name]), "")

    def entries() -> Iterator[FeedEntry]:
        items = feed.get("items")
        for item in items if isinstance(items, list) else ():
            if not isinstance(item, dict):
                continue
            html = text(item, "content_html", "content_text", "summary")
            link, title = text(item, "url", "external_url"), text(item, "title")
            timestamp = text(item, "date_modified", "date_published")
            yield entry_of(str(item.get("id") or link or title + html), title, link, timestamp[:40] or None, html)

    return text(feed, "title"), entries()


def entry_of(key: str, title: str, link: str, modified: str | None, html: str, author: str = "") -> FeedEntry:
    name = hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=8).hexdigest()
    known = link if link.startswith(("https://", "http://")) else ""
    return FeedEntry(name, (" ".join(title.split()) or known or name)[:300], known, modified, html, author[:200])


def shown(timestamp: time.struct_time | None) -> str | None:
    """Return a UTC time as a timestamp."""
    if timestamp is None or not 0 < timestamp[0] <= 9999:
        return None
    year, month, day, hour, minute, second = timestamp[:6]
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"


def read_sitemap(page: Cached, most: int) -> Sitemap:
    """Return the first ``most`` pages of a sitemap, gzipped or not. If it is damaged, return the pages before the
    error.
    """
    from lxml import etree  # type: ignore[import-untyped]

    data = page.data
    if data.startswith(b"\x1f\x8b"):
        try:
            data = Inflation(deflate=False).take(data, MAX_SITEMAP)
        except zlib.error:
            return Sitemap({}, [])
    found = Sitemap({}, [])
    # Reject entities and document types, which a sitemap does not need.
    events = etree.iterparse(
        io.BytesIO(data), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=True
    )
    try:
        for _, element in events:
            if not isinstance(element.tag, str):
                continue
            name = element.tag.rpartition("}")[2]
            if name not in ("url", "sitemap"):
                continue
            values = {
                child.tag.rpartition("}")[2]: (child.text or "").strip()
                for child in element
                if isinstance(child.tag, str)
            }
            if values.get("loc") and name == "sitemap":
                found.sitemaps.append(values["loc"])
            elif values.get("loc"):
                found.pages[values["loc"]] = values.get("lastmod", "")[:40] or None
            element.clear()
            if len(found.pages) + len(found.sitemaps) >= most:
                break
    except etree.XMLSyntaxError:
        pass
    return found
