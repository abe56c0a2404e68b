"""OAuth clients of the proxy: dynamic registrations and Client ID Metadata Documents, and their redirect URIs.

Registrations are not stored: the client id is the encrypted registration. Therefore, registrations take no memory, and
stay valid after a restart with the same keys.

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
from carrel.limits import Quota
from carrel.security.fetch import Fetcher, check_url
from carrel.security.server.bearer import Unverifiable
from carrel.security.server.proxy.sealing import Sealer
from carrel.transports.addresses import is_loopback

__all__ = ["Clients", "OAuthClient", "OAuthError", "redirect_host"]

#: Limits of a registration.
MAX_REDIRECTS = 10
MAX_REDIRECT = 512
MAX_REDIRECTS_TOGETHER = 2048
MAX_NAME = 100

#: Cached metadata documents: maximum number in total and per host, and time to live in seconds.
MAX_DOCUMENTS = 256
MAX_DOCUMENTS_PER_HOST = 16
DOCUMENT_TTL = 300.0
#: Maximum number of concurrent fetches of metadata documents, of waiting fetches, and of both together per host.
MAX_FETCHES = 8
MAX_WAITING_FETCHES = 64
MAX_FETCHES_PER_HOST = 4
MAX_DOCUMENT_URL = 512

#: Schemes that no application may use.
FORBIDDEN = frozenset(("about", "blob", "data", "file", "filesystem", "ftp", "javascript", "vbscript", "ws", "wss"))
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")

#: Host and port of a URI. Browsers decode escapes in a host, and allow characters that look like path
#: delimiters.
NETLOC = re.compile(r"([a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?")

#: Host and remainder of an http: URI that has at most a port beside its host.
LOOPBACK = re.compile(r"http://([a-zA-Z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?((?:[/?][^#]*)?)")

Fetch = Callable[[str], Awaitable[Mapping[str, Any]]]


class OAuthError(Exception):
    """OAuth error response. The description is safe to show to users."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error = error
        self.status = status


class Overloaded(OAuthError):
    """Too many metadata documents are being fetched, in total or from one host."""

    def __init__(self, host: str | None) -> None:
        most = MAX_FETCHES + MAX_WAITING_FETCHES if host is None else MAX_FETCHES_PER_HOST
        where = "" if host is None else f" from {host}"
        super().__init__(
            "temporarily_unavailable",
            f"More than {most} metadata documents are being fetched{where}: try again later",
            503,
        )


class OAuthClient(msgspec.Struct, frozen=True):
    """Client of the proxy. ``key`` is a short name for it, ``home`` the host of its metadata document, if any."""

    key: str
    name: str
    redirect_uris: tuple[str, ...]
    home: str | None = None

    def accepts(self, redirect_uri: str) -> bool:
        """Return whether a redirect URI is registered. Loopback redirect URIs may have any port (RFC 8252)."""
        if redirect_uri in self.redirect_uris:
            return True
        location = without_port(redirect_uri)
        return location is not None and any(without_port(one) == location for one in self.redirect_uris)


class ClientRegistration(msgspec.Struct, array_like=True):
    """Dynamic registration, as encoded in the client id."""

    name: str
    redirect_uris: list[str]
    issued: int


def redirect_host(redirect_uri: str) -> str:
    """Return the target of a redirect URI for display: its host and port, or the scheme of an application."""
    parts = urlsplit(redirect_uri)
    return parts.netloc if parts.scheme in ("http", "https") else f"{parts.scheme}:"


def without_port(redirect_uri: str) -> str | None:
    """Return a loopback http: redirect URI without its port, or None for any other redirect URI."""
    found = LOOPBACK.fullmatch(redirect_uri)
    return f"{found[1]}{found[2]}" if found is not None and is_loopback(found[1].strip("[]")) else None


