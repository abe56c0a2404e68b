"""Records of the state that replicas share: structs that can be encoded, without sockets, futures or functions.

A *slot* is the number of a replica. Lifetimes are relative, in seconds, and measured by the clock of the store.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from carrel.protocol.connection import SLOT_SHIFT
from carrel.wire.base import ClientCapabilities, Id, Implementation
from carrel.wire.client_features import InputRequest
from carrel.wire.jsonrpc import ErrorObject
from carrel.wire.tasks import TaskStatus

__all__ = [
    "AnswerLetter",
    "CancelTaskLetter",
    "Changed",
    "ConnectionLetter",
    "FollowLetter",
    "Gap",
    "HearTaskLetter",
    "Letter",
    "LockHolder",
    "Notice",
    "NoticeBatch",
    "Replay",
    "ReplicaGone",
    "RequestCancelled",
    "SessionEnded",
    "SessionMessage",
    "SessionRecord",
    "SlotExpired",
    "SubscriptionChanged",
    "TailLetter",
    "TaskAnswerLetter",
    "TaskChanged",
    "TaskMessageLetter",
    "TaskRecord",
    "WatchLetter",
    "WatchedLetter",
    "slot_of_request",
]


class SessionRecord(msgspec.Struct, frozen=True, gc=False):
    """Session of a client of a revision with a handshake: the content of ``initialize``, and the log level.

    ``owner`` is the id of the principal that opened it, ``client`` the client key for limits.
    """

    revision: str
    owner: str | None = None
    client: str = ""
    info: Implementation | None = None
    capabilities: ClientCapabilities | None = None
    log_level: int | None = None


class Replay(msgspec.Struct, frozen=True):
    """Events of one stream after a given one, oldest first; ``done`` if no event will follow."""

    events: list[tuple[int, bytes]]
    done: bool = False


class LockHolder(msgspec.Struct, frozen=True, array_like=True):
    """Replica that holds a lock. ``since`` is a number that is larger each time that the lock has another holder."""

    slot: int
    since: int


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Task: a call of ``tool`` that continues after its response. ``slot`` is the replica that runs it.

    ``owner`` is the key of the principal or session that may see it; ``created`` and ``updated`` are seconds since
    1970, for display only. ``result`` is the encoded result of the request.
    """

    id: str
    owner: str
    slot: int
    created: float
    updated: float
    ttl_ms: int
    tool: str
    status: TaskStatus = "working"
    message: str | None = None
    input_requests: dict[str, InputRequest] = {}
    result: bytes | None = None
    error: ErrorObject | None = None

    @property
    def over(self) -> bool:
        """Whether the status is terminal."""
        return self.status in ("completed", "failed", "cancelled")


# Notices: messages to all replicas, on the bus


class Changed(msgspec.Struct, frozen=True, tag=True):
    """Resources or lists have changed.

    ``lists`` are the changed entries of lists, by the name of the event; None if the entries are not known. ``entries``
    are the changed entries of directories, by URI. ``provider`` is the name of the provider that a replica watches for
    all, if it has reported the changes.
    """

    uris: list[str] = []
    lists: dict[str, list[str] | None] = {}
    entries: dict[str, list[str]] = {}
    provider: str = ""


class SessionEnded(msgspec.Struct, frozen=True, tag=True):
    """A session has ended: its requests are cancelled, and its streams are closed."""

    session: str


class RequestCancelled(msgspec.Struct, frozen=True, tag=True):
    """The client has cancelled a request of its session, which may run on any replica."""

    session: str
    request: Id


class SubscriptionChanged(msgspec.Struct, frozen=True, tag=True):
    """A session has subscribed to a resource, spelled as the client does, or unsubscribed (None)."""

    session: str
    uri: str
    spelled: str | None


class TaskChanged(msgspec.Struct, frozen=True, tag=True):
    """The record of a task has changed."""

    task: str


