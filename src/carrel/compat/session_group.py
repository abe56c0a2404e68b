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

    def __init__(
        self,
        exit_stack: AsyncExitStack | None = None,
        component_name_hook: Callable[[str, Any], str] | None = None,
    ) -> None:
        self._stack = exit_stack or AsyncExitStack()
        self._is_owner = exit_stack is None
        self._hook = component_name_hook
        self._items: dict[str, dict[str, Any]] = {kind: {} for kind in LISTS}
        self._owners: dict[tuple[str, str], Any] = {}
        self._sessions: dict[Any, AsyncExitStack] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in reversed(list(self._sessions)):
            await self._sessions.pop(session).aclose()
        if self._is_owner:
            await self._stack.aclose()

    @property
    def sessions(self) -> list[Any]:
        """The sessions."""
        return list(self._sessions)

    @property
    def prompts(self) -> dict[str, Any]:
        """Prompts of all servers, by their names in the group."""
        return self._items["prompts"]

    @property
    def resources(self) -> dict[str, Any]:
        """Resources of all servers, by their names in the group."""
        return self._items["resources"]

    @property
    def tools(self) -> dict[str, Any]:
        """Tools of all servers, by their names in the group."""
        return self._items["tools"]

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None, *args: Any, **options: Any) -> Any:
        """Call a tool by its name in the group. The other arguments are arguments of the session's ``call_tool``.

        Raises:
            KeyError: there is no such tool.
        """
        session = self._owners["tools", name]
        return await session.call_tool(self.tools[name].name, arguments, *args, **options)

    async def connect_to_server(self, server_params: Any, session_params: Any = None) -> Any:
        """Open a session with a server, add its items, and return the session."""
        stack = AsyncExitStack()
        try:
            read, write = await self._open(stack, server_params)
            arguments = vars(session_params or self.parameters())
            session = await stack.enter_async_context(self.session(read, write, **arguments))
            info = getattr(await session.initialize(), self.information)
            self._sessions[session] = stack
            return await self.connect_with_session(info, session)
        except BaseException:
            await stack.aclose()
            raise

    async def connect_with_session(self, server_info: Any, session: Any) -> Any:
        """Add the items of a session that is initialized, and return the session.

        Raises:
            Exception: another server has an item of the same name (``error``).
        """
        found = {kind: await self._listed(session, kind) for kind in LISTS}
        hook = self._hook or (lambda name, _: name)
        named = {kind: {hook(each.name, server_info): each for each in items} for kind, items in found.items()}
        for kind, items in named.items():
            known = items.keys() & self._items[kind].keys()
            if known:
                self._sessions.pop(session, None)
                raise self._invalid(f"{known} already exist in group {kind}.")
        self._sessions.setdefault(session, AsyncExitStack())
        for kind, items in named.items():
            self._items[kind].update(items)
            self._owners.update({(kind, name): session for name in items})
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
        if session not in self._sessions:
            raise self._invalid("Provided session is not managed or already disconnected.")
        for kind, name in [key for key, owner in self._owners.items() if owner is session]:
            del self._owners[kind, name]
            del self._items[kind][name]
        await self._sessions.pop(session).aclose()

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
