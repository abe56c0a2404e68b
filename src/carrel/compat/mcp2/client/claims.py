"""Results of tool calls and notifications that the extensions of a client add to the protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from carrel.compat.loggers import get_logger
from carrel.compat.mcp2.client.extension import ClientExtension, NotificationBinding, ResultClaim
from carrel.compat.mcp2.client.requests import claiming_result
from carrel.compat.mcp2.shared.extension import validate_extension_identifier
from carrel.protocol.client import ClientProtocol
from carrel.protocol.extension import Extension
from carrel.protocol.methods import NotificationType
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import REVISIONS
from carrel.wire.base import Result

__all__ = ["BoundNotifications", "ClaimedResults", "Claims", "contributions"]

logger = get_logger("client")

#: Claims of extensions, by identifier.
Claims = Mapping[str, Sequence[ResultClaim[Any]]]
#: Notifications that wait for a handler. Further ones replace the oldest.
MAX_WAITING = 256
#: Methods of the protocol, which reach the callbacks of the session.
CORE = {row.method for revision in REVISIONS.values() for row in revision.events.values()}


def contributions(
    extensions: Sequence[ClientExtension] | None,
) -> tuple[dict[str, dict[str, Any]] | None, dict[str, tuple[ResultClaim[Any], ...]], list[NotificationBinding[Any]]]:
    """Return the settings and the claims of extensions, by identifier, and their notifications.

    Raises:
        TypeError: an identifier has no prefix, or the extensions are a mapping.
        ValueError: an extension has no identifier, or something is given twice.
    """
    if isinstance(extensions, Mapping):
        raise TypeError(
            "extensions= takes a sequence of ClientExtension instances; "
            "use advertise(identifier, settings) for extensions that are only declared"
        )
    settings: dict[str, dict[str, Any]] = {}
    claims: dict[str, tuple[ResultClaim[Any], ...]] = {}
    bindings: list[NotificationBinding[Any]] = []
    owners: dict[tuple[str, str], str] = {}
    for extension in extensions or ():
        identifier = getattr(extension, "identifier", None)
        if identifier is None:
            raise ValueError(f"{type(extension).__name__} has no `identifier`")
        validate_extension_identifier(identifier, owner=type(extension).__name__)
        if identifier in settings:
            raise ValueError(f"extension identifier {identifier!r} is passed more than once")
        settings[identifier] = extension.settings()
        claimed, bound = tuple(extension.claims()), tuple(extension.notifications())
        added = [("resultType", claim.result_type) for claim in claimed]
        for key in (*added, *(("notification method", binding.method) for binding in bound)):
            if key in owners:
                raise ValueError(f"{key[0]} {key[1]!r} is added twice: by {owners[key]!r} and by {identifier!r}")
            owners[key] = identifier
        if claimed:
            claims[identifier] = claimed
        bindings += bound
    return settings or None, claims, bindings


class ClaimedResults:
    """Types of results of tool calls that extensions add to revisions without a handshake.

    Raises:
        ValueError: an extension is not declared or has no claims, or a type is claimed twice.
    """

    def __init__(self, claims: Claims | None, extensions: Mapping[str, Any] | None) -> None:
        self._names = tuple(claims or ())
        found: dict[str, ResultClaim[Any]] = {}
        for identifier, claimed in (claims or {}).items():
            if identifier not in (extensions or {}):
                raise ValueError(f"result_claims key {identifier!r} has no extensions entry")
            if not claimed:
                raise ValueError(f"result_claims[{identifier!r}] is empty; omit the key instead")
            for claim in claimed:
                if claim.result_type in found:
                    raise ValueError(f"duplicate result claim for resultType {claim.result_type!r}")
                found[claim.result_type] = claim
        self._claims: dict[type[Result], ResultClaim[Any]] = {}
        self.result: type[Result] | None = None
        """The result of a tool call; None if no extension adds a type."""
        if found:
            self.result, self._claims = claiming_result(found.values())

    def declare(self, connection: ClientProtocol[Any]) -> None:
        """Declare the extensions that add types only in revisions without a handshake."""
        for name in self._names:
            connection.extend(Extension(name=name))

    def model(self, result: Any) -> type[BaseModel] | None:
        """Return the model of a result that an extension has added; None for other results."""
        claim = self._claims.get(type(result))
        return None if claim is None else claim.model


class BoundNotifications:
    """Notifications that extensions add, each with its handler, which is called in the order of arrival.

    Raises:
        ValueError: a notification has two handlers.
    """

    def __init__(self, bindings: Sequence[NotificationBinding[Any]] | None) -> None:
        self._bindings: dict[str, NotificationBinding[Any]] = {}
        self._queues: dict[str, asyncio.Queue[BaseModel]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        for binding in bindings or ():
            if binding.method in self._bindings:
                raise ValueError(f"duplicate notification binding for method {binding.method!r}")
            self._bindings[binding.method] = binding

    def start(self, connection: ClientProtocol[Any]) -> None:
        """Begin to receive the notifications of a connection."""
        whole: Any = dict  # parameters with all of their members
        rows = {method: NotificationType(method, method, whole) for method in self._bindings if method not in CORE}
        if rows:
            connection.extend(Extension(name="carrel/bound", events=rows, handshake=True))
        for method in rows:
            self._queues[method] = asyncio.Queue()
            self._tasks.append(asyncio.create_task(self._deliver(self._bindings[method], self._queues[method])))

    async def stop(self) -> None:
        """Stop the handlers."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def warn(self, revision: Revision) -> None:
        """Warn about notifications that the protocol has in a revision: the session's callbacks receive them."""
        for method in {row.method for row in revision.events.values()}.intersection(self._bindings):
            logger.warning(
                "notification binding for %r will never fire at %s: the core protocol defines this method",
                method,
                revision.name,
            )

    def take(self, method: str, received: Any) -> bool:
        """Queue a notification for its handler, and return whether it has one."""
        queue = self._queues.get(method)
        if queue is None:
            return False
        try:
            params = self._bindings[method].params_type.model_validate(received)
        except ValidationError as error:
            logger.warning("Failed to validate notification: %s: %s", method, error)
            return True
        if queue.qsize() >= MAX_WAITING:
            queue.get_nowait()
            logger.warning("notification queue for %r is full; dropped the oldest event", method)
        queue.put_nowait(params)
        return True

    @staticmethod
    async def _deliver(binding: NotificationBinding[Any], queue: asyncio.Queue[BaseModel]) -> None:
        while True:
            params = await queue.get()
            try:
                await binding.handler(params)
            except Exception:
                logger.exception("notification binding handler for %r raised", binding.method)
