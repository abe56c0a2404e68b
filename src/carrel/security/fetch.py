"""HTTP client for the JSON documents of authorization servers, on ``carrel.transports.client.fetch``.

Only https is used, or http to this machine. Redirects are not followed. A response must arrive within the timeout, and
have at most ``MAX_RESPONSE_BYTES`` bytes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping
from importlib import import_module
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import quote_plus, urlsplit

import msgspec

from carrel.errors import ConfigError, RequestTimeout, ResourceError
from carrel.security.server.bearer import Unverifiable
from carrel.transports.addresses import is_loopback, is_public, read_address
from carrel.transports.client.fetch import Fetch

__all__ = [
    "FetchedResponse",
    "Fetcher",
    "NotThere",
    "basic_authorization",
    "check_url",
    "require_libraries",
]

INSTALL_HINT = "pip install 'carrel[auth]'"

#: Maximum size of a response body, in bytes.
MAX_RESPONSE_BYTES = 512 * 1024


class NotThere(Unverifiable):
    """The document does not exist (404 or 410)."""


def require_libraries() -> None:
    """Import the packages that OAuth authorization needs.

    Raises:
        ConfigError: a package is not installed.
    """
    try:
        import_module("aiohttp")
        import_module("joserfc.jws")
    except ModuleNotFoundError as error:
        raise ConfigError(f"Authorization needs the package {error.name}: {INSTALL_HINT}") from None


def check_url(url: str, what: str, *, found_at: str | None = None) -> str:
    """Return ``url`` if it may be requested.

    ``found_at`` is the URL of the document that contains ``url``, if any: a remote document must not lead to addresses
    of the local network (SSRF).

    Raises:
        ConfigError: ``url`` must not be requested.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        raise ConfigError(f"{what}: {url[:200]!r} is not a URL") from None
    if not host or any(character <= " " or character == "\\" for character in url):
        raise ConfigError(f"{what}: {url[:200]!r} is not a URL with a host")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise ConfigError(f"{what}: {url[:200]!r} must begin with https:// (http:// is for this machine only)")
    if "@" in parts.netloc or "#" in url:
        raise ConfigError(f"{what}: {url[:200]!r} must have neither a user nor a fragment")
    if found_at is not None and _is_inside(host) and not _are_neighbours(host, urlsplit(found_at).hostname or ""):
        raise ConfigError(f"{what}: {url[:200]!r} is a local address, which an external document must not name")
    return url


def _is_inside(host: str) -> bool:
    """Return whether a host is a loopback name or an IP address outside the public Internet."""
    address = read_address(host)
    return is_loopback(host) if address is None else not is_public(address)


def _are_neighbours(host: str, home: str) -> bool:
    """Return whether two hosts are the same, or both this machine."""
    return host == home or (is_loopback(host) and is_loopback(home))


class FetchedResponse(NamedTuple):
    """HTTP response: status, headers by their names in lower case, and body."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    def read(self) -> dict[str, Any]:
        """Return the JSON object in the body.

        Raises:
            Unverifiable: the body is not a JSON object.
        """
        try:
            return msgspec.json.decode(self.body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Unverifiable(f"{self.url} did not answer with a JSON object") from None


class Fetcher:
    """HTTP client for JSON documents; an async context manager.

    Args:
        timeout: seconds for a whole request.
        hosts: hosts that may be outside the public Internet, while all others have to be on it (checked on their
            resolved addresses); None if hosts may be anywhere, because the user has configured them all.
    """

    def __init__(self, timeout: float = 5.0, hosts: Collection[str] | None = None) -> None:
        self.hosts: Collection[str] = () if hosts is None else hosts
        self._fetch = Fetch(
            timeout=timeout, max_bytes=MAX_RESPONSE_BYTES, hosts=hosts, accept="application/json", proxies=True
        )

    async def __aenter__(self) -> Fetcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. The next request opens new ones."""
        await self._fetch.close()

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the JSON object at ``url``.

        Raises:
            NotThere: the document does not exist.
            Unverifiable: the document cannot be fetched.
        """
        return check_status(await self.ask("GET", url, headers=headers)).read()

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, Any]:
        """POST a form, and return the JSON object of the response.

        Raises:
            Unverifiable: the request fails, or the response is not a JSON object.
        """
        return check_status(await self.ask("POST", url, form=form, headers=headers)).read()

    async def ask(
        self,
        method: str,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        document: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> FetchedResponse:
        """Send a request, optionally with a form or a JSON document as its body, and return the response.

        Raises:
            Unverifiable: there is no response, or it is too long.
        """
        body: Any = None if document is None else msgspec.json.encode(document)
        given = {} if document is None else {"content-type": "application/json"}
        try:
            async with self._fetch.request(
                method, url, data=body if form is None else dict(form), headers={**given, **(headers or {})}
            ) as response:
                found = await response.read()
                return FetchedResponse(url, response.status, {k.lower(): v for k, v in response.headers.items()}, found)
        except (ResourceError, RequestTimeout) as error:
            raise Unverifiable(str(error)) from None


def basic_authorization(client_id: str, client_secret: str) -> str:
    """Return the Authorization header with client credentials (RFC 6749, section 2.3.1)."""
    pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def check_status(answer: FetchedResponse) -> FetchedResponse:
    """Return a response after checking that its status is 200.

    Raises:
        NotThere: the status is 404 or 410.
        Unverifiable: the status is not 200.
    """
    if answer.status != 200:
        kind = NotThere if answer.status in (404, 410) else Unverifiable
        raise kind(f"{answer.url} answered {answer.status}")
    return answer
