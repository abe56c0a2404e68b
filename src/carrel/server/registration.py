"""Registration of resources, tools, prompts and pages with a server, mostly by decorators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast, overload

from carrel.errors import ConfigError
from carrel.server.completion import CompletableFunction
from carrel.server.local import LocalProvider
from carrel.server.options import PromptOptions, ResourceOptions, ToolOptions, check_options

if TYPE_CHECKING:
    from pathlib import Path

    from carrel.server.prompts import Prompts
    from carrel.server.resources import Resources
    from carrel.server.runtime import Runtime
    from carrel.server.tools import Tools
    from carrel.transports.server.route import ASGIApp, RouteHandler
    from carrel.wire.apps import PageSecurity

__all__ = ["Registration"]

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", bound="RouteHandler | ASGIApp")


class Registration:
    """Base of ``Server``: what authors register themselves, which its catalog has as the first provider."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._local = LocalProvider(runtime)
        runtime.catalog.put(self._local)

    @property
    def resources(self) -> Resources:
        """Resources and templates that are registered, to add, replace, change and remove some at any time."""
        return self._local.resources

    @property
    def tools(self) -> Tools:
        """Tools that are registered, to add and remove some at any time."""
        return self._local.tools

    @property
    def prompts(self) -> Prompts:
        """Prompts that are registered, to add and remove some at any time."""
        return self._local.prompts

    def resource(
        self, uri: str = cast("str", None), **options: Unpack[ResourceOptions]
    ) -> Callable[[Callable[P, R]], CompletableFunction[P, R]]:
        """Register the decorated function as a resource, or as a template where ``uri`` is a URI template (RFC 6570).

        The variables of the template are the function's parameters, typed by its annotations. It returns what
        ``resources.add`` takes as a value; None means that there is no such resource.

        Raises:
            ConfigError: the URI or template is not valid or taken, or the function does not take its variables.
        """
        if not isinstance(uri, str):
            raise ConfigError('A resource needs a URI: write @app.resource("scheme://path")')
        check_options("@app.resource", options, ResourceOptions.__annotations__)

        def register(function: Callable[P, R]) -> CompletableFunction[P, R]:
            return self.resources.register(uri, function, **options)

        return register

    @overload
    def tool(self, name: F, /) -> F: ...
    @overload
    def tool(self, name: str | None = None, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...
    def tool(self, name: F | str | None = None, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Register the decorated function as a tool. See ``tools.add``. Without arguments, no parentheses are needed.

        Raises:
            ConfigError: the name is taken, or a schema is not valid.
        """
        check_options("@app.tool", options, ToolOptions.__annotations__)
        if name is not None and not isinstance(name, str):
            return self.tools.add(name)

        def register(function: F) -> F:
            return self.tools.add(function, name=name, **options)

        return register

    @overload
    def prompt(self, name: Callable[P, R], /) -> CompletableFunction[P, R]: ...
    @overload
    def prompt(
        self, name: str | None = None, **options: Unpack[PromptOptions]
    ) -> Callable[[Callable[P, R]], CompletableFunction[P, R]]: ...
    def prompt(
        self, name: Callable[P, R] | str | None = None, **options: Unpack[PromptOptions]
    ) -> CompletableFunction[P, R] | Callable[[Callable[P, R]], CompletableFunction[P, R]]:
        """Register the decorated function as a prompt. See ``prompts.add``. Without arguments, as ``@app.prompt``.

        Raises:
            ConfigError: the name is taken.
        """
        check_options("@app.prompt", options, PromptOptions.__annotations__)
        if name is not None and not isinstance(name, str):
            return self.prompts.add(name)

        def register(function: Callable[P, R]) -> CompletableFunction[P, R]:
            return self.prompts.add(function, name=name, **options)

        return register

    def route(
        self,
        path: str,
        *,
        methods: str | Iterable[str] = ("GET",),
        authorized: bool = False,
        max_body: int = 1024 * 1024,
    ) -> Callable[[H], H]:
        """Register an HTTP route beside the MCP endpoint: an async function of a request, or an ASGI application.

        The function gets an ``HTTPRequest`` and returns (status, headers, body). A path that ends in ``/*`` is for all
        paths below it. Host and Origin are checked as for the endpoint; with ``authorized``, callers need a token.
        ``max_body`` is the longest body that the function gets, in bytes. See docs/http.md.

        Raises:
            ConfigError: the path, the methods or the handler are invalid, or the server is running.
        """
        from carrel.transports.server.route import make_route  # over HTTP only

        if self._runtime.is_running:
            raise ConfigError(f"register the route {path} before the server starts")

        def register(handler: H) -> H:
            route = make_route(path, handler, methods=methods, authorized=authorized, max_body=max_body)
            self._runtime.routes.append(route)
            return handler

        return register

    def ui(
        self,
        uri: str,
        html: str | Path,
        *,
        csp: PageSecurity | dict[str, Any] | None = None,
        permissions: Iterable[str] = (),
        domain: str | None = None,
        prefers_border: bool | None = None,
        **options: Unpack[ResourceOptions],
    ) -> None:
        """Register a page that hosts show for tools (MCP Apps): HTML, or the Path of a file, read anew each time.

        ``csp`` are the origins that the page may use: connect_domains, resource_domains, frame_domains and
        base_uri_domains, none of them by default. ``permissions`` are camera, microphone, geolocation and
        clipboard_write. ``domain`` is a separate origin for the page, in the host's format; ``prefers_border`` requests
        a border, or no border. Tools refer to the page with ``ui=uri``.

        Raises:
            ConfigError: the URI does not begin with ui://, or is taken, or an option is unknown.
        """
        from carrel.server.apps import add_page, page_meta

        add_page(
            self._runtime, self.resources.add, uri, html, page_meta(csp, permissions, domain, prefers_border), options
        )
