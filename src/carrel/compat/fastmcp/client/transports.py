"""Transports of a client, and which one is meant by a server, a path, a URL or a configuration."""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import httpx

from carrel.compat.fastmcp import server
from carrel.compat.fastmcp.client.auth.bearer import BearerAuth
from carrel.compat.fastmcp.server.dependencies import get_http_headers
from carrel.compat.fastmcp.server.transforms.tool_transform import ToolTransform
from carrel.compat.fastmcp.tools.tool_transform import ToolTransformConfig
from carrel.compat.mcp.client.session import ClientSession
from carrel.compat.mcp.client.sse import sse_client
from carrel.compat.mcp.client.stdio import StdioServerParameters, stdio_client
from carrel.compat.mcp.client.streamable_http import streamablehttp_client
from carrel.compat.mcp.shared._httpx_utils import create_mcp_http_client
from carrel.compat.streams import ClientStream
from carrel.errors import AuthorizationError
from carrel.transports.memory import MemoryTransport

__all__ = [
    "ClientTransport",
    "FastMCPTransport",
    "MCPConfigTransport",
    "NodeStdioTransport",
    "NpxStdioTransport",
    "PythonStdioTransport",
    "SSETransport",
    "StdioTransport",
    "StreamableHttpTransport",
    "UvxStdioTransport",
    "infer_transport",
]


#: The package of servers, whose names are imported when a configuration has several servers.
_servers: Any = server


class ClientTransport:
    """Way to a server. Subclasses have ``connect_session``."""

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[ClientSession]:
        """Yield a session that is not initialized yet."""
        raise NotImplementedError
        yield

    def set_auth(self, auth: Any) -> None:
        """Raise ValueError: only HTTP has credentials."""
        raise ValueError("This transport does not support auth")

    def set_verify(self, verify: Any) -> None:
        """Raise ValueError: only HTTP has certificates."""
        raise ValueError("The 'verify' parameter is only supported for HTTP transports.")

    async def close(self) -> None:
        """Do nothing: the transport is closed with the session."""


class FastMCPTransport(ClientTransport):
    """Transport to a server in this process."""

    def __init__(self, mcp: Any, raise_exceptions: bool = False) -> None:
        self.server = mcp
        self.raise_exceptions = raise_exceptions

    def __repr__(self) -> str:
        return f"<FastMCPTransport(server='{self.server.name}')>"

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[ClientSession]:
        """Yield a session with the server, within its lifespan."""
        low_level = self.server._mcp_server
        app = low_level.application(raise_exceptions=self.raise_exceptions)
        stream = ClientStream(lambda: MemoryTransport(app))
        async with ClientSession(stream, stream, **options) as session:
            yield session


class StdioTransport(ClientTransport):
    """Transport to a process, which is started for each session."""

    def __init__(
        self,
        command: str,
        args: list[str],
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        keep_alive: bool | None = None,
        log_file: Path | Any = None,
    ) -> None:
        self.command, self.args, self.env, self.cwd = command, args, env, cwd
        self.keep_alive, self.log_file = keep_alive, log_file

    def __repr__(self) -> str:
        return f"<{type(self).__name__}(command='{self.command}', args={self.args})>"

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[ClientSession]:
        """Yield a session with the process."""
        parameters = StdioServerParameters(command=self.command, args=self.args, env=self.env, cwd=self.cwd)
        async with contextlib.AsyncExitStack() as stack:
            log: Any = self.log_file
            if isinstance(log, str | Path):
                log = stack.enter_context(Path(log).open("a"))  # noqa: ASYNC230, SIM115
            read, write = await stack.enter_async_context(stdio_client(parameters, errlog=log))
            yield await stack.enter_async_context(ClientSession(read, write, **options))


def _script(path: str | Path, suffix: str) -> str:
    found = Path(path).resolve()
    if not found.is_file():
        raise FileNotFoundError(f"Script not found: {path}")
    if found.suffix != suffix:
        raise ValueError(f"Not a {suffix} script: {path}")
    return str(found)


class PythonStdioTransport(StdioTransport):
    """Transport to a Python file. Within ``carrel run --compat``, the file is run like that too."""

    def __init__(
        self,
        script_path: str | Path,
        args: list[str] | None = None,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        python_cmd: str = sys.executable,
        **options: Any,
    ) -> None:
        self.script_path = _script(script_path, ".py")
        compat = ["-m", "carrel.compat"] if python_cmd == sys.executable else []
        super().__init__(python_cmd, [*compat, self.script_path, *(args or [])], env, cwd, **options)


