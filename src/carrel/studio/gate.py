"""Gate: checks every request before any route sees it, and denies by default.

A page of another origin, or of another port of this machine, must not reach a host that may start programs. So the gate
checks the Host header (DNS rebinding), Origin and Sec-Fetch-Site (requests of other pages), and for the API the token
of this launch, which is in the printed link. Only HTTP passes; WebSockets do not.

https://developer.mozilla.org/docs/Web/HTTP/Headers/Sec-Fetch-Site
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from hmac import compare_digest
from typing import Any, TypeAlias

from carrel.studio.problems import problem_body

__all__ = ["ASGI", "PageGate", "Receive", "Scope", "Send", "new_token", "page_headers"]

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGI: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

#: Paths of the API. All other paths are static files.
API = "/api"
#: Names of the policies that may make trusted HTML and script URLs in the page.
POLICIES = "carrel dompurify svelte-trusted-html"


def new_token() -> str:
    """Return a new token of 256 bits."""
    return secrets.token_urlsafe(32)


def page_headers(content_origin: str) -> Headers:
    """Return the headers of all responses of the page's origin. Only media come from the content origin."""
    policy = {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "font-src": "'self'",
        "connect-src": "'self'",
        "worker-src": "'self'",
        "manifest-src": "'self'",
        "img-src": f"'self' data: {content_origin}",
        "media-src": f"data: {content_origin}",
        "frame-src": content_origin,
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": POLICIES,
    }
    text = "; ".join(f"{name} {value}" for name, value in policy.items())
    return [
        (b"content-security-policy", text.encode()),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ]


class PageGate:
    """ASGI application in front of others.

    ``origin`` is the only accepted origin, such as ``http://127.0.0.1:8123``. Requests for ``api`` need the token;
    without ``api``, no path does. ``sites`` are the accepted values of Sec-Fetch-Site. ``headers`` are added to each
    response that does not have them.
    """

    def __init__(
        self,
        origin: str,
        pages: ASGI,
        headers: Headers,
        *,
        api: ASGI | None = None,
        token: str = "",
        sites: Sequence[bytes] = (b"same-origin", b"none"),
    ) -> None:
        self._origin = origin.encode()
        self._host = origin.partition("://")[2].encode()
        self._pages = pages
        self._headers = list(headers)
        self._api = api
        self._credentials = f"Bearer {token}".encode()
        self._sites = sites

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", ()))
                names = {name for name, _ in own}
                message["headers"] = own + [header for header in self._headers if header[0] not in names]
            await send(message)

        given = _headers_of(scope)
        path = scope["path"]
        is_api = self._api is not None and (path == API or path.startswith(f"{API}/"))
        rejection = self._rejection(given, is_api)
        if rejection is not None:
            await respond(send_with_headers, *rejection)
        elif is_api:
            assert self._api is not None
            await self._api(scope, receive, send_with_headers)
        elif scope["method"] not in ("GET", "HEAD"):
            await respond(send_with_headers, 405, "Only GET and HEAD are allowed here")
        else:
            await self._pages(scope, receive, send_with_headers)

    def _rejection(self, given: Mapping[bytes, list[bytes]], is_api: bool) -> tuple[int, str] | None:
        """Return the status and the reason with which a request is refused, or None to accept it."""
        if given.get(b"host", []) != [self._host]:
            return 421, "The Host header does not name this server"
        if any(origin != self._origin for origin in given.get(b"origin", ())):
            return 403, "The request is from another origin"
        if any(site not in self._sites for site in given.get(b"sec-fetch-site", ())):
            return 403, "The request is from another site"
        if is_api:
            sent = given.get(b"authorization", [])
            if len(sent) != 1 or not compare_digest(sent[0], self._credentials):
                return 401, "The token is missing or wrong: open the link that carrel studio has printed"
        return None


def _headers_of(scope: Scope) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.lower(), []).append(value)
    return found


async def respond(send: Send, status: int, detail: str) -> None:
    """Send an error response."""
    body = problem_body(status, detail)
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"cache-control", b"no-store")]
    if status == 401:
        headers += [(b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
