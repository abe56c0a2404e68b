"""Readable text of HTML pages as Markdown, by trafilatura; their titles, links and feeds, by lxml.

Called in threads. Nothing is fetched, and no entity is expanded.
"""

from __future__ import annotations

import codecs
import logging
import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple
from urllib.parse import urljoin

from carrel.sources.content.text import decode as detect
from carrel.transports.client.response_text import decode, is_encoding

__all__ = ["HTML", "Attributes", "PageOutline", "fragment_to_markdown", "html_text", "outline", "to_markdown"]

HTML = ("text/html", "application/xhtml+xml")
FEEDS = ("application/rss+xml", "application/atom+xml", "application/feed+json")
MAX_LINKS = 10_000
#: Attributes of an element: libxml2 takes time that grows with the square of their number, an hour for 4 MiB of them.
MAX_ATTRIBUTES = 1000
FEW = 4096  # characters; a shorter page cannot have too many attributes
_DECLARED = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)


class PageOutline(NamedTuple):
    """Title, absolute links and absolute URLs of the feeds of a page."""

    title: str
    links: list[str]
    feeds: list[str]


def html_text(data: bytes, charset: str) -> str:
    """Decode a page by its byte order mark, its Content-Type, its <meta>, or as its bytes look."""
    marked = data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    declared = _DECLARED.search(data[:2048])
    for name in (charset, declared[1].decode().lower() if declared and not marked else "", "utf-8"):
        if (name and is_encoding(name)) or marked:
            text = decode(data, "cp1252" if name in ("iso-8859-1", "latin-1", "ascii", "us-ascii") else name)
            if text is not None:
                return text
    found = detect(data)
    return data.decode("utf-8", "replace") if found is None else found.text


def to_markdown(html: str, url: str) -> str:
    """Return the readable text of a page as Markdown, without boilerplate such as navigation; its title comes first."""
    root = parse(html)
    if root is None:
        return ""
    title = title_of(root)
    text = extracted(root, url) or words_in(root)
    if title and not re.match(r"#+ ", text.lstrip()):
        text = f"# {title}\n\n{text}"
    return text.strip() + "\n"


def fragment_to_markdown(html: str) -> str:
    """Return the Markdown of a piece of HTML, such as the content of an entry of a feed."""
    root = parse(f"<html><body><article>{html}</article></body></html>") if "<" in html else None
    return html.strip() if root is None else (extracted(root, None) or words_in(root)).strip()


def extracted(root: Any, url: str | None) -> str | None:
    """Return the main text of a page as Markdown; None if trafilatura finds none."""
    from lxml import html as lxml_html  # type: ignore[import-untyped]
    from trafilatura import extract
    from trafilatura.settings import DEFAULT_CONFIG

    # Suppress warnings about malformed pages.
    for name in ("trafilatura", "htmldate"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    config = deepcopy(DEFAULT_CONFIG)
    for name in ("MIN_EXTRACTED_SIZE", "MIN_OUTPUT_SIZE"):  # a short page is a page
        config.set("DEFAULT", name, "1")
    found: str | None = extract(
        lxml_html.tostring(root, encoding="unicode"),
        url=url,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_formatting=True,
        include_comments=False,
        favor_recall=True,
        config=config,
    )
    return found


def words_in(root: Any) -> str:
    """Return all text of a page, in one line."""
    return " ".join(root.text_content().split())


def outline(html: str, url: str) -> PageOutline:
    """Return the title, the links and the feeds of a page at a URL."""
    root = parse(html)
    if root is None:
        return PageOutline("", [], [])
    base = next(iter(root.xpath("//base/@href")), "")
    try:
        base = urljoin(url, base.strip())
    except ValueError:
        base = url
    links = list(root.xpath("//a/@href")[:MAX_LINKS])
    feeds = [one.get("href", "") for one in root.xpath("//link[@href]") if one.get("type", "").lower() in FEEDS]
    return PageOutline(title_of(root), joined(base, links), joined(base, feeds))


def joined(base: str, links: list[str]) -> list[str]:
    found: dict[str, None] = {}
    for link in links:
        try:
            url = urljoin(base, link.strip()).partition("#")[0]
        except ValueError:
            continue
        if url.startswith(("https://", "http://")):
            found[url] = None
    return list(found)


def title_of(root: Any) -> str:
    for title in (*root.xpath("//title"), *root.xpath("//h1")):
        text = " ".join(title.text_content().split())
        if text:
            return text[:300]
    return ""


class Attributes:
    """Parser target that rejects elements with very many attributes.

    Raises:
        ValueError: an element has too many attributes.
    """

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Check the start tag of an element."""
        if len(attributes) > MAX_ATTRIBUTES:
            raise ValueError(f"an element has more than {MAX_ATTRIBUTES:,} attributes")

    def close(self) -> None:
        """Do nothing at the end of the page."""


def parse(html: str) -> Any:
    """Return the tree of a page, or None if the page is empty."""
    from lxml import etree
    from lxml import html as lxml_html

    # An encoding declaration in text is an error for lxml.
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", html.replace("\0", ""), count=1)
    try:
        if len(text) > FEW:  # without a tree, attributes are read in linear time
            etree.fromstring(text, parser=etree.HTMLParser(target=Attributes(), no_network=True, huge_tree=False))
        return lxml_html.document_fromstring(text, parser=lxml_html.HTMLParser(no_network=True, huge_tree=False))
    except (etree.ParserError, etree.XMLSyntaxError, ValueError, AssertionError):
        return None