class NodeStdioTransport(StdioTransport):
    """Transport to a JavaScript file."""

    def __init__(
        self,
        script_path: str | Path,
        args: list[str] | None = None,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        node_cmd: str = "node",
        **options: Any,
    ) -> None:
        self.script_path = _script(script_path, ".js")
        super().__init__(node_cmd, [self.script_path, *(args or [])], env, cwd, **options)


class UvxStdioTransport(StdioTransport):
    """Transport to a tool of a Python package, run with ``uvx``."""

    def __init__(
        self,
        tool_name: str,
        tool_args: list[str] | None = None,
        project_directory: str | None = None,
        python_version: str | None = None,
        with_packages: list[str] | None = None,
        from_package: str | None = None,
        env_vars: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        arguments = ["--python", python_version] if python_version else []
        arguments += [each for package in with_packages or () for each in ("--with", package)]
        arguments += ["--from", from_package] if from_package else []
        arguments += [tool_name, *(tool_args or [])]
        super().__init__("uvx", arguments, env_vars, project_directory, **options)


class NpxStdioTransport(StdioTransport):
    """Transport to an npm package, run with ``npx``."""

    def __init__(
        self,
        package: str,
        args: list[str] | None = None,
        project_directory: str | None = None,
        env_vars: dict[str, str] | None = None,
        use_package_lock: bool = True,
        **options: Any,
    ) -> None:
        if shutil.which("npx") is None:
            raise ValueError("Command 'npx' not found")
        arguments = [*(["--prefer-offline"] if use_package_lock else []), package, *(args or [])]
        super().__init__("npx", arguments, env_vars, project_directory, **options)


class HTTPClientTransport(ClientTransport):
    """Transport to a URL, with headers and credentials: a bearer token, "oauth", or an ``httpx.Auth``."""

    def __init__(
        self,
        url: Any,
        headers: dict[str, str] | None = None,
        auth: Any = None,
        sse_read_timeout: Any = None,
        httpx_client_factory: Any = None,
        verify: Any = None,
        **_: Any,
    ) -> None:
        self.url = str(url)
        self.headers = dict(headers or {})
        self.httpx_client_factory = httpx_client_factory
        self.set_verify(verify)
        self.auth: Any = None
        self.forward_incoming_headers = False
        self.set_auth(auth)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}(url='{self.url}')>"

    def _sent_headers(self) -> dict[str, str]:
        """Return the headers of a request. They include the incoming headers if these are forwarded."""
        return {**(get_http_headers() if self.forward_incoming_headers else {}), **self.headers}

    def set_auth(self, auth: Any) -> None:
        """Set the credentials: a token, "oauth" for a login in the browser, or an ``httpx.Auth``."""
        if auth is None:
            return
        if auth == "oauth":
            from carrel.compat.fastmcp.client.auth.oauth import OAuth

            auth = OAuth(httpx_client_factory=self.httpx_client_factory)
        elif isinstance(auth, str):
            auth = BearerAuth(auth)
        bind = getattr(auth, "_bind", None)
        if bind is not None:
            bind(self.url)
        self.auth = auth

    _set_auth = set_auth

    def set_verify(self, verify: Any) -> None:
        """Set how certificates are checked, unless the transport has a factory of clients."""
        self.verify = verify
        if verify is not None and self.httpx_client_factory is None:
            self.httpx_client_factory = partial(_verified_client, verify=verify)


def _verified_client(
    headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None, *, verify: Any
) -> httpx.AsyncClient:
    client = create_mcp_http_client(headers, timeout, auth)
    return httpx.AsyncClient(headers=client.headers, auth=client.auth, timeout=client.timeout, verify=verify)


@contextlib.contextmanager
def status_errors(url: str) -> Iterator[None]:
    """Raise the errors of ``httpx`` that programs expect if a server rejects the credentials.

    Raises:
        HTTPStatusError: the server answered 401.
    """
    try:
        yield
    except AuthorizationError as error:
        if error.__cause__ is not None:  # a login failed in the program's own credentials
            raise error.__cause__ from error
        request = httpx.Request("POST", url)
        response = httpx.Response(401, request=request)
        message = f"Client error '401 Unauthorized' for url '{url}'"
        raise httpx.HTTPStatusError(message, request=request, response=response) from error


