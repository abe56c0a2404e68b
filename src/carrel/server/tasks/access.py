"""Access to tasks: a caller may see the tasks of its principal or, without a principal, of its session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carrel.errors import MissingCapability
from carrel.protocol.extensions.tasks import TASKS
from carrel.state.records import TaskRecord

if TYPE_CHECKING:
    from carrel.protocol.server import Call

__all__ = ["is_permitted", "may_see", "owner_of", "require_extension"]


def owner_of(call: Call, slot: int) -> str:
    """Return the key of the owner of a call's tasks: its principal, session, or connection to ``slot``."""
    if call.principal is not None:
        return f"principal {call.principal.id}"
    session = call.client.session_id
    return f"session {session}" if session else f"connection {slot} {id(call.connection)}"


def may_see(call: Call, record: TaskRecord, slot: int) -> bool:
    """Return whether a task belongs to the caller, who may still use its tool.

    A stateless client without a principal is identified only by the task id, which cannot be guessed.
    """
    if not is_permitted(call, record):
        return False
    if record.owner == owner_of(call, slot):
        return True
    return call.principal is None and call.peer.revision.stateless and not record.owner.startswith("principal ")


def is_permitted(call: Call, record: TaskRecord) -> bool:
    """Return whether the access gate still lets the caller use the tool of a task."""
    return call.view is None or call.view.allows("call", record.tool)


def require_extension(call: Call) -> None:
    """Check that the client of a call declared the tasks extension.

    Raises:
        MissingCapability: it did not.
    """
    if call.peer.settings(TASKS.name) is None:
        raise MissingCapability({"extensions": {TASKS.name: {}}})
