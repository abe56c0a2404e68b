"""Dependencies: parameters that a server fills in itself, and the context of the request for code deeper down."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from carrel.compat.application import request_ctx
from carrel.compat.exchange import http_scope
from carrel.compat.fastmcp.server.context import Context, current_context
from carrel.compat.lazy import lazily

if TYPE_CHECKING:
    from carrel.compat.fastmcp.server.auth.auth import AccessToken

__all__ = [
    "INJECTED",
    "AccessToken",
    "CallArgument",
    "CurrentAccessToken",
    "CurrentContext",
    "CurrentFastMCP",
    "CurrentHeaders",
    "CurrentRequest",
    "CycleError",
    "Dependency",
    "Depends",
    "GetterDependency",
    "Progress",
    "TokenClaim",
    "find_dependencies",
    "get_access_token",
    "get_context",
    "get_http_headers",
    "get_http_request",
    "get_server",
    "resolve_dependencies",
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


class CycleError(Exception):
    """The dependencies of parameters form a cycle."""


class FunctionDependency(Dependency):
    """Dependency on the result of a function, which is called once per call.

    ``bindings`` are arguments of the function: values or dependencies. They replace the defaults of the function.
    """

    def __init__(self, function: Callable[..., Any], bindings: dict[str, Any]) -> None:
        self.function = function
        chosen = {name: each for name, each in bindings.items() if isinstance(each, Dependency)}
        self.fixed = {name: each for name, each in bindings.items() if name not in chosen}
        found = find_dependencies(function)
        self.needs = {**{name: each for name, each in found.items() if name not in self.fixed}, **chosen}
        self.key: Any = self if bindings else function


def Depends(dependency: Callable[..., Any], /, **bindings: Any) -> Any:  # noqa: N802
    """Return the default of a parameter: the result of a function, or what its context manager yields.

    ``bindings`` are arguments of the function.
    """
    return FunctionDependency(dependency, bindings)


class ArgumentDependency(Dependency):
    """Dependency on an argument of the call, or on the value of another dependency of the called function."""

    def __init__(self, name: str | None, optional: bool) -> None:
        self.name = name
        self.optional = optional


def CallArgument(name: str | None = None, *, optional: bool = False) -> Any:  # noqa: N802
    """Return the default of a dependency's parameter: an argument of the call, by default of the same name.

    If ``optional`` is true, the parameter is None for functions without such an argument.
    """
    return ArgumentDependency(name, optional)


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
        else:
            classes = (each for each in inner if inspect.isclass(each))
            kind = next((kind for each in classes for kind in INJECTED if issubclass(each, kind)), None)
            if kind is not None:
                found[name] = GetterDependency(INJECTED[kind][parameter.default is None])
    return found


class Resolution:
    """Values of the dependencies of one call. ``stack`` closes them after the call."""

    def __init__(self, needs: dict[str, Dependency], arguments: dict[str, Any], stack: AsyncExitStack) -> None:
        self._needs = needs
        self._arguments = arguments
        self._stack = stack
        self._values: dict[str, Any] = {}
        self._results: dict[Any, Any] = {}
        self._waiting: list[str] = []

    async def values(self) -> dict[str, Any]:
        """Return the value of each dependency, by parameter."""
        return {name: await self._parameter(name) for name in self._needs}

    async def _parameter(self, name: str) -> Any:
        """Return the value of the dependency of a parameter."""
        if name in self._waiting:
            raise CycleError(" -> ".join([*self._waiting[self._waiting.index(name) :], name]))
        if name not in self._values:
            self._waiting.append(name)
            self._values[name] = await self._value(self._needs[name], name)
            self._waiting.pop()
        return self._values[name]

    async def _value(self, dependency: Dependency, parameter: str) -> Any:
        if isinstance(dependency, ArgumentDependency):
            return await self._argument(dependency.name or parameter, dependency.optional)
        if not isinstance(dependency, FunctionDependency):
            return await self._stack.enter_async_context(dependency)
        if dependency.key not in self._results:
            needed = {name: await self._value(each, name) for name, each in dependency.needs.items()}
            self._results[dependency.key] = await self._entered(dependency.function, {**needed, **dependency.fixed})
        return self._results[dependency.key]

    async def _argument(self, name: str, optional: bool) -> Any:
        if name in self._needs:
            return await self._parameter(name)
        if name not in self._arguments and not optional:
            raise ValueError(f"CallArgument: the function has no argument {name!r}")
        return self._arguments.get(name)

    async def _entered(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """Return the result of a function. If it is a context manager, enter it and return its value."""
        found = function(**arguments)
        if inspect.isawaitable(found):
            found = await found
        if isinstance(found, AbstractAsyncContextManager):
            return await self._stack.enter_async_context(found)
        if isinstance(found, AbstractContextManager) and inspect.isgeneratorfunction(
            getattr(function, "__wrapped__", None)
        ):
            return self._stack.enter_context(found)
        return found


async def resolved(needs: dict[str, Dependency], arguments: dict[str, Any], stack: AsyncExitStack) -> dict[str, Any]:
    """Return the values of dependencies of a call with arguments; ``stack`` closes them after the call."""
    return await Resolution(needs, arguments, stack).values()


@asynccontextmanager
async def resolve_dependencies(fn: Callable[..., Any], arguments: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Yield the arguments of a call with the values of its dependencies, which are closed at the end of the block.

    Arguments that a client sends for parameters with dependencies are ignored.
    """
    needs = find_dependencies(fn)
    given = {name: value for name, value in arguments.items() if name not in needs}
    async with AsyncExitStack() as stack:
        yield {**given, **await resolved(needs, given, stack)}


def get_context() -> Context:
    """Return the context of the request.

    Raises:
        RuntimeError: none is being answered.
    """
    found = current_context.get()
    if found is None:
        raise RuntimeError("No active context found.")
    return found


#: Functions that return the value of a parameter, by its class: for required and for optional parameters.
INJECTED: dict[type, tuple[Callable[[], Any], Callable[[], Any]]] = {Context: (get_context, current_context.get)}


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
    __getattr__ = lazily("carrel.compat.fastmcp.server", {"AccessToken": "auth", "get_session": "sessions"})
