"""HTTP session of a client: connection pool, redirects, proxies, credentials, and error translation.

Needs aiohttp, and is imported only when an HTTP transport is used.
"""

from __future__ import annotations

import asyncio
import os
import select
import ssl
from collections.abc import Awaitable, Callable, Mapping
from io import BytesIO
from typing import Any, ClassVar, TypeAlias, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import aiohttp
from yarl import URL

from carrel.errors import AuthorizationError, ConfigError, HTTPStatusError, MCPError, TransportError
from carrel.printable import printable
from carrel.transports.client.http_errors import read_error_response
from carrel.transports.client.options import HTTPOptions
from carrel.transports.client.proxies import find_proxy, read_proxy
from carrel.transports.client.transport import AuthorizationRejection

__all__ = ["HTTPSession", "ResponseObserver"]

T = TypeVar("T")
ResponseObserver: TypeAlias = Callable[[str, bytes | None, Mapping[str, str], int, Mapping[str, str]], object]
#: Maximum number of redirects that are followed for one request.
MAX_REDIRECTS = 5
#: Maximum number of retries of a request with new credentials.
MAX_ROUNDS = 3
#: The longest body of an error response that is read, in bytes.
MAX_ERROR_BYTES = 1024 * 1024
#: The longest request body that is sent in one write, in bytes.
AT_ONCE = 512 * 1024
#: How many bytes are read at a time. asyncio always reads 256 KiB, for which memory is mapped and unmapped each time:
#: that makes small responses a fifth slower. It pays after a long response, as the next one is often as long.
READ_SIZE = 64 * 1024
LONG_READ_SIZE = 256 * 1024
#: Seconds between checks for closed connections that aiohttp does not report.
LOOK_AFTER = 5.0
#: Reserved headers of the protocol and of HTTP.
RESERVED = frozenset(
    (
        *("accept", "connection", "content-length", "content-type", "expect", "host", "last-event-id"),
        *("mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "transfer-encoding", "upgrade"),
    )
)
#: Errors that occur before anything is sent.
NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)


class StaleConnection(aiohttp.ClientConnectionError):
    """A pooled keep-alive connection was found closed before anything was sent on it."""


class FreshRequest(aiohttp.ClientRequest):
    """Request that first checks whether its pooled connection was closed by the server."""

    used: ClassVar[WeakSet[Any]] = WeakSet()
    long: ClassVar[WeakSet[Any]] = WeakSet()
    """Connections whose last response was a long one."""

    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        protocol = conn.protocol
        if protocol not in self.used:
            self.used.add(protocol)
        elif is_stale(protocol.transport):
            raise StaleConnection
        set_read_size(protocol.transport, LONG_READ_SIZE if protocol in self.long else READ_SIZE)
        self.long.discard(protocol)
        return await super().send(conn)


def is_stale(transport: Any) -> bool:
    """Return whether an idle connection is readable, which most likely means that the server closed it."""
    if transport is None or transport.is_closing():
        return True
    socket = transport.get_extra_info("socket")
    if socket is None:
        return False
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(socket.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select((socket.fileno(),), (), (), 0)[0])


def set_read_size(transport: Any, size: int) -> None:
    """Set the read size of an asyncio transport, in bytes. Transports of other event loops are left as they are."""
    if hasattr(transport, "max_size"):
        transport.max_size = size


