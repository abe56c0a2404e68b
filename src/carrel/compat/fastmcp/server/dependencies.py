"""Dependencies: parameters that a server fills in itself, and the context of the request for code deeper down."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from carrel.compat.application import request_ctx
from carrel.compat.exchange import http_scope
from carrel.compat.fastmcp.server.context import Context, current_context
from carrel.compat.lazy import lazily

if TYPE_CHECKING:
    from carrel.compat.fastmcp.server.auth.auth import AccessToken

__all__ = [
    "AccessToken",
    "CurrentAccessToken",
    "CurrentContext",
    "CurrentFastMCP",
    "CurrentHeaders",
    "CurrentRequest",
    "Dependency",
    "Depends",
    "Progress",
    "TokenClaim",
    "find_dependencies",
    "get_access_token",
    "get_context",
    "get_http_headers",
    "get_http_request",
    "get_server",
    "resolved",
]


#: Headers that are about one hop, or are secrets.
PRIVATE = frozenset(
    (
        "accept",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "keep-alive",
        "mcp-session-id",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "transfer-encoding",
        "upgrade",
    )
)


class Dependency:
    """Default of a parameter that is filled in for each call. Subclasses are asynchronous context managers."""

    async def __aenter__(self) -> Any:
        raise NotImplementedError

    async def __aexit__(self, *error: object) -> None:
        """Do nothing."""


class FunctionDependency(Dependency):
    """Dependency on the result of a function, which is called once per call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.needs = find_dependencies(function)


def Depends(dependency: Callable[..., Any]) -> Any:  # noqa: N802
    """Return the default of a parameter: the result of a function, or what its context manager yields."""
    return FunctionDependency(dependency)


class GetterDependency(Dependency):
    """Dependency on the return value of a function without parameters."""

    def __init__(self, get: Callable[[], Any]) -> None:
        self._get = get

    async def __aenter__(self) -> Any:
        return self._get()


def CurrentContext() -> Any:  # noqa: N802
    """Return the default of a parameter: the context of the request."""
    return GetterDependency(get_context)


def CurrentFastMCP() -> Any:  # noqa: N802
    """Return the default of a parameter: the server."""
    return GetterDependency(get_server)


def CurrentRequest() -> Any:  # noqa: N802
    """Return the default of a parameter: the HTTP request."""
    return GetterDependency(get_http_request)


def CurrentHeaders() -> Any:  # noqa: N802
    """Return the default of a parameter: headers of the HTTP request."""
    return GetterDependency(get_http_headers)


def CurrentAccessToken() -> Any:  # noqa: N802
    """Return the default of a parameter: the access token of the request. Calls without a token fail."""
    return GetterDependency(_access_token)


def TokenClaim(name: str) -> Any:  # noqa: N802
    """Return the default of a parameter: a claim of the access token, as text. Calls without the claim fail."""
    return GetterDependency(functools.partial(_claim, name))


def _access_token() -> AccessToken:
    token = get_access_token()
    if token is None:
        raise RuntimeError("the request has no access token")
    return token


def _claim(name: str) -> str:
    claims = _access_token().claims
    if claims.get(name) is None:
        raise RuntimeError(f"the access token has no claim {name!r}, only {', '.join(claims)}")
    return str(claims[name])


class Progress(Dependency):
    """Progress of a call, which is reported to the client."""

    def __init__(self) -> None:
        self.current: int | None = None
        self.total = 1
        self.message: str | None = None

    async def __aenter__(self) -> Progress:
        return Progress()

    async def set_total(self, total: int) -> None:
        """Set how much there is to do."""
        self.total = total

    async def increment(self, amount: int = 1) -> None:
        """Report that more is done."""
        self.current = (self.current or 0) + amount
        await self._report()

    async def set_message(self, message: str | None) -> None:
        """Set the message."""
        self.message = message
        await self._report()

    async def _report(self) -> None:
        context = current_context.get()
        if context is not None:
            await context.report_progress(self.current or 0, self.total, self.message)


