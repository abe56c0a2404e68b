"""Host and Origin header validation and CORS, against DNS rebinding and cross-site requests.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#security--endpoint
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["LOOPBACK", "Origins", "host_name"]

LOOPBACK = frozenset(("localhost", "127.0.0.1", "[::1]"))

#: Maximum number of valid Host and Origin pairs that are cached.
MAX_REMEMBERED = 256


def host_name(host: str) -> str:
    """Return the host name of a Host header, without the port; an empty string if it is malformed."""
    if host.startswith("["):
        name, bracket, port = host.partition("]")
        name += bracket
        port = port.removeprefix(":") if port.startswith(":") else ("" if not port else "x")
    else:
        name, _, port = host.partition(":")
    return name.lower().removesuffix(".") if not port or (port.isascii() and port.isdigit() and len(port) <= 5) else ""


class Origins:
    """Allowed hosts and origins of a server, and the CORS headers for them.

    Origins on localhost (any port) and on an allowed host are allowed; others have to be in ``origins``. "*" among the
    hosts allows any host, among the origins any origin.
    """

    def __init__(self, hosts: str | Iterable[str], origins: str | Iterable[str]) -> None:
        hosts = [host.lower() for host in ([hosts] if isinstance(hosts, str) else hosts)]
        self._any_host = "*" in hosts
        self._hosts = LOOPBACK | {host_name(host) or f"[{host}]" for host in hosts}  # IPv6 has brackets in headers
        origins = [origin.lower().rstrip("/") for origin in ([origins] if isinstance(origins, str) else origins)]
        self._any_origin = "*" in origins
        self._origins = frozenset(origins)
        self._good: set[tuple[bytes | None, bytes | None]] = set()

    def check(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Validate the Host and Origin headers: return an error message, or None if they are allowed."""
        host, origin = headers.get(b"host"), headers.get(b"origin")
        if (host, origin) in self._good:
            return None
        problem = self._check_host(host) or (None if origin is None else self._check_origin(origin))
        if problem is None and len(self._good) < MAX_REMEMBERED:
            self._good.add((host, origin))
        return problem

    def _check_host(self, host: bytes | None) -> str | None:
        if self._any_host:
            return None
        name = host_name((host or b"").decode("latin-1"))
        if name in self._hosts:
            return None
        return f"Host {(host or b'')[:100].decode('latin-1')!r} is not one of this server's (see allowed_hosts)"

    def _check_origin(self, origin: bytes) -> str | None:
        text = origin.decode("latin-1").lower()
        scheme, _, host = text.partition("://")
        if self._any_origin or text in self._origins:
            return None
        if scheme in ("http", "https") and "/" not in host and host_name(host) in self._hosts:
            return None
        return f"Origin {text[:100]!r} is not allowed (see allowed_origins)"

    @staticmethod
    def answer(headers: Mapping[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        """Return the CORS headers that let a page of an allowed origin read the response."""
        origin = headers.get(b"origin")
        if origin is None:
            return []
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"mcp-session-id, www-authenticate"),
            (b"vary", b"origin"),
        ]

    def preflight(self, headers: Mapping[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        """Return the headers of the response to a CORS preflight request."""
        wanted = headers.get(b"access-control-request-headers", b"content-type")
        return [
            *self.answer(headers),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", wanted),
            (b"access-control-max-age", b"600"),
        ]
