"""Links: one-time URLs on the content origin, for media, HTML, SVG and downloads.

HTML and SVG of a server must never run in the origin of the page, which can call tools. So they come from a second
listener, whose responses are in a sandbox without scripts and without the network. A browser reads audio and
video in several ranges: their links are valid for some minutes after each use.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import NamedTuple

from carrel.media_types import BINARY
from carrel.studio.app_proxy import PROXY, proxy_page
from carrel.studio.gate import Receive, Scope, Send, respond

__all__ = ["Links", "content_headers"]

#: Number of links that are kept, and seconds for which they can be opened: once, or for media again and again.
MAX_LINKS, VALID, PLAYING = 512, 60.0, 600.0
#: MIME types that browsers read in ranges, and a range.
PLAYED, RANGE = ("audio/", "video/"), re.compile(rb"bytes=(\d{0,15})-(\d{0,15})")
#: MIME types that browsers show. All others are downloaded.
SHOWN = ("image/", "audio/", "video/", "text/html", "application/xhtml+xml", "application/pdf")
#: Bytes of a body that are sent at a time.
CHUNK = 256 * 1024


class Linked(NamedTuple):
    """Contents behind a link."""

    mime_type: str
    data: bytes
    name: str
    until: float
    policy: str | None = None
    """Content Security Policy, if it differs from the policy of contents."""

    @property
    def is_played(self) -> bool:
        """Whether these are audio or video, which browsers read in ranges."""
        return self.mime_type.lower().startswith(PLAYED)


def content_headers(page_origin: str) -> Sequence[tuple[bytes, bytes]]:
    """Return the headers of all responses of the content origin, which only the page may frame."""
    policy = (
        "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; font-src data:; "
        f"base-uri 'none'; form-action 'none'; frame-ancestors {page_origin}"
    )
    return [
        (b"content-security-policy", policy.encode()),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
        # Chromium has no sites of IP addresses: the page could not show images with same-site. Requests of other sites
        # do not pass the gate, and only the page knows a link.
        (b"cross-origin-resource-policy", b"cross-origin"),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
    ]


class Links:
    """ASGI application of the content origin: sends the contents behind a link, once."""

    def __init__(self) -> None:
        self.origin = ""
        """The content origin, once it is served."""
        self.page_origin = ""
        """The origin of the page, once it is served."""
        self._links: dict[str, Linked] = {}

    def add(self, mime_type: str, data: bytes, name: str, policy: str | None = None) -> str:
        """Return a URL that can be opened once. ``policy`` is the Content Security Policy of an app."""
        now = monotonic()
        for id in [id for id, link in self._links.items() if link.until < now]:
            del self._links[id]
        while len(self._links) >= MAX_LINKS:
            del self._links[next(iter(self._links))]
        id = secrets.token_hex(16)
        self._links[id] = Linked(mime_type, data, name, now + VALID, policy)
        return f"{self.origin}/{id}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        link = None
        if scope["path"] == PROXY:
            body, policy = proxy_page(self.page_origin, self.origin)
            link = Linked("text/html;charset=utf-8", body, "app.html", 0.0, policy)
        elif scope["method"] == "GET":
            link = self._take(scope["path"].removeprefix("/"))
        if link is None:
            await respond(send, 404, "The link does not exist, or was opened already")
            return
        headers, size = _headers(link), len(link.data)
        status, first, last = 200, 0, size - 1
        if link.is_played:
            headers.append((b"accept-ranges", b"bytes"))
            wanted = _range(scope["headers"], size)
            if wanted is not None:
                status, (first, last) = 206, wanted
                headers.append((b"content-range", f"bytes {first}-{last}/{size}".encode()))
        headers.append((b"content-length", str(last - first + 1).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for at in range(first, last + 1, CHUNK):
            body = link.data[at : min(at + CHUNK, last + 1)]
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    def _take(self, id: str) -> Linked | None:
        """Return the contents behind a link, which can be opened again only if they are played."""
        link, now = self._links.pop(id, None), monotonic()
        if link is None or link.until < now:
            return None
        if link.is_played:
            self._links[id] = link._replace(until=now + PLAYING)
        return link


def _headers(link: Linked) -> list[tuple[bytes, bytes]]:
    plain = link.mime_type.partition(";")[0].strip().lower()
    kind = "inline" if plain.startswith(SHOWN) else "attachment"
    name = re.sub(r"[^A-Za-z0-9._-]", "_", link.name)
    mime_type = link.mime_type if link.mime_type.isascii() and link.mime_type.isprintable() else ""
    policy = [] if link.policy is None else [(b"content-security-policy", link.policy.encode())]
    return [
        *policy,
        (b"content-type", (mime_type or BINARY).encode()),
        (b"content-disposition", f'{kind}; filename="{name[-100:]}"'.encode()),
    ]


def _range(headers: Iterable[tuple[bytes, bytes]], size: int) -> tuple[int, int] | None:
    """Return the first and the last byte of a requested range; None for the whole."""
    found = next((RANGE.fullmatch(value) for name, value in headers if name.lower() == b"range"), None)
    if found is None or found.group() == b"bytes=-":
        return None
    if found[1]:
        first, last = int(found[1]), min(int(found[2] or size), size - 1)
    else:
        first, last = max(0, size - int(found[2])), size - 1
    return (first, last) if first <= last else None
