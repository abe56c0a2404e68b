"""Provider of the components of another server, which a client reaches."""

from __future__ import annotations

import asyncio
import base64
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, TypeVar

from pydantic import Field

from carrel.compat.fastmcp.client.client import Client
from carrel.compat.fastmcp.client.elicitation import ElicitResult
from carrel.compat.fastmcp.client.transports import HTTPClientTransport
from carrel.compat.fastmcp.exceptions import ResourceError
from carrel.compat.fastmcp.prompts.prompt import Message, Prompt, PromptArgument, PromptResult
from carrel.compat.fastmcp.resources.resource import Resource, ResourceContent, ResourceResult
from carrel.compat.fastmcp.resources.template import ResourceTemplate, expand_uri_template
from carrel.compat.fastmcp.server.context import current_context
from carrel.compat.fastmcp.server.dependencies import get_context
from carrel.compat.fastmcp.server.providers.base import Provider
from carrel.compat.fastmcp.tools.tool import Tool, ToolResult
from carrel.compat.fastmcp.utilities.components import FastMCPComponent, get_fastmcp_metadata
from carrel.compat.mcp import types
from carrel.compat.mcp.shared.exceptions import McpError
from carrel.compat.mcp.types import base

__all__ = [
    "ClientFactory",
    "ProxyClient",
    "ProxyPrompt",
    "ProxyProvider",
    "ProxyResource",
    "ProxyTemplate",
    "ProxyTool",
    "StatefulProxyClient",
    "client_factory_of",
]

T = TypeVar("T", bound=Any)

ClientFactory = Callable[[], Any] | Callable[[], Awaitable[Any]]


async def _client_of(factory: ClientFactory) -> Any:
    found = factory()
    return await found if inspect.isawaitable(found) else found


class Remote(FastMCPComponent):
    """Component of another server, under the name or URI that it has there."""

    KEY_PREFIX: ClassVar[str] = "remote"

    client_factory: Any = Field(exclude=True)
    backend: str = Field(exclude=True)

    async def _get_client(self) -> Any:
        return await _client_of(self.client_factory)


def _details(item: Any) -> dict[str, Any]:
    own = get_fastmcp_metadata(item.meta)
    return {
        "title": item.title,
        "description": item.description,
        "icons": item.icons,
        "meta": item.meta,
        "tags": set(own.get("tags", ())),
        "version": own.get("version"),
    }


class ProxyTool(Remote, Tool):
    """Tool of another server."""

    KEY_PREFIX: ClassVar[str] = "tool"

    @classmethod
    def from_mcp_tool(cls, client_factory: ClientFactory, mcp_tool: Any) -> ProxyTool:
        """Return the tool of an entry of a list."""
        return cls(
            client_factory=client_factory,
            backend=mcp_tool.name,
            name=mcp_tool.name,
            parameters=mcp_tool.inputSchema,
            output_schema=mcp_tool.outputSchema,
            annotations=mcp_tool.annotations,
            execution=mcp_tool.execution,
            **_details(mcp_tool),
        )

    async def run(self, arguments: dict[str, Any], context: Any = None) -> ToolResult:
        """Call the tool on its server, with the ``_meta`` of the request."""
        request = getattr(context or get_context(), "request_context", None)
        meta = None if request is None or request.meta is None else request.meta.model_dump(exclude_none=True)
        meta = {key: value for key, value in (meta or {}).items() if key != "progressToken"} or None
        async with await self._get_client() as client:
            found = await client.call_tool_mcp(self.backend, arguments, meta=meta)
        return ToolResult(found.content, found.structuredContent, found.meta, bool(found.isError))


def _contents(found: Sequence[Any], uri: str) -> ResourceResult:
    if not found:
        raise ResourceError(f"Remote server returned empty content for {uri}")
    contents = [
        ResourceContent(each.text if hasattr(each, "text") else base64.b64decode(each.blob), each.mimeType, each.meta)
        for each in found
    ]
    return ResourceResult(contents)


class ProxyResource(Remote, Resource):
    """Resource of another server."""

    KEY_PREFIX: ClassVar[str] = "resource"

    @classmethod
    def from_mcp_resource(cls, client_factory: ClientFactory, mcp_resource: Any) -> ProxyResource:
        """Return the resource of an entry of a list."""
        return cls(
            client_factory=client_factory,
            backend=str(mcp_resource.uri),
            uri=mcp_resource.uri,
            name=mcp_resource.name,
            mime_type=mcp_resource.mimeType or "text/plain",
            annotations=mcp_resource.annotations,
            **_details(mcp_resource),
        )

    async def read(self) -> ResourceResult:
        """Read the resource on its server."""
        async with await self._get_client() as client:
            return _contents(await client.read_resource(self.backend), self.backend)


class ProxyTemplate(Remote, ResourceTemplate):
    """Resource template of another server."""

    KEY_PREFIX: ClassVar[str] = "template"

    @classmethod
    def from_mcp_template(cls, client_factory: ClientFactory, mcp_template: Any) -> ProxyTemplate:
        """Return the template of an entry of a list."""
        return cls(
            client_factory=client_factory,
            backend=mcp_template.uriTemplate,
            uri_template=mcp_template.uriTemplate,
            name=mcp_template.name,
            mime_type=mcp_template.mimeType or "text/plain",
            annotations=mcp_template.annotations,
            parameters={},
            **_details(mcp_template),
        )

    async def read(self, arguments: dict[str, Any]) -> ResourceResult:
        """Read the resource on its server."""
        uri = expand_uri_template(self.backend, arguments)
        async with await self._get_client() as client:
            return _contents(await client.read_resource(uri), uri)


