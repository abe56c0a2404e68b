"""A protected server and its authorization server, which do what a test wants, also what none should.

Real HTTP, in the event loop of the test.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import aiohttp
from aiohttp import web

from carrel.transports.client.transport import AuthorizationRejection, Credentials

__all__ = ["Asked", "Authority", "running", "visit"]

PROTECTED = "/.well-known/oauth-protected-resource/mcp"
ROOT = "/.well-known/oauth-protected-resource"
OAUTH = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


class Asked(NamedTuple):
    """One request that came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]
    document: Any


class Page(NamedTuple):
    """What a browser shows."""

    status: int
    headers: Mapping[str, str]
    text: str


class Authority:
    """What it answers is in its attributes; what it was asked, in ``asked``.

    ``documents`` are served by path; ``None`` in a token answer leaves a member out.
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.url = ""
        self.documents: dict[str, Any] = {}
        self.responses: dict[str, web.Response] = {}
        self.scope: str | None = None
        """What the protected server names in its challenge, and wants."""
        self.accepts: set[str] | None = None
        """The tokens that are good; None for all that were issued."""
        self.granted: dict[str, set[str]] = {}
        self.issue: dict[str, Any] = {}
        """What differs in the answer of the token endpoint."""
        self.token_errors: list[tuple[int, Any]] = []
        """What the token endpoint answers instead, one after the other."""
        self.identity: dict[str, Any] | None = None
        """What differs in the claims of ID tokens; None if none are issued."""
        self.response: dict[str, str | None] = {}
        """What differs in the authorization response."""
        self.registration: dict[str, Any] = {}
        self.registration_status = 201
        self.limit: set[str] | None = None
        """The scopes that are granted at most."""
        self.gate: asyncio.Event | None = None
        """What the user waits for before they agree."""
        self.arrived = asyncio.Event()
        """Somebody is at the authorization endpoint."""
        self._codes: dict[str, dict[str, str]] = {}
        self._count = 0

    @property
    def resource(self) -> str:
        return f"{self.url}/mcp"

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the authorization server."""
        found: dict[str, Any] = self.documents[OAUTH]
        return found

    @property
    def protected(self) -> dict[str, Any]:
        """The metadata of the protected server."""
        found: dict[str, Any] = self.documents[PROTECTED]
        return found

    def describe(self) -> None:
        """Publish proper metadata."""
        self.documents[PROTECTED] = {"resource": self.resource, "authorization_servers": [self.url]}
        self.documents[OAUTH] = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "token_endpoint_auth_methods_supported": ["none"],
        }

    def at(self, path: str) -> list[Asked]:
        """Return the requests for a path."""
        return [one for one in self.asked if one.path == path]

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Take any request."""
        form = (
            dict((await request.post()).items()) if request.content_type == "application/x-www-form-urlencoded" else {}
        )
        document = (
            await request.json() if request.content_type == "application/json" and request.can_read_body else None
        )
        asked = Asked(request.method, request.path, request.headers, dict(request.query), form, document)  # type: ignore[arg-type]
        self.asked.append(asked)
        if request.path in self.responses:
            canned = self.responses[request.path]
            if type(canned) is not web.Response:
                return canned
            return web.Response(status=canned.status, headers=canned.headers, body=canned.body)  # each is sent once
        if request.path in self.documents:
            return web.json_response(self.documents[request.path])
        act = {"/mcp": self.protect, "/authorize": self.authorize, "/token": self.token, "/register": self.register}
        if request.path in act:
            return await act[request.path](asked)
        return web.Response(status=404)

    async def protect(self, asked: Asked) -> web.Response:
        kind, _, token = asked.headers.get("authorization", "").partition(" ")
        if not token or token not in self.granted or (self.accepts is not None and token not in self.accepts):
            return self.challenge(401, self.scope, error="invalid_token" if token else None)
        if self.scope is not None and not set(self.scope.split()) <= self.granted[token]:
            return self.challenge(403, self.scope, error="insufficient_scope")
        return web.json_response({"scheme": kind, "token": token})

    def challenge(self, status: int, scope: str | None, error: str | None = None) -> web.Response:
        given = {"resource_metadata": f"{self.url}{PROTECTED}", "scope": scope, "error": error}
        value = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in given.items() if value is not None)
        return web.Response(status=status, headers={"www-authenticate": value})

    async def authorize(self, asked: Asked) -> web.Response:
        self.arrived.set()
        if self.gate is not None:
            await self.gate.wait()
        code = secrets.token_urlsafe(8)
        self._codes[code] = dict(asked.query)
        given = {"code": code, "state": asked.query["state"], "iss": self.url, **self.response}
        query = urlencode({name: value for name, value in given.items() if value is not None})
        return web.Response(status=302, headers={"location": f"{asked.query['redirect_uri']}?{query}"})

    async def token(self, asked: Asked) -> web.Response:
        if self.token_errors:
            status, document = self.token_errors.pop(0)
            return web.json_response(document, status=status)
        form = asked.form
        scope = form.get("scope", "")
        if form["grant_type"] == "authorization_code":
            begun = self._codes.pop(form["code"])
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            assert begun["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            assert begun["code_challenge_method"] == "S256"
            assert begun["redirect_uri"] == form["redirect_uri"]
            assert begun.get("resource") == form.get("resource")
            scope = begun.get("scope", "")
        granted = set(scope.split()) if self.limit is None else set(scope.split()) & self.limit
        self._count += 1
        token = f"token-{self._count}"
        self.granted[token] = granted | ({"*"} if not granted else set())
        document = {"access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": " ".join(granted)}
        if self.identity is not None and form["grant_type"] == "authorization_code":
            document["id_token"] = self._id_token(begun)
        document = {name: value for name, value in {**document, **self.issue}.items() if value is not None}
        if document["access_token"] != token:
            self.granted[document["access_token"]] = self.granted[token]
        return web.json_response(document)

    def _id_token(self, begun: Mapping[str, str]) -> str:
        """Return an ID token for an authorization request. Clients do not look at its signature."""
        now = int(time.time())
        claims = {"iss": self.url, "sub": "alice", "aud": begun["client_id"], "exp": now + 600, "iat": now}
        claims = {**claims, "nonce": begun.get("nonce"), **(self.identity or {})}
        parts = ({"alg": "RS256"}, {name: value for name, value in claims.items() if value is not None}, "signature")
        return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)

    async def register(self, asked: Asked) -> web.Response:
        self._count += 1
        document = {"client_id": f"client-{self._count}", **self.registration}
        return web.json_response(document, status=self.registration_status)

    async def browse(self, url: str) -> str:
        """Agree to everything, as a browser would, and return where it is sent."""
        async with aiohttp.ClientSession() as browser, browser.get(url, allow_redirects=False) as response:
            return response.headers["location"]

    async def open(self, url: str) -> None:
        """Agree to everything in a browser of its own, which goes where it is sent; ``page`` is what it shows then."""
        self._browser = asyncio.create_task(self._browse_to_the_end(url))

    async def _browse_to_the_end(self, url: str) -> Page:
        async with aiohttp.ClientSession() as browser, browser.get(url) as response:
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Page(response.status, headers, await response.text())

    async def page(self) -> Page:
        """Return what the browser shows in the end."""
        return await self._browser

    def requests(self) -> list[dict[str, str]]:
        """Return the queries of all authorization requests."""
        return [dict(one.query) for one in self.at("/authorize")]


@contextlib.asynccontextmanager
async def running(host: str = "127.0.0.1") -> AsyncIterator[Authority]:
    """Run one, on a port of its own."""
    authority = Authority()
    server = web.Server(authority.answer)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    authority.url = f"http://{host}:{port}"
    authority.describe()
    try:
        yield authority
    finally:
        await runner.cleanup()


async def visit(credentials: Credentials, url: str, revision: str | None = None, rounds: int = 5) -> int:
    """Ask for ``url`` as a transport does, and return the status in the end."""
    async with aiohttp.ClientSession() as session:
        while True:
            sent = await credentials.headers(url, "POST")
            async with session.post(url, headers=sent, allow_redirects=False) as response:
                status, challenges = response.status, response.headers.getall("www-authenticate", [])
                nonce = response.headers.get("dpop-nonce")
            if status not in (401, 403) or rounds == 0:
                return status
            rounds -= 1
            if not await credentials.rejected(AuthorizationRejection(url, status, challenges, revision, sent, nonce)):
                return status


def query_of(url: str) -> dict[str, str]:
    """Return the query of a URL."""
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
