"""Asking an authorization server: short, bounded, and never led elsewhere.

Only https is spoken, and http to this machine. Redirects are not followed. An answer has to come within seconds and be
of a sensible size.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import import_module
from ipaddress import ip_address, ip_network
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from carrel.errors import ConfigError
from carrel.security.bearer import Unverifiable

if TYPE_CHECKING:
    import httpx2

__all__ = ["Fetcher", "NotThere", "check_url", "is_loopback", "require_libraries"]

INSTALL_HINT = "pip install 'carrel[auth]'"

#: The longest answer that is read, in bytes.
MAX_ANSWER = 512 * 1024

#: How many questions may be under way at a time.
MAX_CONNECTIONS = 20

#: Addresses of IPv6 that stand for one of IPv4, which may be any (RFC 6052, RFC 3056).
TRANSLATED = (ip_network("64:ff9b::/96"), ip_network("2002::/16"))


class NotThere(Unverifiable):
    """There is no document at that address."""


def require_libraries() -> None:
    """Load what authorization by an authorization server needs.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import_module("httpx2")
        import_module("joserfc.jws")
    except ModuleNotFoundError as error:
        raise ConfigError(f"Authorization needs the package {error.name}: {INSTALL_HINT}") from None


def is_loopback(host: str) -> bool:
    """Say whether a host, as it stands in a URL, is this machine by its very name."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_url(url: str, what: str, *, found_at: str | None = None) -> str:
    """Return ``url`` if it may be asked.

    ``found_at`` is the URL of the document that names it, if a document does: one from elsewhere must not lead to
    addresses in here.

    Raises:
        ConfigError: it must not be asked.
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
    if found_at is not None and host != urlsplit(found_at).hostname and _is_inside(host):
        raise ConfigError(f"{what}: {url[:200]!r} is an address in here, which a document from elsewhere must not name")
    return url


def _is_inside(host: str) -> bool:
    """Say whether a host is written as an address that is not of the public Internet."""
    if is_loopback(host):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        # other ways to write addresses, which some resolvers take: 2130706433, 0x7f.1, 017700000001
        return all(label[:1].isdigit() for label in host.rstrip(".").split("."))
    return not address.is_global or any(address in network for network in TRANSLATED)


class Fetcher:
    """Asks for JSON documents. ``timeout`` is in seconds, for a whole question. Closes with ``async with``."""

    def __init__(self, timeout: float = 5.0) -> None:
        self._timeout = timeout
        self._clients: dict[bool, httpx2.AsyncClient] = {}

    async def __aenter__(self) -> Fetcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections. The next question opens new ones."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    async def get(self, url: str) -> dict[str, Any]:
        """Return the JSON object at ``url``.

        Raises:
            NotThere: there is none.
            Unverifiable: it cannot be had.
        """
        return await self._ask("GET", url)

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, Any]:
        """Send a form, and return the JSON object that is answered.

        Raises:
            Unverifiable: there is no proper answer.
        """
        return await self._ask("POST", url, data=dict(form), headers=headers)

    async def _ask(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        import httpx2

        local = is_loopback(urlsplit(url).hostname or "")
        client = self._clients.get(local)
        if client is None:
            client = self._clients[local] = httpx2.AsyncClient(
                timeout=self._timeout,
                follow_redirects=False,
                limits=httpx2.Limits(max_connections=MAX_CONNECTIONS),
                headers={"accept": "application/json", "user-agent": "carrel"},
                trust_env=not local,  # no proxy leads to this machine
            )
        try:
            async with asyncio.timeout(self._timeout), client.stream(method, url, **options) as response:
                if response.status_code != 200:
                    kind = NotThere if response.status_code in (404, 410) else Unverifiable
                    raise kind(f"{url} answered {response.status_code}")
                body = bytearray()
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > MAX_ANSWER:
                        raise Unverifiable(f"{url} answered with more than {MAX_ANSWER} bytes")
        except TimeoutError:
            raise Unverifiable(f"{url} did not answer within {self._timeout:g} seconds") from None
        except (
            httpx2.HTTPError,
            httpx2.InvalidURL,
            OSError,
            RuntimeError,
        ) as error:  # the last one: it is being closed
            raise Unverifiable(f"{url} cannot be asked: {type(error).__name__} {error}".rstrip()) from None
        try:
            return msgspec.json.decode(bytes(body), type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Unverifiable(f"{url} did not answer with a JSON object") from None