class HTTPSession:
    """HTTP session with one endpoint, on aiohttp. Belongs to one event loop, after ``start``.

    Args:
        url: http or https.
        options: headers, credentials, TLS, proxy and limits.

    Raises:
        ConfigError: the URL, a header, a certificate, ``tls`` or the proxy is invalid.
    """

    def __init__(self, url: str, options: HTTPOptions) -> None:
        self.url = check_url(url)
        self.name = name_of(self.url)
        self.max_message = options.max_message
        self._origin = self.url.origin()
        self._credentials = options.credentials
        self._address = str(self.url)
        self._headers = {"User-Agent": "carrel", **check_headers(options.all_headers)}
        self._options = options
        self._proxy = find_proxy(str(self.url)) if options.proxy is None else read_proxy(options.proxy)
        self._tls = make_context(options)
        self._moved: dict[URL, URL] = {}
        self.asking = 0
        """Number of requests that wait for credentials."""
        self.on_response: ResponseObserver | None = None
        """Called with each response: method, body and headers of the request, status and headers of the response."""
        self._unfinished: WeakKeyDictionary[aiohttp.ClientResponse, int | None] = WeakKeyDictionary()
        """Size of each body when its connection was found closed; None if the connection was open."""
        self._timer: asyncio.TimerHandle | None = None
        self._bounded: aiohttp.ClientSession | None = None
        self._unbounded: aiohttp.ClientSession | None = None

    def start(self) -> None:
        """Create the connection pools, in the running event loop."""
        options = self._options
        self._bounded = self._session(options.connections, aiohttp.CookieJar(), options.read_timeout)
        self._unbounded = self._session(0, self._bounded.cookie_jar, None)

    def _session(self, connections: int, cookies: Any, read_timeout: float | None) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections, ssl=self._tls),
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=self._options.connect_timeout, sock_read=read_timeout
            ),
            cookie_jar=cookies,
            proxy=self._proxy,
            request_class=FreshRequest,
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._timer is not None:
            self._timer.cancel()
        for session in (self._bounded, self._unbounded):
            if session is not None:
                await session.close()

    async def ask(
        self,
        method: str,
        headers: dict[str, str],
        data: bytes | None = None,
        *,
        url: URL | None = None,
        bounded: bool = True,
        revision: str | None = None,
        rounds: int = MAX_ROUNDS,
    ) -> aiohttp.ClientResponse:
        """Send a request and return the response as soon as its headers are received.

        ``bounded``: use the pool with a limited number of connections. ``revision`` is the protocol revision,
        ``rounds`` the maximum number of retries with new credentials.

        Raises:
            AuthorizationError: the server requires authorization.
            TransportError: there is no response, or a redirect that is not followed.
        """
        session = self._bounded if bounded else self._unbounded
        if session is None or session.closed:
            raise TransportError(delivered=False)
        target = self.url if url is None else url
        if self._moved:
            target = self._moved.get(target, target)
        hops = 0
        while True:
            body = data if data is None or len(data) <= AT_ONCE else BytesIO(data)
            who: Mapping[str, str] = {}
            if self._credentials is not None:
                who = await self._hold(self._credentials.headers(str(target), method))
            try:
                response = await session.request(
                    method, target, data=body, headers={**headers, **who} if who else headers, allow_redirects=False
                )
            except StaleConnection:
                continue  # terminates: each retry discards one pooled connection
            status = response.status
            if self.on_response is not None:
                self.on_response(method, data, {**self._headers, **headers, **who}, status, response.headers)
            if status < 300:
                if not response.content.is_eof():
                    self._watch(response)
                return response
            if status < 400:
                hops += 1
                target = self._redirect(response, target, hops)
            elif status == 401 or (status == 403 and self._credentials is not None):
                if rounds <= 0 or not await self._renew(response, who, revision):
                    if status == 401 or "WWW-Authenticate" in response.headers:
                        raise await self._unauthorized(response)
                    return response
                rounds -= 1
                response.close()
            else:
                return response

    async def _renew(self, response: aiohttp.ClientResponse, sent: Mapping[str, str], revision: str | None) -> bool:
        """Return whether there are new credentials after a response that has rejected the headers ``sent``."""
        if self._credentials is None:
            return False
        challenges = response.headers.getall("WWW-Authenticate", ())
        nonce = response.headers.get("DPoP-Nonce")
        rejection = AuthorizationRejection(self._address, response.status, challenges, revision, sent, nonce)
        return await self._hold(self._credentials.rejected(rejection))

    async def _hold(self, asking: Awaitable[T]) -> T:
        """Await credentials, counted in ``asking`` meanwhile."""
        self.asking += 1
        try:
            return await asking
        finally:
            self.asking -= 1

    def _redirect(self, response: aiohttp.ClientResponse, target: URL, hops: int) -> URL:
        """Return the target of a redirect. Only 307 and 308 to the same origin are followed."""
        response.release()
        location = response.headers.get("Location", "")
        try:
            leads = target.join(URL(location)) if location else None
            same = leads is not None and leads.origin() == target.origin()
        except ValueError:
            leads, same = None, False
        where = "nowhere" if leads is None else printable(str(leads.with_query(None)), 300)
        if not same or response.status not in (307, 308):
            raise HTTPStatusError(
                response.status,
                f"{self.name} answered {response.status} and redirects to {where}, which is not followed: "
                "use that URL if it is the right one",
            )
        if hops > MAX_REDIRECTS:
            raise HTTPStatusError(response.status, f"{self.name} redirects in a loop, by way of {where}")
        assert leads is not None
        leads = leads.with_fragment(None)
        if response.status == 308 and len(self._moved) < MAX_REDIRECTS:
            self._moved[target] = leads
        return leads

    async def _unauthorized(self, response: aiohttp.ClientResponse) -> AuthorizationError:
        said = await self.explain(response)
        if self._credentials is not None:
            return AuthorizationError(f"{self.name} did not accept the credentials: {said}")
        if any(name.lower() == "authorization" for name in self._headers):
            return AuthorizationError(f"{self.name} did not accept the token that it was sent: {said}")
        return AuthorizationError(
            f"{self.name} requires authorization (401): log in with HTTPOptions(auth=OAuth()), or pass a token with "
            "HTTPOptions(auth='…')"
        )

    # Reading

    def _watch(self, response: aiohttp.ClientResponse) -> None:
        self._unfinished[response] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_AFTER, self._look)

    def _look(self) -> None:
        """Fail readers of closed connections: aiohttp does not if the framing of a body was invalid."""
        self._timer = None
        for response, before in list(self._unfinished.items()):
            content, connection = response.content, response.connection
            if connection is None or content.is_eof() or content.exception() is not None:
                del self._unfinished[response]
            elif connection.transport is None or connection.transport.is_closing():
                if before == content.total_bytes:
                    content.set_exception(aiohttp.ClientPayloadError("the connection is closed"))
                self._unfinished[response] = content.total_bytes
        if self._unfinished:
            self._timer = asyncio.get_running_loop().call_later(LOOK_AFTER, self._look)

    async def read(self, response: aiohttp.ClientResponse) -> bytes:
        """Read the body of a response.

        Raises:
            TransportError: it is longer than ``max_message``.
        """
        length = response.content_length
        if length is not None and length > self.max_message:
            response.close()
            raise TransportError(f"The response of {self.name} is longer than {self.max_message} bytes: {length}")
        if length is not None and length > READ_SIZE and response.connection is not None:
            set_read_size(response.connection.transport, LONG_READ_SIZE)
            FreshRequest.long.add(response.connection.protocol)
        if length is not None and "Content-Encoding" not in response.headers:
            return await response.read()
        body = await self._read_some(response, self.max_message)
        if body is None:
            raise TransportError(f"The response of {self.name} is longer than {self.max_message} bytes")
        return body

    async def _read_some(self, response: aiohttp.ClientResponse, limit: int) -> bytes | None:
        """Read a body of at most ``limit`` bytes; if it is longer, close the connection and return None."""
        pieces = bytearray()
        content = response.content
        while piece := await content.readany():
            pieces += piece
            if len(pieces) > limit:
                response.close()
                return None
        return bytes(pieces)

    async def explain(self, response: aiohttp.ClientResponse) -> MCPError:
        """Return the exception for an HTTP error response, and release the response."""
        try:
            body = await self._read_some(response, MAX_ERROR_BYTES) or b""
        except (aiohttp.ClientError, OSError):
            body = b""
        finally:
            response.release()
        return read_error_response(self.name, response.status, body, response.headers.get("Retry-After"))

    def translate(self, error: Exception) -> MCPError:
        """Convert an exception, such as one of aiohttp, to an ``MCPError``."""
        if isinstance(error, MCPError):
            return error
        if isinstance(error, NOT_CONNECTED):
            why = printable(reason_of(error), 300)
            return TransportError(f"{self.name} cannot be reached: {why}", delivered=False)
        if isinstance(error, aiohttp.ServerDisconnectedError):
            return TransportError(f"{self.name} closed the connection without a response")
        why = printable(f"{type(error).__name__} {error}".rstrip().replace(self._address, self.name), 300)
        return TransportError(f"The connection to {self.name} failed: {why}")