class Clients:
    """Clients by id, and their registration.

    ``schemes`` are private-use URI schemes to allow in redirect URIs, in addition to https: and loopback http:.
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
        self._under_way = Quota(MAX_FETCHES + MAX_WAITING_FETCHES, MAX_FETCHES_PER_HOST)
        self._known: OrderedDict[str, tuple[float, OAuthClient]] = OrderedDict()

    async def close(self) -> None:
        """Cancel fetches, and close connections."""
        fetching = list(self._fetching.values())
        for task in fetching:
            task.cancel()
        await asyncio.gather(*fetching, return_exceptions=True)
        await self._fetcher.close()

    def register(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Register a client, and return the response (RFC 7591, section 3.2.1). All clients are public, with PKCE.

        Raises:
            OAuthError: a redirect URI is not allowed, or the client requires an unsupported grant type.
        """
        grants = document.get("grant_types", ["authorization_code"])
        if not isinstance(grants, list) or "authorization_code" not in grants:
            raise OAuthError("invalid_client_metadata", "grant_types must include authorization_code")
        uris = self._check_redirects(document.get("redirect_uris"), "invalid_redirect_uri")
        name = _name_of(document.get("client_name"))
        registration = ClientRegistration(name, list(uris), int(time.time()))
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
            OAuthError: the client is not registered, or its metadata document is invalid.
        """
        if self._names_document(client_id):
            return await self._find_document(client_id)
        found = self._registration(client_id)
        return OAuthClient(_key_of(client_id), found.name, tuple(found.redirect_uris))

    def key_of(self, client_id: str) -> str:
        """Return the key of a client, to which its codes and tokens are bound, without fetching a metadata document.

        Raises:
            OAuthError: the client is not registered.
        """
        if not self._names_document(client_id):
            self._registration(client_id)
        return _key_of(client_id)

    def _names_document(self, client_id: str) -> bool:
        return client_id.startswith("https://") and self.documents

    def _registration(self, client_id: str) -> ClientRegistration:
        found = self._sealer.open("client", client_id, ClientRegistration)
        if found is None:
            raise OAuthError("invalid_client", "The application is not registered here (any more)", 401)
        return found

    # Client ID Metadata Documents

    async def _find_document(self, url: str) -> OAuthClient:
        until, known = self._known.get(url, (0.0, None))
        if known is None or until <= time.monotonic():
            known = await self._read_document_once(url, _document_host(url))
        return known

    async def _read_document_once(self, url: str, host: str) -> OAuthClient:
        """Fetch a document. Concurrent requests share one fetch. Failures are not cached.

        Raises:
            OAuthError: the document cannot be fetched or is invalid, or too many documents are being fetched.
        """
        task = self._fetching.get(url)
        if task is None:
            if not self._under_way.take(host):
                raise Overloaded(host if self._under_way.used_by(host) >= self._under_way.share else None)
            task = self._fetching[url] = asyncio.ensure_future(self._read_document(url, host))
            task.add_done_callback(lambda _: self._fetched(url, host))
        return await asyncio.shield(task)

    def _fetched(self, url: str, host: str) -> None:
        del self._fetching[url]
        self._under_way.give(host)

    def _keep(self, url: str, host: str, client: OAuthClient) -> None:
        """Cache a document. If there are too many documents, evict the oldest document of the host."""
        self._known.pop(url, None)
        own = [one for one in self._known if _document_host(one) == host]
        if len(own) >= MAX_DOCUMENTS_PER_HOST:
            del self._known[own[0]]
        elif len(self._known) >= MAX_DOCUMENTS:
            self._known.popitem(last=False)
        self._known[url] = (time.monotonic() + DOCUMENT_TTL, client)

    async def _read_document(self, url: str, host: str) -> OAuthClient:
        problem = "The metadata document of the application"
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
        client = OAuthClient(_key_of(url), _name_of(document.get("client_name")), uris, urlsplit(url).netloc)
        self._keep(url, host, client)
        return client

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
        if NETLOC.fullmatch(parts.netloc) is None:
            return False
        return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def _document_host(url: str) -> str:
    """Return the host of the URL of a metadata document, in lower case.

    Raises:
        OAuthError: the URL is not valid for a metadata document, or must not be fetched.
    """
    try:
        parts = urlsplit(check_url(url, "client_id", found_at="https://elsewhere.invalid"))
    except ConfigError:
        raise OAuthError("invalid_client", "The client id is not a URL that may be fetched") from None
    named = NETLOC.fullmatch(parts.netloc) is not None and url.isascii()  # the host is shown to users
    dots = {".", ".."} & set(parts.path.split("/"))
    if not named or len(url) > MAX_DOCUMENT_URL or parts.path in ("", "/") or dots:
        raise OAuthError("invalid_client", "The client id is not the URL of a metadata document")
    return (parts.hostname or "").rstrip(".")


def _name_of(given: object) -> str:
    """Return the name of a client as one line without invisible characters."""
    text = given if isinstance(given, str) else ""
    return "".join(letter for letter in text if letter.isprintable())[:MAX_NAME].strip() or "An application"


def _key_of(client_id: str) -> str:
    return sha256(client_id.encode()).hexdigest()[:32]
