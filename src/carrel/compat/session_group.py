"""Group of client sessions whose tools, resources and prompts have one list each: base of both generations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel

from carrel.compat.mcp.client.sse import sse_client
from carrel.compat.mcp.client.stdio import StdioServerParameters, stdio_client
from carrel.compat.mcp.client.streamable_http import streamablehttp_client
from carrel.compat.mcp.types.base import INVALID_PARAMS
from carrel.log import Log

__all__ = ["SessionGroup", "SseServerParameters"]

log = Log("client")

#: Lists of a session, with the method of the session that returns each.
LISTS = {"prompts": "list_prompts", "resources": "list_resources", "tools": "list_tools"}


class SseServerParameters(BaseModel):
    """Server over HTTP+SSE: URL, headers, and limits in seconds."""

    url: str
    headers: dict[str, Any] | None = None
    timeout: float = 5
    sse_read_timeout: float = 300


class ComponentNames(BaseModel):
    """Names of a session's items in the group."""

    prompts: set[str] = set()
    resources: set[str] = set()
    tools: set[str] = set()


class SessionGroup:
    """Client of several servers. ``component_name_hook`` renames an item, from its name and its server's information.

    Sessions end with the group, or with ``exit_stack`` if that is given.
    """

    session: type[Any]
    """Class of the sessions."""
    parameters: type[Any]
    """Class of the arguments of a session."""
    information: str
    """Attribute of the result of a handshake with the name and version of the server."""
    error: type[Any]
    """Class of the exception for an error response."""
    _ComponentNames = ComponentNames

    def __init__(
        self,
        exit_stack: AsyncExitStack | None = None,
        component_name_hook: Callable[[str, Any], str] | None = None,
    ) -> None:
        self._exit_stack = exit_stack or AsyncExitStack()
        self._owns_exit_stack = exit_stack is None
        self._component_name_hook = component_name_hook
        self._prompts: dict[str, Any] = {}
        self._resources: dict[str, Any] = {}
        self._tools: dict[str, Any] = {}
        self._tool_to_session: dict[str, Any] = {}
        self._sessions: dict[Any, ComponentNames] = {}
        self._session_exit_stacks: dict[Any, AsyncExitStack] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in reversed(list(self._session_exit_stacks)):
            await self._session_exit_stacks.pop(session).aclose()
        self._sessions.clear()
        if self._owns_exit_stack:
            await self._exit_stack.aclose()

    @property
    def sessions(self) -> list[Any]:
        """The sessions."""
        return list(self._sessions)

    @property
    def prompts(self) -> dict[str, Any]:
        """Prompts of all servers, by their names in the group."""
        return self._prompts

    @property
    def resources(self) -> dict[str, Any]:
        """Resources of all servers, by their names in the group."""
        return self._resources

    @property
    def tools(self) -> dict[str, Any]:
        """Tools of all servers, by their names in the group."""
        return self._tools

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, *args: Any, **options: Any) -> Any:
        """Call a tool by its name in the group. The other arguments are arguments of the session's ``call_tool``.

        Raises:
            KeyError: there is no such tool.
        """
        session = self._tool_to_session[name]
        return await session.call_tool(self.tools[name].name, arguments, *args, **options)

    async def connect_to_server(self, server_params: Any, session_params: Any = None) -> Any:
        """Open a session with a server, add its items, and return the session."""
        info, session = await self._establish_session(server_params, session_params or self.parameters())
        try:
            return await self.connect_with_session(info, session)
        except BaseException:
            stack = self._session_exit_stacks.pop(session, None)
            if stack is not None:
                await stack.aclose()
            raise

    async def _establish_session(self, server_params: Any, session_params: Any) -> tuple[Any, Any]:
        """Open a session with a server; return information about the server, and the session."""
        stack = AsyncExitStack()
        try:
            read, write = await self._open(stack, server_params)
            session = await stack.enter_async_context(self.session(read, write, **vars(session_params)))
            info = getattr(await session.initialize(), self.information)
        except BaseException:
            await stack.aclose()
            raise
        self._session_exit_stacks[session] = stack
        return info, session

    async def connect_with_session(self, server_info: Any, session: Any) -> Any:
        """Add the items of a session that is initialized, and return the session.

        Raises:
            Exception: another server has an item of the same name (``error``).
        """
        found = {kind: await self._listed(session, kind) for kind in LISTS}
        hook = self._component_name_hook or (lambda name, _: name)
        named = {kind: {hook(each.name, server_info): each for each in items} for kind, items in found.items()}
        for kind, items in named.items():
            known = items.keys() & getattr(self, kind).keys()
            if known:
                raise self._invalid(f"{known} already exist in group {kind}.")
        for kind, items in named.items():
            getattr(self, kind).update(items)
        self._tool_to_session.update(dict.fromkeys(named["tools"], session))
        self._sessions[session] = self._ComponentNames(**{kind: set(items) for kind, items in named.items()})
        return session

    async def _listed(self, session: Any, kind: str) -> Iterable[Any]:
        try:
            found: Iterable[Any] = getattr(await getattr(session, LISTS[kind])(), kind)
        except self.error as error:
            log.warning("the %s of a server of the group cannot be listed: %s", kind, error)
            return ()
        return found

    async def disconnect_from_server(self, session: Any) -> None:
        """End a session, and remove its items.

        Raises:
            Exception: the session is not in the group (``error``).
        """
        names = self._sessions.pop(session, None)
        stack = self._session_exit_stacks.pop(session, None)
        if names is None and stack is None:
            raise self._invalid("Provided session is not managed or already disconnected.")
        for kind in LISTS:
            for name in getattr(names, kind, ()):
                getattr(self, kind).pop(name, None)
                if kind == "tools":
                    self._tool_to_session.pop(name, None)
        if stack is not None:
            await stack.aclose()

    async def _open(self, stack: AsyncExitStack, params: Any) -> tuple[Any, Any]:
        """Return the streams of a server, whose transport ends with ``stack``."""
        if isinstance(params, StdioServerParameters):
            return await stack.enter_async_context(stdio_client(params))
        connect: Any = sse_client if isinstance(params, SseServerParameters) else streamablehttp_client
        streams = await stack.enter_async_context(connect(**params.model_dump()))
        return streams[0], streams[1]

    def _invalid(self, message: str) -> Exception:
        error: Exception = self.error(code=INVALID_PARAMS, message=message)
        return error