class ProxyPrompt(Remote, Prompt):
    """Prompt of another server."""

    KEY_PREFIX: ClassVar[str] = "prompt"

    @classmethod
    def from_mcp_prompt(cls, client_factory: ClientFactory, mcp_prompt: Any) -> ProxyPrompt:
        """Return the prompt of an entry of a list."""
        arguments = [
            PromptArgument(name=each.name, description=each.description, required=bool(each.required))
            for each in mcp_prompt.arguments or ()
        ]
        return cls(
            client_factory=client_factory,
            backend=mcp_prompt.name,
            name=mcp_prompt.name,
            arguments=arguments,
            **_details(mcp_prompt),
        )

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Render the prompt on its server."""
        async with await self._get_client() as client:
            found = await client.get_prompt(self.backend, arguments)
        messages = [Message(each.content, each.role) for each in found.messages]
        return PromptResult(messages, found.description, found.meta)


class ProxyProvider(Provider):
    """Provider of what another server lists. ``client_factory`` returns a client for each request."""

    def __init__(self, client_factory: ClientFactory, cache_ttl: float | None = None) -> None:
        super().__init__()
        self.client_factory = client_factory

    async def _all(self, method: str, make: Callable[[ClientFactory, Any], Any]) -> list[Any]:
        try:
            async with await _client_of(self.client_factory) as client:
                found = await getattr(client, method)()
        except McpError as error:
            if error.error.code != base.METHOD_NOT_FOUND:
                raise
            return []
        return [make(self.client_factory, each) for each in found]

    async def _list_tools(self) -> Sequence[Any]:
        return await self._all("list_tools", ProxyTool.from_mcp_tool)

    async def _list_resources(self) -> Sequence[Any]:
        return await self._all("list_resources", ProxyResource.from_mcp_resource)

    async def _list_resource_templates(self) -> Sequence[Any]:
        return await self._all("list_resource_templates", ProxyTemplate.from_mcp_template)

    async def _list_prompts(self) -> Sequence[Any]:
        return await self._all("list_prompts", ProxyPrompt.from_mcp_prompt)

    async def get_tasks(self) -> Sequence[Any]:
        """Return no component: calls of another server do not run as tasks here."""
        return []


# Requests of the other server are passed on to the client of this one.


async def _roots(context: Any) -> Any:
    return await get_context().list_roots()


async def _sample(messages: Any, params: types.CreateMessageRequestParams, context: Any) -> Any:
    return await get_context().session.create_message(
        messages,
        max_tokens=params.maxTokens,
        system_prompt=params.systemPrompt,
        temperature=params.temperature,
        model_preferences=params.modelPreferences,
    )


async def _elicit(message: str, response_type: Any, params: Any, context: Any) -> Any:
    schema = getattr(params, "requestedSchema", None) or {"type": "object", "properties": {}}
    found = await get_context().session.elicit(message, schema)
    return ElicitResult(action=found.action, content=found.content)


async def _log(message: Any) -> None:
    data: dict[str, Any] = message.data if isinstance(message.data, dict) else {"msg": str(message.data)}
    await get_context().log(data.get("msg", ""), message.level, message.logger, data.get("extra"))


async def _progress(progress: float, total: float | None, message: str | None) -> None:
    await get_context().report_progress(progress, total, message)


HANDLERS: dict[str, Callable[..., Any]] = {
    "roots": _roots,
    "sampling_handler": _sample,
    "elicitation_handler": _elicit,
    "log_handler": _log,
    "progress_handler": _progress,
}


class ProxyClient(Client[T]):
    """Client that passes requests, log messages and progress of its server on to the client of this server.

    The headers of the requests that this server answers are passed on, unless ``forward_incoming_headers`` is false.
    """

    def __init__(self, transport: Any, *, forward_incoming_headers: bool = True, **options: Any) -> None:
        self._given = {**options, "forward_incoming_headers": forward_incoming_headers}
        self._around: contextvars.Context | None = None
        handlers = {name: self._passing(handler) for name, handler in HANDLERS.items()}
        super().__init__(transport, **{**handlers, **options})
        if isinstance(self.transport, HTTPClientTransport):
            self.transport.forward_incoming_headers = forward_incoming_headers

    def new(self) -> ProxyClient[T]:
        """Return a client with the same settings and a new session."""
        return type(self)(self.transport, **self._given)

    async def __aenter__(self) -> ProxyClient[T]:
        if current_context.get() is not None:
            self._around = contextvars.copy_context()
        await super().__aenter__()
        return self

    def _passing(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        """Return a handler that runs in the context of the request that this client was entered in."""

        async def run(*arguments: Any) -> Any:
            return await asyncio.create_task(handler(*arguments), context=self._around)

        return run


class StatefulProxyClient(ProxyClient[T]):
    """Client with one session for each session of this server's clients: give ``new_stateful`` to a proxy."""

    def __init__(self, transport: Any, **options: Any) -> None:
        super().__init__(transport, **options)
        self._clients: dict[Any, Client[Any]] = {}

    def new_stateful(self) -> Client[Any]:
        """Return the client of the session, which stays connected."""
        session = get_context().session
        if session not in self._clients:
            self._clients[session] = self.new()
        return self._clients[session]

    async def __aexit__(self, *error: object) -> None:
        """Stay connected."""

    async def clear(self) -> None:
        """Disconnect all sessions."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.close()


def client_factory_of(target: Any) -> ClientFactory:
    """Return the function that gives a client for a server, a transport, a URL, a file or a configuration.

    Sessions are new for each request, unless the target is a connected client.
    """
    if not isinstance(target, Client):
        return ProxyClient(target).new
    if not isinstance(target, ProxyClient) and isinstance(target.transport, HTTPClientTransport):
        target.transport.forward_incoming_headers = True
    if target.is_connected() and type(target) is not ProxyClient:
        return lambda: target
    return target.new