def find_dependencies(function: Callable[..., Any]) -> dict[str, Dependency]:
    """Return the parameters of a function that are filled in: by a dependency, or with the context."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    try:
        hints = get_type_hints(function, include_extras=True)
    except Exception:  # an annotation that cannot be evaluated: the signature is refused later, with the reason
        hints = {}
    found: dict[str, Dependency] = {}
    for name, parameter in parameters.items():
        hint = hints.get(name)
        inner = (hint, *(get_args(hint) if get_origin(hint) is not None else ()))
        if isinstance(parameter.default, Dependency):
            found[name] = parameter.default
        elif any(inspect.isclass(each) and issubclass(each, Context) for each in inner):
            optional = parameter.default is None
            found[name] = GetterDependency(current_context.get if optional else get_context)
    return found


async def resolved(needs: dict[str, Dependency], stack: AsyncExitStack, cache: dict[Any, Any]) -> dict[str, Any]:
    """Return the values of dependencies; ``stack`` closes them after the call."""
    return {name: await _value_of(each, stack, cache) for name, each in needs.items()}


async def _value_of(dependency: Dependency, stack: AsyncExitStack, cache: dict[Any, Any]) -> Any:
    if not isinstance(dependency, FunctionDependency):
        return await stack.enter_async_context(dependency)
    function = dependency.function
    if function not in cache:
        found = function(**await resolved(dependency.needs, stack, cache))
        if inspect.isawaitable(found):
            found = await found
        if isinstance(found, AbstractAsyncContextManager):
            found = await stack.enter_async_context(found)
        elif isinstance(found, AbstractContextManager) and inspect.isgeneratorfunction(
            getattr(function, "__wrapped__", None)
        ):
            found = stack.enter_context(found)
        cache[function] = found
    return cache[function]


def get_context() -> Context:
    """Return the context of the request.

    Raises:
        RuntimeError: none is being answered.
    """
    found = current_context.get()
    if found is None:
        raise RuntimeError("No active context found.")
    return found


def get_server() -> Any:
    """Return the server of the request.

    Raises:
        RuntimeError: none is being answered.
    """
    return get_context().fastmcp


def get_http_request() -> Any:
    """Return the HTTP request, of Starlette.

    Raises:
        RuntimeError: no HTTP request is active.
    """
    context = request_ctx.get(None)
    found = None if context is None else context.request
    if found is None:
        scope = http_scope.get()
        if scope is None:
            raise RuntimeError("No active HTTP request found.")
        from starlette.requests import Request  # only over HTTP, where it is installed

        found = Request(scope)
    return found


def get_http_headers(include_all: bool = False, include: set[str] | None = None) -> dict[str, str]:
    """Return the headers of the HTTP request, none without one.

    Those that are about one hop or are secrets are left out, unless they are in ``include`` or ``include_all`` is true.
    """
    wanted = {name.lower() for name in include or ()}
    try:
        headers = get_http_request().headers
    except RuntimeError:
        return {}
    return {
        name.lower(): str(value)
        for name, value in headers.items()
        if include_all or name.lower() not in PRIVATE or name.lower() in wanted
    }


def get_access_token() -> AccessToken | None:
    """Return the access token of the HTTP request, or None."""
    from carrel.compat.fastmcp.server.auth import auth
    from carrel.compat.mcp.server.auth.middleware.auth_context import auth_context_var
    from carrel.compat.mcp.server.auth.middleware.bearer_auth import AuthenticatedUser

    try:
        user = get_http_request().scope.get("user")
    except RuntimeError:
        user = None
    if not isinstance(user, AuthenticatedUser):
        user = auth_context_var.get()
    if user is None or isinstance(user.access_token, auth.AccessToken):
        return None if user is None else user.access_token
    values = user.access_token.model_dump()
    return auth.AccessToken(**{**values, "claims": values.get("claims") or {}})


if not TYPE_CHECKING:
    __getattr__ = lazily("carrel.compat.fastmcp.server", {"AccessToken": "auth"})
