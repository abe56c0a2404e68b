"""OAuth clients of the proxy: dynamic registrations and Client ID Metadata Documents, and their redirect URIs.

A registration is not stored: the client id is the registration itself, encrypted. However many clients register, they
take no memory, and a registration survives a restart if the keys do.

https://www.rfc-editor.org/rfc/rfc7591, https://www.rfc-editor.org/rfc/rfc8252#section-7
https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import msgspec

from carrel.errors import ConfigError
from carrel.security.fetch import Fetcher, check_url, is_loopback
from carrel.security.server.bearer import Unverifiable
from carrel.security.server.proxy.sealing import Sealer

__all__ = ["Clients", "OAuthClient", "OAuthError", "redirect_host"]

#: Limits of a registration.
MAX_REDIRECTS = 10
MAX_REDIRECT = 512
MAX_REDIRECTS_TOGETHER = 2048
MAX_NAME = 100

#: Metadata documents: how many are kept, for how many seconds, and how many are fetched at a time.
MAX_DOCUMENTS = 256
DOCUMENT_TTL = 300.0
#: Metadata documents that are fetched at a time, and how many more wait for that.
MAX_FETCHES = 8
MAX_WAITING_FETCHES = 64
MAX_DOCUMENT_URL = 512

#: Schemes that are never those of an application.
FORBIDDEN = frozenset(("about", "blob", "data", "file", "filesystem", "ftp", "javascript", "vbscript", "ws", "wss"))
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")

#: Host and port of a redirect URI. Browsers decode escapes in a host, and allow marks that look like those of a path.
PLACE = re.compile(r"([a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?")

#: Host and remainder of an http: URI that has at most a port beside its host.
LOOPBACK = re.compile(r"http://([a-zA-Z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?((?:[/?][^#]*)?)")

Fetch = Callable[[str], Awaitable[Mapping[str, Any]]]


class OAuthError(Exception):
    """OAuth error response. The description is safe to show."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error = error
        self.status = status


class Overloaded(OAuthError):
    """Too many metadata documents are being fetched."""

    def __init__(self) -> None:
        at_most = MAX_FETCHES + MAX_WAITING_FETCHES
        super().__init__(
            "temporarily_unavailable",
            f"More than {at_most} metadata documents are being fetched (MAX_WAITING_FETCHES): try again later",
            503,
        )


class OAuthClient(msgspec.Struct, frozen=True):
    """Client of the proxy. ``key`` is a short name of it, ``home`` the host of its metadata document, if it has one."""

    key: str
    name: str
    redirect_uris: tuple[str, ...]
    home: str | None = None

    def accepts(self, redirect_uri: str) -> bool:
        """Return whether a redirect URI is registered: exactly, or with another port of this machine (RFC 8252)."""
        if redirect_uri in self.redirect_uris:
            return True
        place = without_port(redirect_uri)
        return place is not None and any(without_port(one) == place for one in self.redirect_uris)


class Registration(msgspec.Struct, array_like=True):
    """Dynamic registration, which is in the client id."""

    name: str
    redirect_uris: list[str]
    issued: int


def redirect_host(redirect_uri: str) -> str:
    """Return where a redirect URI leads, for people: its host and port, or the scheme of an application."""
    parts = urlsplit(redirect_uri)
    return parts.netloc if parts.scheme in ("http", "https") else f"{parts.scheme}:"


def without_port(redirect_uri: str) -> str | None:
    """Return an http: redirect URI of this machine without its port, and None for any other."""
    found = LOOPBACK.fullmatch(redirect_uri)
    return f"{found[1]}{found[2]}" if found is not None and is_loopback(found[1].strip("[]")) else None


