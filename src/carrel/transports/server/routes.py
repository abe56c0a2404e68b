"""Routing of HTTP requests beside the MCP endpoint.

The transport checks Host and Origin first, as for the endpoint, and finds a route by its path only if the request is
not for the endpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from carrel.errors import ConfigError
from carrel.log import Log
from carrel.protocol.principal import Principal
from carrel.transports.server.authorizer import client_of
from carrel.transports.server.http_request import Bodies, HTTPExchange, Rejection
from carrel.transports.server.route import HTTPRequest, HTTPResponse, Route

__all__ = ["Routes", "serve"]

log = Log("carrel.http")

#: Where an ASGI application finds the caller of an authorized route.
PRINCIPAL = "carrel.principal"


class Routes:
    """Routes of an application by path. The paths in ``taken`` and below ``reserved`` are the transport's own.

    Raises:
        ConfigError: two routes have the same path and method, or one has a path of the transport; or a route is
            authorized while there is no authorization.
    """

    def __init__(
        self, routes: Iterable[Route], taken: Iterable[str], reserved: Iterable[str], *, has_authorization: bool
    ) -> None:
        self._exact: dict[str, list[Route]] = {}
        self._below: dict[str, list[Route]] = {}
        taken = {path.rstrip("/") for path in taken}
        for route in routes:
            if not route.below and (
                route.path.rstrip("/") in taken
                or any(route.path == path or route.path.startswith(f"{path}/") for path in reserved)
            ):
                raise ConfigError(f"the route {route.path} has a path of the server itself")
            if route.authorized and not has_authorization:
                raise ConfigError(f"the route {route.path} is authorized=True, but there is no authorization=…")
            rows = (self._below if route.below else self._exact).setdefault(route.path, [])
            if any(route.methods & one.methods for one in rows):
                raise ConfigError(f"two routes have the path {route.path} and a method in common")
            rows.append(route)

    def find(self, path: str, method: str) -> Route | None:
        """Return the route of a request, or None. Of those for all paths below one, the longest path decides.

        Raises:
            Rejection: there are routes at this path, but none for the method.
        """
        rows = self._exact.get(path)
        if rows is None and self._below:
            parent = path
            while rows is None and parent:
                parent = parent.rpartition("/")[0]
                rows = self._below.get(parent or "/")
        if rows is None:
            return None
        for route in rows:
            if method in route.methods:
                return route
        allowed = sorted({*set().union(*(one.methods for one in rows)), "OPTIONS"})
        if method == "OPTIONS":
            return Route(path=path, methods=frozenset(allowed))
        raise Rejection(405, f"{method} is not allowed here", [(b"allow", ", ".join(allowed).encode())])


async def serve(route: Route, exchange: HTTPExchange, bodies: Bodies) -> None:
    """Answer a request by its route. An exception of a handler is logged and answered with status 500.

    Raises:
        Rejection: the body is too long, or late.
    """
    scope, send = exchange.scope, exchange.send
    principal = None if exchange.caller is None else exchange.caller.principal
    if route.asgi is not None:
        await route.asgi(_scope_of(route, scope, principal), exchange.receive, send)
        return
    assert route.handler is not None
    body = await bodies.read(exchange.headers, exchange.receive, client_of(scope, exchange.caller), route.max_body)
    request = HTTPRequest(
        method=scope["method"],
        path=exchange.path,
        query=scope.get("query_string", b"").decode("latin-1"),
        headers={name.decode("latin-1"): value.decode("latin-1") for name, value in exchange.headers.items()},
        body=body,
        principal=principal,
    )
    try:
        start, content = _encode(HTTPResponse(*await route.handler(request)), exchange.extra)
    except Exception:
        log.exception("the route %s failed", route.path)
        failure = HTTPResponse(500, {"content-type": "text/plain"}, "Internal server error")
        start, content = _encode(failure, exchange.extra)
    await send(start)
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})


def _scope_of(route: Route, scope: dict[str, Any], principal: Principal | None) -> dict[str, Any]:
    """Return the ASGI scope for the application of a route: below its path, and without the token."""
    given = {**scope, PRINCIPAL: principal}
    if route.authorized:
        given["headers"] = [pair for pair in scope["headers"] if pair[0].lower() != b"authorization"]
    if route.below:
        given["root_path"] = scope.get("root_path", "") + route.path.rstrip("/")
    return given


def _encode(response: HTTPResponse, extra: list[tuple[bytes, bytes]]) -> tuple[dict[str, Any], bytes]:
    """Return the start message of a response and its body.

    Raises:
        ValueError: the status or a header is invalid.
    """
    status, given, body = response
    if not 200 <= status <= 599:
        raise ValueError(f"{status} is not a status of a response")
    pairs = given.items() if isinstance(given, Mapping) else given
    headers: list[tuple[bytes, bytes]] = []
    for name, value in pairs:
        if any(character < " " or character == "\x7f" for character in f"{name}{value}"):
            raise ValueError(f"the header {name!r} has a control character in it")
        headers.append((name.lower().encode("ascii"), value.encode("latin-1")))
    content = body.encode() if isinstance(body, str) else body
    if status not in (204, 304):
        headers.append((b"content-length", b"%d" % len(content)))
    return {"type": "http.response.start", "status": status, "headers": [*headers, *extra]}, content
