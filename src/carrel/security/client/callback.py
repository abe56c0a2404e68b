"""Loopback redirect URI: an HTTP server on this machine that receives one OAuth authorization response.

https://www.rfc-editor.org/rfc/rfc8252#section-7.3
"""

from __future__ import annotations

import asyncio
import hmac
from contextlib import suppress
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from carrel.errors import AuthorizationError, ConfigError
from carrel.transports.addresses import is_loopback

__all__ = ["Callback"]

#: Limits on reading a request: bytes and seconds.
MAX_REQUEST = 32 * 1024
PATIENCE = 10.0

DONE = "You can close this window and go back to the application."
FAILED = "The authorization did not succeed. The application says more."


class Callback:
    """Loopback HTTP server that waits for the response to one authorization request.

    Args:
        redirect_uri: the address to listen on, on this machine; by default http://127.0.0.1/callback. Without a port,
            a free port is used.

    Raises:
        ConfigError: ``redirect_uri`` is not an address on this machine.
    """

    def __init__(self, redirect_uri: str | None = None) -> None:
        parts = urlsplit(redirect_uri or "http://127.0.0.1/callback")
        if parts.scheme != "http" or not is_loopback(parts.hostname or "") or parts.query or parts.fragment:
            raise ConfigError(
                f"redirect_uri: {redirect_uri!r} is not on this machine, as http://127.0.0.1/callback is; "
                "for another one, pass authorize=…, which returns the URL that the browser was redirected to"
            )
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or 0
        self._path = parts.path or "/"
        self._state = ""
        self._answer: asyncio.Future[str] | None = None
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[object]] = set()
        self._answering: set[asyncio.Task[object]] = set()

    async def __aenter__(self) -> Callback:
        self._answer = asyncio.get_running_loop().create_future()
        for host in ("127.0.0.1", "::1") if self._host == "localhost" else (self._host,):
            with suppress(OSError):  # browsers resolve localhost to IPv4 or IPv6, one of which may be missing
                server = await asyncio.start_server(self._serve, host, self._port, limit=MAX_REQUEST)
                self._servers.append(server)
                self._port = server.sockets[0].getsockname()[1]
        if not self._servers:
            raise AuthorizationError(
                f"Cannot listen for the browser at {self._host}:{self._port}: the port is not free"
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        if self._answering:  # a response is still being written
            await asyncio.wait(self._answering, timeout=1.0)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    @property
    def redirect_uri(self) -> str:
        """The redirect URI that the server listens on."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}{self._path}"

    async def wait(self, state: str, seconds: float) -> str:
        """Return the URL that the browser was redirected to. Requests with another ``state`` are ignored.

        Raises:
            AuthorizationError: there was no response within ``seconds``.
        """
        self._state = state
        assert self._answer is not None
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(self._answer)
        except TimeoutError:
            raise AuthorizationError(
                f"The authorization was not completed within {seconds:g} seconds. Try again, and log in on the "
                "page that the browser shows"
            ) from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        connection.add_done_callback(self._answering.discard)
        try:
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                self._answering.add(connection)
                status, words = self._take(head.split(b"\r\n", 1)[0])
                writer.write(page(status, words))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # not a request from the browser
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _take(self, line: bytes) -> tuple[int, str]:
        """Handle the request line; return the status and the text of the response."""
        method, _, rest = line.decode("latin-1").partition(" ")
        target = rest.partition(" ")[0]
        try:
            parts = urlsplit(target)
            given = parse_qs(parts.query, keep_blank_values=True, max_num_fields=50)
        except ValueError:
            return 400, "That is not a request."
        if parts.path != self._path or not target.startswith("/"):
            return 404, "There is nothing here."
        if method != "GET":
            return 405, "Only GET is answered here."
        state = given.get("state", [""])
        if not self._state or not hmac.compare_digest(state[0].encode(), self._state.encode()):
            return 400, "No authorization request is pending for this response."
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(f"{self.redirect_uri}?{parts.query}")
        return 200, FAILED if "error" in given else DONE


def page(status: int, words: str) -> bytes:
    """Return a plain-text HTTP response that is not cached and loads no other resources."""
    body = words.encode()
    head = (
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'No'}\r\n"
        "content-type: text/plain; charset=utf-8\r\n"
        f"content-length: {len(body)}\r\n"
        "cache-control: no-store\r\n"
        "content-security-policy: default-src 'none'\r\n"
        "referrer-policy: no-referrer\r\n"
        "x-content-type-options: nosniff\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + body
