"""Check of the Host and Origin headers of requests to HTTP applications of FastMCP, against DNS rebinding."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import Response

from carrel.compat.loggers import get_logger
from carrel.transports.addresses import is_loopback

__all__ = ["HostOriginGuardMiddleware", "host_origin_guard"]

log = get_logger(__name__)

#: Hosts of this machine, which every application accepts.
LOCAL = ("localhost", "127.0.0.1", "::1")
PORTS = {"http": 80, "https": 443}


class HostOriginGuardMiddleware:
    """Middleware that refuses requests with another Host header (421) or from another origin (403).

    In the mode "strict" it checks all requests. In the mode "auto" it checks the Host header if there is a list of
    hosts, or if the server listens on a loopback address; and the origin also if there is a list of origins, or if the
    Host header names this machine. Names in the lists may have ``*`` in them.
    """

    def __init__(
        self,
        app: Any,
        allowed_hosts: Sequence[str] | None = None,
        allowed_origins: Sequence[str] | None = None,
        mode: Literal["auto", "strict"] = "auto",
    ) -> None:
        self.app = app
        self.allowed_hosts = (*LOCAL, *(allowed_hosts or ()))
        self.allowed_origins = tuple(map(_origin, allowed_origins or ()))
        self._checks_hosts = mode == "strict" or allowed_hosts is not None
        self._lists_origins = allowed_origins is not None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, send)

    def _refusal(self, scope: Any) -> Response | None:
        """Return the response to a request that is refused; None if it is not."""
        headers, address = Headers(scope=scope), (scope.get("server") or ("",))[0] or ""
        host, origin = headers.get("host", ""), headers.get("origin")
        checks_hosts = self._checks_hosts or is_loopback(address)
        hosts = self.allowed_hosts if _is_unspecified(address) else (*self.allowed_hosts, address)
        if checks_hosts and not any(fnmatchcase(_name(host), _name(each)) for each in hosts):
            log.warning("refused a request with the Host header %r", host)
            return Response("Misdirected Request", status_code=421)
        is_local = is_loopback(_name(host))
        if origin and (checks_hosts or self._lists_origins or is_local):
            own = f"{scope.get('scheme', 'http')}://{host}"
            allows_own = checks_hosts or is_local or not self._lists_origins
            if not self._allows(origin, own if allows_own else None):
                log.warning("refused a request of the origin %r", origin)
                return Response("Forbidden Origin", status_code=403)
        return None

    def _allows(self, origin: str, own: str | None) -> bool:
        """Return whether an origin is in the list, equal to ``own`` (the request's origin), or as local as ``own``."""
        given = _origin(origin)
        if any(fnmatchcase(given, each) for each in self.allowed_origins):
            return True
        if own is None:
            return False
        both_local = all(is_loopback(_host_of(each)) for each in (given, _origin(own)))
        return both_local or given == _origin(own)


def host_origin_guard(
    protection: bool | Literal["auto"], allowed_hosts: Sequence[str] | None, allowed_origins: Sequence[str] | None
) -> list[Middleware]:
    """Return the middleware for ``host_origin_protection``: none for False, strict for True.

    Raises:
        ValueError: ``protection`` has another value.
    """
    if protection not in (True, False, "auto"):
        raise ValueError("host_origin_protection must be True, False, or 'auto'.")
    if protection is False:
        return []
    mode: Literal["auto", "strict"] = "strict" if protection is True else "auto"
    return [
        Middleware(HostOriginGuardMiddleware, allowed_hosts=allowed_hosts, allowed_origins=allowed_origins, mode=mode)
    ]


def _name(host: str) -> str:
    """Return a host without its port and brackets, in lower case."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0] if host.count(":") == 1 else host


def _is_unspecified(address: str) -> bool:
    try:
        return not address or ip_address(_name(address)).is_unspecified
    except ValueError:
        return False


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).hostname or ""
    except ValueError:
        return ""


def _origin(text: str) -> str:
    """Return an origin in lower case, with its port. Other text is returned in lower case."""
    text = text.strip().rstrip("/").lower()
    try:
        parts = urlsplit(text)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return text
    if not parts.scheme or not parts.hostname or parts.path or parts.query or parts.fragment:
        return text
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port else "")
