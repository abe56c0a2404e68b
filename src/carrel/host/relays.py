"""Relays: the remote calls of one provider, some of which wait for stateless clients to send their requests again.

The place of a waiting call is part of the client's ``requestState``, encrypted: the slot of its replica, and a token. A
request at another replica continues the same call, see ``carrel.host.resumed_calls``.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from carrel.catalog.request import InputRequired, Request, RequestContext
from carrel.catalog.task_channel import task_of
from carrel.host.relay import LOST, PARKED_SECONDS, CallLost, Relay, RelayContext
from carrel.state.connections import MAX_MESSAGE
from carrel.state.records import SlotExpired

if TYPE_CHECKING:
    from carrel.host.call_messages import CallMessage
    from carrel.state.connections import MailboxConnection
    from carrel.state.replica import Replica
    from carrel.wire.base import Result

__all__ = ["Relays"]

T = TypeVar("T")

#: Maximum number of remote calls that wait for stateless clients at the same time.
MAX_PARKED = 1000
TOO_LARGE = f"its result is too large to be sent to the replica that was asked for it: more than {MAX_MESSAGE} bytes"


class CallPlace(msgspec.Struct, array_like=True, frozen=True):
    """Where a parked call is: the slot of its replica, and its token there."""

    slot: int
    token: str


class ParkedCall(msgspec.Struct, eq=False):
    """Parked call: it ends when the timer runs out."""

    relay: Relay
    timer: asyncio.TimerHandle
    replica: Replica


class RemoteResult(msgspec.Struct, frozen=True):
    """Result of a call that has ended at another replica."""

    value: Any


class Relays:
    """Remote calls of one provider. If a stateless client has to respond to a server request, its call is parked."""

    def __init__(self, is_certain: Callable[[], bool] = lambda: True) -> None:
        self._is_certain = is_certain
        self._parked: dict[str, ParkedCall] = {}
        self._resumed: set[Relay] = set()
        """Calls that continue at a request to another replica."""
        self._dropped: deque[tuple[Replica, str]] = deque()
        """Tokens of the calls that were dropped for other clients, oldest first."""
        self._replicas: set[Replica] = set()
        self._ending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._parked) + len(self._resumed)

    async def run(
        self,
        label: str,
        request: Request,
        send: Callable[[Relay], Awaitable[T]],
        *,
        repeatable: bool,
        alone: bool = False,
        kind: type[Result] | None = None,
    ) -> T:
        """Send a remote call, and return its result. ``label`` must be the same each time the request is sent.

        ``kind`` is the type of the result, if there is one. ``alone``: first cancel the parked calls of all other
        clients. This is for servers whose requests do not name the call that caused them: while another client has a
        call in flight, server requests could not be routed. If such a client sends its request again, its call is sent
        again, with the client's responses so far.

        Raises:
            CallLost: the call was parked, is not there any more, and is not ``repeatable``.
            ServerUnavailable: the replica with the call cannot be reached now.
        """
        assert request.contexts is not None
        assert request.call is not None
        assert request.channel is not None
        connection = request.call.connection
        async with request.contexts.open(request, repeatable=repeatable) as context:
            if not request.call.peer.revision.stateless or task_of(request.channel) is not None:
                if alone:
                    await self._drop_others(connection)
                relay = Relay(label, connection, self._is_certain)
                relay.context = context
                try:
                    return await send(relay)
                finally:
                    await relay.cancel()
            replica, name = request.contexts.replica, f"remote call {label}"
            kept = context.kept.pop(name, None)
            place = None if kept is None else msgspec.convert(kept, CallPlace)
            try:
                if place is not None and replica.shared and place.slot != replica.state.slot:
                    found = await self._resume(replica, place, context, kind, repeatable=repeatable)
                    if found is not None:
                        return found.value  # type: ignore[no-any-return]
                    place = None
                parked = None if place is None else self._take(place.token)
                if place is None or parked is None:
                    if place is not None and not repeatable and (replica, place.token) not in self._dropped:
                        raise CallLost(LOST)
                    place = CallPlace(replica.state.slot, os.urandom(16).hex())
                    parked = Relay(label, connection, self._is_certain)
                    parked.alone, parked.work, parked.client = alone, send, request.call.client.key
                result: T = await self._continue(parked, place.token, replica, context, connection)
            except InputRequired:
                context.kept[name] = msgspec.to_builtins(place)
                raise
            return result

    async def _continue(
        self, relay: Relay, token: str, replica: Replica, context: RelayContext, connection: object
    ) -> Any:
        """Return the result of a call that begins or continues, or park it until its client sends its request again."""
        try:
            if relay.alone:
                await self._drop_others(connection)
            relay.connection = connection
            relay.begin()
            return await relay.result(context)
        except InputRequired:
            self._park(token, relay, replica)
            raise
        finally:
            if token not in self._parked:
                await relay.cancel()

    async def _resume(
        self,
        replica: Replica,
        place: CallPlace,
        context: RequestContext,
        kind: type[Result] | None,
        *,
        repeatable: bool,
    ) -> RemoteResult | None:
        """Return the result of a call that another replica has parked, or None if the call may be sent again."""
        from carrel.host.resumed_calls import CallDropped, resume  # few servers have replicas

        try:
            return RemoteResult(await resume(replica, place.slot, place.token, context, kind))
        except CallDropped:
            return None
        except CallLost:
            if repeatable:
                return None
            raise

    async def _serve(self, token: str, connection: MailboxConnection) -> None:
        """Continue a parked call at its client's request to another replica."""
        from carrel.host.call_messages import Parked, SentAgain, failure_of, outcome_of, write_message
        from carrel.host.resumed_calls import ResumedContext

        call = self._parked.get(token)
        relay = self._take(token)
        if call is None or relay is None:
            if any(token == dropped for _, dropped in self._dropped):
                connection.send(write_message(SentAgain()))
            return  # otherwise it has ended, or continues at another request
        context = ResumedContext(connection)
        listening = asyncio.ensure_future(context.listen())
        self._resumed.add(relay)
        message: CallMessage
        try:
            result = await self._continue(relay, token, call.replica, context, connection)
            message = outcome_of(result, relay.missing)
        except InputRequired:
            message = Parked()
        except Exception as error:
            message = failure_of(error)
        finally:
            self._resumed.discard(relay)
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)
        data = write_message(message)
        if len(data) > MAX_MESSAGE:
            data = write_message(failure_of(CallLost(f"The call has ended, but {TOO_LARGE}")))
        connection.send(data)

    async def _drop_others(self, connection: object) -> None:
        for token, call in list(self._parked.items()):
            if call.relay.connection is not connection:
                self._drop(token)
                self._remember_dropped(call.replica, token)
        await asyncio.gather(*self._ending)

    def _remember_dropped(self, replica: Replica, token: str) -> None:
        """Record that a call may be sent again, here and at other replicas."""
        if len(self._dropped) >= MAX_PARKED:
            self._forget_dropped()
        self._dropped.append((replica, token))
        self._offer(replica, token)

    def _forget_dropped(self) -> None:
        replica, token = self._dropped.popleft()
        replica.connections.withdraw(token)

    def _offer(self, replica: Replica, token: str) -> None:
        """Let other replicas continue a call."""
        if replica.shared:
            replica.connections.serve(token, partial(self._serve, token))
            if replica not in self._replicas:
                self._replicas.add(replica)
                replica.on(SlotExpired, self._on_slot_expired)

    def _take(self, token: str) -> Relay | None:
        call = self._parked.pop(token, None)
        if call is None:
            return None
        call.timer.cancel()
        if call.replica.shared:
            call.replica.connections.withdraw(token)
        return call.relay

    def _park(self, token: str, relay: Relay, replica: Replica) -> None:
        if len(self._parked) >= MAX_PARKED:
            self._make_room(relay.client)
        timer = asyncio.get_running_loop().call_later(PARKED_SECONDS, self._drop, token)
        self._parked[token] = ParkedCall(relay, timer, replica)
        relay.park()
        self._offer(replica, token)

    def _make_room(self, client: str) -> None:
        """Drop the oldest call of the client with the most calls, which may be ``client``, whose call comes next."""
        counts = Counter(call.relay.client for call in self._parked.values())
        counts[client] += 1
        [(greatest, _)] = counts.most_common(1)
        self._drop(next(token for token, call in self._parked.items() if call.relay.client == greatest))

    def _drop(self, token: str) -> None:
        relay = self._take(token)
        if relay is not None:
            task = asyncio.ensure_future(relay.cancel())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

    def _on_slot_expired(self, _: SlotExpired) -> None:
        """Cancel the parked calls: other replicas tell their clients that they are lost."""
        for token in list(self._parked):
            self._drop(token)

    async def stop(self) -> None:
        """Cancel all parked calls."""
        for token in list(self._parked):
            self._drop(token)
        while self._dropped:
            self._forget_dropped()
        for replica in self._replicas:
            replica.off(SlotExpired, self._on_slot_expired)
        self._replicas.clear()
        await asyncio.gather(*self._ending, *(relay.cancel() for relay in self._resumed), return_exceptions=True)
