"""Links: one-time URLs on the content origin, for media, HTML, SVG and downloads.

What a server sends as HTML or SVG must never run in the origin of the page, which can call tools. So it comes from a
second listener, whose responses are in a sandbox without scripts and without the network.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

from carrel.studio.gate import Receive, Scope, Send, respond

__all__ = ["Links", "content_headers"]

#: Number of links that are kept, and seconds for which they can be opened.
MAX_LINKS, VALID = 512, 60.0
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
        (b"cross-origin-resource-policy", b"same-site"),
        (b"x-content-type-options", b"nosniff"),
        (b"cache-control", b"no-store"),
    ]


class Links:
    """ASGI application of the content origin: sends the contents behind a link, once."""

    def __init__(self) -> None:
        self.origin = ""
        """The content origin, once it is served."""
        self._links: dict[str, Linked] = {}

    def add(self, mime_type: str, data: bytes, name: str) -> str:
        """Return a URL that can be opened once."""
        now = monotonic()
        for id in [id for id, link in self._links.items() if link.until < now]:
            del self._links[id]
        while len(self._links) >= MAX_LINKS:
            del self._links[next(iter(self._links))]
        id = secrets.token_hex(16)
        self._links[id] = Linked(mime_type, data, name, now + VALID)
        return f"{self.origin}/{id}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        link = self._links.pop(scope["path"].removeprefix("/"), None) if scope["method"] == "GET" else None
        if link is None or link.until < monotonic():
            await respond(send, 404, "The link does not exist, or was opened already")
            return
        plain = link.mime_type.partition(";")[0].strip().lower()
        kind = "inline" if plain.startswith(SHOWN) else "attachment"
        name = "".join(
            letter if letter.isascii() and (letter.isalnum() or letter in ".-_") else "_" for letter in link.name
        )
        mime_type = link.mime_type if link.mime_type.isascii() and link.mime_type.isprintable() else ""
        headers = [
            (b"content-type", (mime_type or "application/octet-stream").encode()),
            (b"content-length", str(len(link.data)).encode()),
            (b"content-disposition", f'{kind}; filename="{name[-100:]}"'.encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for at in range(0, len(link.data), CHUNK):
            await send({"type": "http.response.body", "body": link.data[at : at + CHUNK], "more_body": True})
        await send({"type": "http.response.body", "body": b""})
