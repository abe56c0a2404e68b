"""HTTP routes beside the MCP endpoint, as authors register them: a path, methods, and a handler.

@app.route("/stats")
async def stats(request: HTTPRequest) -> tuple[int, dict[str, str], str]:
    return 200, {"content-type": "text/plain"}, "42"
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from carrel.errors import ConfigError
from carrel.protocol.principal import Principal

__all__ = ["ASGIApp", "HTTPRequest", "HTTPResponse", "Route", "RouteHandler", "make_route"]

#: The longest body of a request that a handler gets, in bytes, unless its route says otherwise.
MAX_BODY = 1024 * 1024


class HTTPRequest(msgspec.Struct, frozen=True, kw_only=True):
    """HTTP request to a route; ``headers`` are by lower-case name, and lack the access token of an authorized route."""

    method: str
    path: str
    """The path below where the application is mounted, decoded."""
    query: str
    """The query string, not decoded."""
    headers: Mapping[str, str]
    body: bytes
    principal: Principal | None
    """The caller of an authorized route."""


class HTTPResponse(NamedTuple):
    """HTTP response of a route. Text is sent as UTF-8."""

    status: int
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = ()
    body: bytes | str = b""


Reply = HTTPResponse | tuple[int, Mapping[str, str] | Sequence[tuple[str, str]], bytes | str]
RouteHandler = Callable[[HTTPRequest], Awaitable[Reply]]
ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Handler of the requests for one path, or with ``below`` for all paths below it."""

    path: str
    methods: frozenset[str]
    handler: RouteHandler | None = None
    asgi: ASGIApp | None = None
    authorized: bool = False
    below: bool = False
    max_body: int = MAX_BODY


def make_route(
    path: str,
    handler: RouteHandler | ASGIApp,
    *,
    methods: str | Iterable[str] = ("GET",),
    authorized: bool = False,
    max_body: int = MAX_BODY,
) -> Route:
    """Return the route of an asynchronous function of one request, or of an ASGI application (three arguments).

    Raises:
        ConfigError: the path, the methods or the handler are invalid.
    """
    if not path.startswith("/") or "//" in path or any(mark in path for mark in "?#") or "*" in path[:-1]:
        raise ConfigError(f"route: {path!r} is not a path: it begins with /, and * is allowed only as its end, /*")
    below = path.endswith("/*")
    if path.endswith("*") and not below:
        raise ConfigError(f"route: {path!r}: * is allowed only as the end of a path, /*")
    names = frozenset(name.upper() for name in ([methods] if isinstance(methods, str) else methods))
    if not names or not all(name.isascii() and name.isalpha() for name in names) or "OPTIONS" in names:
        raise ConfigError(f"route {path}: methods are names such as GET and POST, without OPTIONS, not {methods!r}")
    if max_body <= 0:
        raise ConfigError(f"route {path}: max_body must be more than 0 bytes, not {max_body}")
    count = _parameters(handler)
    if count != 3 and (count != 1 or not _is_async(handler)):
        raise ConfigError(f"route {path}: a handler is an asynchronous function of one request, or an ASGI application")
    return Route(
        path=(path.removesuffix("/*") or "/") if below else path,
        methods=names | ({"HEAD"} if "GET" in names else frozenset()),
        handler=cast("RouteHandler", handler) if count == 1 else None,
        asgi=cast("ASGIApp", handler) if count == 3 else None,
        authorized=authorized,
        below=below,
        max_body=max_body,
    )


def _parameters(handler: Callable[..., Any]) -> int:
    """Return how many positional arguments a handler has to get."""
    try:
        given = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        return 0
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in kinds and one.default is one.empty for one in given)


def _is_async(handler: Any) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