class StreamableHttpTransport(HTTPClientTransport):
    """Transport over Streamable HTTP."""

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[ClientSession]:
        """Yield a session with the URL."""
        async with (
            streamablehttp_client(
                self.url, self._sent_headers(), auth=self.auth, httpx_client_factory=self.httpx_client_factory
            ) as (read, write, get_session_id),
            ClientSession(read, write, **options) as session,
        ):
            self.get_session_id = get_session_id
            yield session


class SSETransport(HTTPClientTransport):
    """Transport over HTTP+SSE."""

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[ClientSession]:
        """Yield a session with the URL."""
        async with (
            sse_client(
                self.url, self._sent_headers(), auth=self.auth, httpx_client_factory=self.httpx_client_factory
            ) as (read, write),
            ClientSession(read, write, **options) as session,
        ):
            yield session


class MCPConfigTransport(ClientTransport):
    """Transport to the servers of a configuration (``{"mcpServers": {…}}``): several ones are behind a proxy.

    Raises:
        ValueError: there is no server in it.
    """

    def __init__(self, config: Any, name_as_prefix: bool = True) -> None:
        self.config = config
        self.name_as_prefix = name_as_prefix
        given = config if isinstance(config, dict) else config.to_dict()
        self._servers: dict[str, Any] = given.get("mcpServers", given)
        if not self._servers:
            raise ValueError("No MCP servers defined in the config")
        self.transport = self._one(next(iter(self._servers))) if len(self._servers) == 1 else self._all()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}(config='{self.config}')>"

    def _one(self, name: str) -> ClientTransport:
        server = self._servers[name]
        server = server if isinstance(server, dict) else server.model_dump(exclude_none=True)
        changes = server.get("tools"), server.get("include_tags"), server.get("exclude_tags")
        if not any(changes):
            return _transport_of(server)
        return FastMCPTransport(_changed(_servers.create_proxy(_transport_of(server), name=name), *changes))

    def _all(self) -> ClientTransport:
        router = _servers.FastMCP("MCPRouter")
        for name in self._servers:
            proxy = _servers.create_proxy(self._one(name), name=f"Proxy-{name}")
            router.mount(proxy, name if self.name_as_prefix else None)
        return FastMCPTransport(router)

    @contextlib.asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[ClientSession]:
        """Yield a session with the server, or with the proxy."""
        async with self.transport.connect_session(**options) as session:
            yield session


def _changed(proxy: Any, tools: Any, include_tags: Any, exclude_tags: Any) -> Any:
    """Return a proxy with the changes of a configuration."""
    if tools:
        read = ToolTransformConfig.model_validate
        proxy.add_transform(ToolTransform({name: read(each) for name, each in tools.items()}))
    if include_tags:
        proxy.enable(tags=set(include_tags), only=True)
    if exclude_tags:
        proxy.disable(tags=set(exclude_tags))
    return proxy


def _transport_of(server: dict[str, Any]) -> ClientTransport:
    if "url" in server:
        wanted = server.get("transport") or server.get("type")
        kind = SSETransport if wanted == "sse" or (not wanted and _is_sse(server["url"])) else StreamableHttpTransport
        return kind(server["url"], server.get("headers"), server.get("auth"))
    return StdioTransport(server["command"], server.get("args", []), server.get("env"), server.get("cwd"))


def _is_sse(url: str) -> bool:
    return bool(re.search(r"/sse(/|\?|&|$)", urlparse(url).path))


def infer_transport(given: Any) -> ClientTransport:
    """Return the transport for a server in this process, a file, a URL or a configuration.

    Raises:
        ValueError: the type of the target is not supported.
    """
    if isinstance(given, ClientTransport):
        return given
    if hasattr(given, "_mcp_server"):  # a server of ``fastmcp``, or of ``mcp`` 1.x
        return FastMCPTransport(given)
    text = str(given)
    if isinstance(given, dict) or hasattr(given, "mcpServers"):
        return MCPConfigTransport(given)
    if isinstance(given, str | Path) and Path(text).exists():
        if text.endswith(".py"):
            return PythonStdioTransport(text)
        if text.endswith(".js"):
            return NodeStdioTransport(text)
        raise ValueError(f"Unsupported script type: {given}")
    if text.startswith("http"):
        return SSETransport(text) if _is_sse(text) else StreamableHttpTransport(text)
    raise ValueError(f"Could not infer a valid transport from: {given}")
