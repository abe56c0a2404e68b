"""State for clients without a session of the transport: one bucket per user, or per id that the model passes on.

The key of a bucket has the user and the id. A request of one user cannot reach the buckets of another user, even with
the same id. Without authorization, an id is a secret: a client that knows it can read and write its bucket.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_args, get_origin, get_type_hints
from uuid import uuid4

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

from carrel.compat.fastmcp.exceptions import FastMCPError
from carrel.compat.fastmcp.server.context import STATES
from carrel.compat.fastmcp.server.dependencies import INJECTED, GetterDependency, get_access_token, get_server
from carrel.compat.fastmcp.server.providers.base import Provider
from carrel.compat.fastmcp.tools.tool import Tool
from carrel.compat.fastmcp.utilities.functions import APPENDED
from carrel.compat.mcp.server.auth.provider import principal_components

__all__ = [
    "SESSION_ID_DESCRIPTION",
    "CurrentSession",
    "InvalidSession",
    "OptionalCurrentSession",
    "Session",
    "SessionAuthError",
    "SessionId",
    "SessionProvider",
    "UserSession",
    "create_session",
    "current_principal",
    "end_session",
    "get_session",
    "session_id_parameter_names",
    "session_storage_key",
]

SESSION_ID_DESCRIPTION = (
    "Session identifier. Create a session with a tool, and pass its identifier in each call that shares state."
)
APPENDED.add(SESSION_ID_DESCRIPTION)
#: Id of the bucket of a user.
_USER_SESSION_ID = "_user"


class SessionAuthError(FastMCPError):
    """A ``UserSession`` is needed, but the request has no authenticated user."""

    def __init__(
        self, message: str = "UserSession requires an authenticated user; use a SessionId without one"
    ) -> None:
        super().__init__(message)


class InvalidSession(FastMCPError):
    """The user has no session with this id."""

    def __init__(self, message: str = "Invalid or unknown session.") -> None:
        super().__init__(message)


def current_principal() -> str | None:
    """Return the client, issuer and subject of the request's access token as JSON; None without a token."""
    token = get_access_token()
    return None if token is None else json.dumps(principal_components(token), separators=(",", ":"))


def session_storage_key(principal: str | None, session_id: str) -> str:
    """Return the key of a bucket in the store. The user is hashed."""
    user = "anon" if principal is None else hashlib.sha256(principal.encode("utf-8", "surrogatepass")).hexdigest()
    return f"session:{user}:{session_id}"


class Session:
    """Bucket of JSON values. ``id`` is None for the bucket of a user."""

    def __init__(self, *, store: Any, principal: str | None, session_id: str, public_id: str | None = None) -> None:
        self._store = store
        self._key = session_storage_key(principal, session_id)
        self.id = public_id

    async def _load(self) -> dict[str, Any]:
        found = await self._store.get(self._key, collection=STATES)
        return {} if found is None else dict(found["value"])

    async def _values(self) -> dict[str, Any]:
        return dict((await self._load()).get("state") or {})

    async def _save(self, values: dict[str, Any]) -> None:
        whole = {**await self._load(), "state": values}
        await self._store.put(self._key, {"value": json.loads(json.dumps(whole))}, collection=STATES)

    async def _exists(self) -> bool:
        return "_created" in await self._load()

    async def _create(self) -> None:
        await self._store.put(self._key, {"value": {"_created": True, "state": {}}}, collection=STATES)

    async def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default."""
        return (await self._values()).get(key, default)

    async def set(self, key: str, value: Any) -> None:
        """Set a value.

        Raises:
            TypeError: the value cannot be encoded as JSON.
        """
        await self._save({**await self._values(), key: value})

    async def delete(self, key: str) -> None:
        """Delete a value, if it exists."""
        values = await self._values()
        if values.pop(key, self) is not self:
            await self._save(values)

    async def clear(self) -> None:
        """Delete all values. The id stays valid."""
        await self._save({})

    async def end(self) -> None:
        """Delete all values and the id."""
        await self._store.delete(self._key, collection=STATES)


class UserSession(Session):
    """Bucket of the request's user, for a parameter with this annotation. Clients do not see the parameter."""


class SessionIdMarker:
    """Metadata of ``SessionId``, which describes the parameter to models."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "description": SESSION_ID_DESCRIPTION}


SessionId = Annotated[str, SessionIdMarker()]


def session_id_parameter_names(fn: Callable[..., object]) -> tuple[str, ...]:
    """Return the names of the parameters of a function that are annotated with ``SessionId``."""
    inner: Any = fn
    while isinstance(inner, functools.partial):
        inner = inner.func
    try:
        hints, given = get_type_hints(inner, include_extras=True), inspect.signature(fn).parameters
    except (TypeError, ValueError, NameError):
        return ()
    return tuple(name for name in given if _is_session_id(hints.get(name)))


def _is_session_id(hint: Any) -> bool:
    return get_origin(hint) is Annotated and any(isinstance(each, SessionIdMarker) for each in get_args(hint))


def _optional_user_session() -> UserSession | None:
    principal = current_principal()
    if principal is None:
        return None
    return UserSession(store=get_server()._state_store, principal=principal, session_id=_USER_SESSION_ID)


def _user_session() -> UserSession:
    found = _optional_user_session()
    if found is None:
        raise SessionAuthError
    return found


INJECTED[UserSession] = _user_session, _optional_user_session


def CurrentSession() -> Any:  # noqa: N802
    """Return the default of a parameter: the bucket of the user. Calls without a user fail."""
    return GetterDependency(_user_session)


def OptionalCurrentSession() -> Any:  # noqa: N802
    """Return the default of a parameter: the bucket of the user, or None."""
    return GetterDependency(_optional_user_session)


async def get_session(session_id: str) -> Session:
    """Return the session that ``create_session`` has created for the user of the request.

    Raises:
        InvalidSession: it does not exist, or belongs to another user.
    """
    principal = current_principal()
    found = Session(store=get_server()._state_store, principal=principal, session_id=session_id, public_id=session_id)
    if not await found._exists():
        raise InvalidSession
    return found


async def create_session() -> str:
    """Create a session and return its id. Pass the id in later calls that share the state of the session."""
    session_id = str(uuid4())
    await Session(store=get_server()._state_store, principal=current_principal(), session_id=session_id)._create()
    return session_id


async def end_session(session_id: SessionId) -> str:
    """End a session and delete its state."""
    await (await get_session(session_id)).end()
    return "session ended"


class SessionProvider(Provider):
    """Provider of the tools ``create_session`` and ``end_session``."""

    def __init__(self) -> None:
        super().__init__()
        self._tools: Sequence[Tool] = (Tool.from_function(create_session), Tool.from_function(end_session))

    async def _list_tools(self) -> Sequence[Tool]:
        return self._tools
