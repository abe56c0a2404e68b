"""Asking an authorization server: short, bounded, and never led elsewhere.

Only https is spoken, and http to this machine. Redirects are not followed. An answer has to come within seconds and be
of a sensible size.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from carrel.errors import ConfigError
from carrel.security.server.bearer import Unverifiable
from carrel.transports.addresses import is_loopback, is_public, public_connector, read_address
from carrel.transports.client.proxies import find_proxy

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Answer", "Fetcher", "NotThere", "check_url", "is_loopback", "require_libraries"]

INSTALL_HINT = "pip install 'carrel[auth]'"

#: The longest answer that is read, in bytes.
MAX_ANSWER = 512 * 1024

#: How many questions may be under way at a time.
MAX_CONNECTIONS = 20


class NotThere(Unverifiable):
    """There is no document at that address."""


def require_libraries() -> None:
    """Load what authorization by an authorization server needs.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import_module("aiohttp")
        import_module("joserfc.jws")
    except ModuleNotFoundError as error:
        raise ConfigError(f"Authorization needs the package {error.name}: {INSTALL_HINT}") from None


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
    if found_at is not None and _is_inside(host) and not _are_neighbours(host, urlsplit(found_at).hostname or ""):
        raise ConfigError(f"{what}: {url[:200]!r} is an address in here, which a document from elsewhere must not name")
    return url


def _is_inside(host: str) -> bool:
    """Say whether a host is written as an address that is not of the public Internet."""
    address = read_address(host)
    return is_loopback(host) if address is None else not is_public(address)


def _are_neighbours(host: str, home: str) -> bool:
    """Say whether two hosts are the same, or both this machine."""
    return host == home or (is_loopback(host) and is_loopback(home))


class Answer(NamedTuple):
    """What came back: the HTTP status, the headers by their names in lower case, and the body."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes

    def read(self) -> dict[str, Any]:
        """Return the JSON object in the body.

        Raises:
            Unverifiable: it is none.
        """
        try:
            return msgspec.json.decode(self.body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Unverifiable(f"{self.url} did not answer with a JSON object") from None


class Fetcher:
    """Asks for JSON documents. Closes with ``async with``.

    Args:
        timeout: seconds for a whole question.
        hosts: those that may be inside, while all others have to be on the public Internet (and are looked at when
            their addresses are known); None if hosts may be anywhere, because the user has named them all.
    """

    def __init__(self, timeout: float = 5.0, hosts: Collection[str] | None = None) -> None:
        self._timeout = timeout
        self._hosts = hosts
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Fetcher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections. The next question opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the JSON object at ``url``.

        Raises:
            NotThere: there is none.
            Unverifiable: it cannot be had.
        """
        return check_status(await self.ask("GET", url, headers=headers)).read()

    async def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, Any]:
        """Send a form, and return the JSON object that is answered.

        Raises:
            Unverifiable: there is no proper answer.
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
    ) -> Answer:
        """Send a request, with a form or a JSON document if there is one, and return what is answered.

        Raises:
            Unverifiable: there is no answer, or one that is too long.
        """
        import aiohttp

        body = None if document is None else msgspec.json.encode(document)
        given = {} if document is None else {"content-type": "application/json"}
        if self._session is None:
            self._session = self._open()
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._session.request(
                    method,
                    url,
                    data=body if form is None else dict(form),
                    headers={**given, **(headers or {})},
                    proxy=find_proxy(url),
                    allow_redirects=False,
                ) as response,
            ):
                found = bytearray()
                async for piece in response.content.iter_chunked(MAX_ANSWER):
                    found += piece
                    if len(found) > MAX_ANSWER:
                        raise Unverifiable(f"{url} answered with more than {MAX_ANSWER} bytes")
                return Answer(url, response.status, {k.lower(): v for k, v in response.headers.items()}, bytes(found))
        except TimeoutError:
            raise Unverifiable(f"{url} did not answer within {self._timeout:g} seconds") from None
        except (aiohttp.ClientError, ValueError, OSError, RuntimeError) as error:  # the last one: it is being closed
            raise Unverifiable(f"{url} cannot be asked: {type(error).__name__} {error}".rstrip()) from None

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._hosts is None:
            connector = aiohttp.TCPConnector(limit=MAX_CONNECTIONS)
        else:
            connector = public_connector(self._hosts, limit=MAX_CONNECTIONS)
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),  # there is one around the whole question
            headers={"accept": "application/json", "user-agent": "carrel"},
        )


def check_status(answer: Answer) -> Answer:
    """Return an answer that is a success.

    Raises:
        NotThere: there is no such document.
        Unverifiable: it is another failure.
    """
    if answer.status != 200:
        kind = NotThere if answer.status in (404, 410) else Unverifiable
        raise kind(f"{answer.url} answered {answer.status}")
    return answer