def reason_of(error: Exception) -> str:
    """Return the reason of a connection failure, from the operating system where it has one."""
    if isinstance(error, aiohttp.ClientSSLError):
        wrong = "WRONG_VERSION_NUMBER" in str(error)
        return f"{error.os_error}{'. Does it speak http: instead of https:?' if wrong else ''}"
    if isinstance(error, aiohttp.ClientConnectorError):
        failure = error.os_error
        if isinstance(error, aiohttp.ClientConnectorDNSError) or not failure.errno:
            return failure.strerror or str(failure)
        return os.strerror(failure.errno)
    return str(error) or type(error).__name__


def check_url(url: str) -> URL:
    """Validate and parse the URL of an endpoint, without its fragment.

    Raises:
        ConfigError: it is not an http or https URL, or has a user or password.
    """
    try:
        parsed = URL(url)
    except (ValueError, TypeError):
        raise ConfigError(f"{str(url)[:200]!r} is not a URL") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigError(f"{printable(url, 200)!r} is not a URL that begins with http:// or https://")
    if parsed.user is not None or parsed.password is not None:
        raise ConfigError(
            f"The URL of {parsed.host} must have neither user nor password: give them in headers= or auth="
        )
    return parsed.with_fragment(None)


def name_of(url: URL) -> str:
    """Return a URL for messages, without its query, which may hold a secret."""
    return printable(str(url.with_query(None)), 200)


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Validate extra headers and return them without the reserved ones.

    Raises:
        ConfigError: a name or value is not valid in HTTP.
    """
    checked: dict[str, str] = {}
    for name, value in headers.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise ConfigError(f"The header {name!r} must be text")
        if (
            not name
            or not name.isascii()
            or not name.isprintable()
            or any(letter in ' ():,;<=>?@[]{}/\\"' for letter in name)
        ):
            raise ConfigError(f"{name!r} is not the name of a header")
        if any((letter < " " and letter != "\t") or letter == "\x7f" for letter in value):
            raise ConfigError(f"The value of the header {name} has characters that no header may have")
        if name.lower() not in RESERVED and not name.lower().startswith("mcp-param-"):
            checked[name] = value
    return checked


def make_context(options: HTTPOptions) -> ssl.SSLContext | bool:
    """Return the TLS context of a session, or True for aiohttp's default, which trusts the system's certificates.

    Raises:
        ConfigError: a certificate cannot be loaded, or the context does not verify certificates.
    """
    if options.tls is not None:
        if options.tls.verify_mode is not ssl.CERT_REQUIRED:
            raise ConfigError("The TLS context does not verify certificates: verify_mode must be CERT_REQUIRED")
        return options.tls
    if options.ca_file is None and options.client_certificate is None:
        return True
    context = ssl.create_default_context()
    pair = options.client_certificate
    try:
        if options.ca_file is not None:
            context.load_verify_locations(options.ca_file)
    except OSError as error:  # SSLError is one
        raise ConfigError(f"ca_file: {options.ca_file!r} cannot be loaded: {error}") from None
    try:
        if pair is not None:
            context.load_cert_chain(*(pair if isinstance(pair, tuple) else (pair,)))
    except OSError as error:
        raise ConfigError(f"client_certificate: {pair!r} cannot be loaded: {error}") from None
    return context