class SessionMessage(msgspec.Struct, frozen=True, tag=True):
    """A message to a client that belongs to no request, for a GET stream of its session.

    The replica ``slot`` sends it on its GET streams. With a key, it replaces an unsent message with the same key, and
    the others send it too.
    """

    session: str
    slot: int
    message: bytes
    key: tuple[str, str] | None = None


class ReplicaGone(msgspec.Struct, frozen=True, tag=True):
    """A slot has no replica any more: that has stopped, or has lost its lease."""

    slot: int


Notice: TypeAlias = (
    Changed | SessionEnded | RequestCancelled | SubscriptionChanged | TaskChanged | SessionMessage | ReplicaGone
)


class Gap(msgspec.Struct, frozen=True):
    """Notices after a position were lost before they were read: everything may have changed.

    It is passed to handlers, not stored.
    """

    since: int = 0


class SlotExpired(msgspec.Struct, frozen=True):
    """This replica has lost its slot: others act as if it had stopped (passed to handlers, not stored)."""

    slot: int


class NoticeBatch(msgspec.Struct, frozen=True):
    """Notices after a position of the bus, each with its position. ``gap``: earlier notices have been deleted.

    ``position`` is the last notice's position, from which the next read continues.
    """

    position: int
    notices: list[tuple[int, Notice]]
    gap: bool = False


# Letters: messages to one replica, in its mailbox


class AnswerLetter(msgspec.Struct, frozen=True, tag=True):
    """The client's response to a request from a handler; ``body`` is the message as received."""

    session: str
    body: bytes


class FollowLetter(msgspec.Struct, frozen=True, tag=True):
    """A client resumes a stream of the addressed replica on the replica ``slot``, which wants to know of new events."""

    session: str
    stream: str
    slot: int


class TailLetter(msgspec.Struct, frozen=True, tag=True):
    """The log of a followed stream has new events."""

    session: str
    stream: str


class CancelTaskLetter(msgspec.Struct, frozen=True, tag=True):
    """A task of the addressed replica was cancelled; its record says so already."""

    task: str


class TaskAnswerLetter(msgspec.Struct, frozen=True, tag=True):
    """An answer to an input request of a task of the addressed replica; ``answer`` is JSON."""

    task: str
    key: str
    answer: bytes


class HearTaskLetter(msgspec.Struct, frozen=True, tag=True):
    """A client waits on the replica ``slot`` for the result of a task of the addressed one, or no longer."""

    task: str
    slot: int
    listens: bool = True


class TaskMessageLetter(msgspec.Struct, frozen=True, tag=True):
    """A message of a task to the client that waits on the addressed replica."""

    task: str
    message: bytes


class ConnectionLetter(msgspec.Struct, frozen=True, tag=True):
    """A letter of a connection between two replicas, from the replica ``slot``; see ``carrel.state.connections``.

    ``body`` is a message, or the name of a service. Messages are numbered from 1. A long message is in ``parts``
    records.
    """

    connection: str
    slot: int
    kind: str
    body: bytes = b""
    number: int = 0
    parts: int = 0


class WatchLetter(msgspec.Struct, frozen=True, tag=True):
    """The replica ``slot`` has subscribers to resources of a source that the addressed one watches for all.

    ``added`` are all URIs in the ``first`` letter, and URIs with new subscriptions in later ones.
    """

    watch: str
    slot: int
    added: list[str]
    removed: list[str] = []
    first: bool = False


class WatchedLetter(msgspec.Struct, frozen=True, tag=True):
    """The replica ``slot`` watches a source for the addressed one from now on."""

    watch: str
    slot: int


Letter: TypeAlias = (
    AnswerLetter
    | FollowLetter
    | TailLetter
    | CancelTaskLetter
    | TaskAnswerLetter
    | HearTaskLetter
    | TaskMessageLetter
    | ConnectionLetter
    | WatchLetter
    | WatchedLetter
)


def slot_of_request(id: Id) -> int | None:
    """Return the slot of the replica whose handler waits for the response to a request; None for a foreign id."""
    return id >> SLOT_SHIFT if isinstance(id, int) and id >= 0 else None