class Clients:
    """Clients by id, and their registration.

    ``schemes`` are private-use URI schemes that redirect URIs may have besides https: and http: of this machine.
    Without ``documents``, Client ID Metadata Documents are not accepted.

    Raises:
        ConfigError: a scheme is invalid.
    """

    def __init__(self, sealer: Sealer, schemes: Iterable[str], *, documents: bool) -> None:
        self._sealer = sealer
        self._schemes = frozenset(schemes)
        for scheme in self._schemes:
            if SCHEME.fullmatch(scheme) is None or scheme in FORBIDDEN | {"http", "https"}:
                raise ConfigError(f"redirect_schemes: {scheme!r} cannot be the scheme of an application")
        self.documents = documents
        self._fetcher = Fetcher(hosts=())
        self.fetch: Fetch = self._fetcher.get
        self._fetches = asyncio.Semaphore(MAX_FETCHES)
        self._fetching: dict[str, asyncio.Task[OAuthClient]] = {}
        self._known: OrderedDict[str, tuple[float, OAuthClient | str]] = OrderedDict()

    async def close(self) -> None:
        """Cancel what is being fetched, and close connections."""
        fetching = list(self._fetching.values())
        for task in fetching:
            task.cancel()
        await asyncio.gather(*fetching, return_exceptions=True)
        await self._fetcher.close()

    def register(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Register a client, and return the response (RFC 7591, section 3.2.1). All clients are public, with PKCE.

        Raises:
            OAuthError: a redirect URI is not allowed, or the client needs another grant.
        """
        grants = document.get("grant_types", ["authorization_code"])
        if not isinstance(grants, list) or "authorization_code" not in grants:
            raise OAuthError("invalid_client_metadata", "grant_types must include authorization_code")
        uris = self._check_redirects(document.get("redirect_uris"), "invalid_redirect_uri")
        name = _name_of(document.get("client_name"))
        registration = Registration(name, list(uris), int(time.time()))
        return {
            "client_id": self._sealer.seal("client", registration),
            "client_id_issued_at": registration.issued,
            "client_name": name,
            "redirect_uris": list(uris),
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }

    async def find(self, client_id: str) -> OAuthClient:
        """Return a client.

        Raises:
            OAuthError: it is not registered, or its metadata document is invalid.
        """
        if self._names_document(client_id):
            return await self._find_document(client_id)
        found = self._registration(client_id)
        return OAuthClient(_key_of(client_id), found.name, tuple(found.redirect_uris))

    def key_of(self, client_id: str) -> str:
        """Return the key of a client, whose codes and tokens are bound to it; no metadata document is fetched.

        Raises:
            OAuthError: it is not registered.
        """
        if not self._names_document(client_id):
            self._registration(client_id)
        return _key_of(client_id)

    def _names_document(self, client_id: str) -> bool:
        return client_id.startswith("https://") and self.documents

    def _registration(self, client_id: str) -> Registration:
        found = self._sealer.open("client", client_id, Registration)
        if found is None:
            raise OAuthError("invalid_client", "The application is not registered here (any more)", 401)
        return found

    # Client ID Metadata Documents

    async def _find_document(self, url: str) -> OAuthClient:
        now = time.monotonic()
        until, known = self._known.get(url, (0.0, ""))
        if until <= now:
            try:
                known = await self._read_document_once(url)
            except Overloaded:
                raise
            except OAuthError as error:
                known = str(error)
            self._known[url] = (now + DOCUMENT_TTL, known)
            self._known.move_to_end(url)
            while len(self._known) > MAX_DOCUMENTS:
                self._known.popitem(last=False)
        if isinstance(known, str):
            raise OAuthError("invalid_client", known, 401)
        return known

    async def _read_document_once(self, url: str) -> OAuthClient:
        """Read a document, together with others that want it at the same time.

        Raises:
            Overloaded: too many documents are being fetched.
        """
        task = self._fetching.get(url)
        if task is None:
            if len(self._fetching) >= MAX_FETCHES + MAX_WAITING_FETCHES:
                raise Overloaded
            task = self._fetching[url] = asyncio.ensure_future(self._read_document(url))
            task.add_done_callback(lambda _: self._fetching.pop(url, None))
        return await asyncio.shield(task)

    async def _read_document(self, url: str) -> OAuthClient:
        problem = "The metadata document of the application"
        try:
            parts = urlsplit(check_url(url, "client_id", found_at="https://elsewhere.invalid"))
        except ConfigError:
            raise OAuthError("invalid_client", "The client id is not a URL that may be fetched") from None
        if len(url) > MAX_DOCUMENT_URL or parts.path in ("", "/") or {".", ".."} & set(parts.path.split("/")):
            raise OAuthError("invalid_client", "The client id is not the URL of a metadata document")
        try:
            async with self._fetches:
                document = await self.fetch(url)
        except Unverifiable:
            raise OAuthError("invalid_client", f"{problem} cannot be fetched") from None
        if document.get("client_id") != url:
            raise OAuthError("invalid_client", f"{problem} is about another client_id")
        if document.get("token_endpoint_auth_method", "none") != "none":
            raise OAuthError("invalid_client", f"{problem} asks for client authentication; only none is supported here")
        uris = self._check_redirects(document.get("redirect_uris"), "invalid_client")
        return OAuthClient(_key_of(url), _name_of(document.get("client_name")), uris, parts.netloc)

    # Redirect URIs

    def _check_redirects(self, given: object, error: str) -> tuple[str, ...]:
        if not isinstance(given, list) or not 1 <= len(given) <= MAX_REDIRECTS:
            raise OAuthError(error, f"redirect_uris must be a list of 1 to {MAX_REDIRECTS} URIs")
        for uri in given:
            if not isinstance(uri, str) or len(uri) > MAX_REDIRECT or not self._is_allowed(uri):
                raise OAuthError(error, "A redirect URI is https:, or http: of this machine, without a fragment")
        if sum(map(len, given)) > MAX_REDIRECTS_TOGETHER:
            raise OAuthError(error, f"redirect_uris have more than {MAX_REDIRECTS_TOGETHER} characters together")
        return tuple(given)

    def _is_allowed(self, uri: str) -> bool:
        if not uri.isascii() or any(letter <= " " or letter in '\\"<>^`{|}\x7f' for letter in uri) or "#" in uri:
            return False
        try:
            parts = urlsplit(uri)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            return False
        if parts.scheme in self._schemes:
            return True
        if PLACE.fullmatch(parts.netloc) is None:
            return False
        return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def _name_of(given: object) -> str:
    """Return the name of a client as one line without invisible characters."""
    text = given if isinstance(given, str) else ""
    return "".join(letter for letter in text if letter.isprintable())[:MAX_NAME].strip() or "An application"


def _key_of(client_id: str) -> str:
    return sha256(client_id.encode()).hexdigest()[:32]
