"""Wire formats of a task in 2025-11-25 and in the tasks extension."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec
from msgspec import Raw

from carrel.protocol.encoding import encode
from carrel.state.records import TaskRecord
from carrel.wire.base import Result
from carrel.wire.content import TextContent
from carrel.wire.tasks import DetailedTask, Task

__all__ = ["as_task", "detailed", "first_text", "with_meta"]

#: Milliseconds between two requests of a client for the status of a task.
POLL_INTERVAL = 1000
#: Characters of a failed tool's text that are the status message of its task.
MAX_STATUS_MESSAGE = 1_000


def as_task(record: TaskRecord) -> Task:
    """Return a task in the format of 2025-11-25."""
    return Task(
        task_id=record.id,
        status=record.status,
        status_message=record.message,
        created_at=timestamp(record.created),
        last_updated_at=timestamp(record.updated),
        ttl=record.ttl_ms,
        poll_interval=POLL_INTERVAL,
    )


def detailed(record: TaskRecord) -> DetailedTask:
    """Return a task in the format of the tasks extension."""
    task = DetailedTask(
        task_id=record.id,
        status=record.status,
        status_message=record.message,
        created_at=timestamp(record.created),
        last_updated_at=timestamp(record.updated),
        ttl_ms=record.ttl_ms,
        poll_interval_ms=POLL_INTERVAL,
    )
    if record.status == "input_required":
        task.input_requests = dict(record.input_requests)
    elif record.result is not None and record.status == "completed":
        task.result = Raw(record.result)
    elif record.error is not None and record.status == "failed":
        task.error = record.error
    return task


def with_meta(result: bytes, meta: Mapping[str, object]) -> bytes:
    """Return an encoded result with more in its ``_meta``."""
    members = msgspec.json.decode(result, type=dict[str, Raw])
    known = msgspec.json.decode(members["_meta"], type=dict[str, Raw]) if "_meta" in members else {}
    return encode({**members, "_meta": {**known, **meta}})


def first_text(result: Result) -> str | None:
    """Return the first text of a failed tool's result, cut to the length of a status message."""
    texts = (block.text for block in getattr(result, "content", ()) if isinstance(block, TextContent))
    return next(texts, "")[:MAX_STATUS_MESSAGE] or None


def timestamp(seconds: float) -> str:
    """Return a moment as ISO 8601, in UTC, to the millisecond."""
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int((seconds - whole) * 1000):03d}Z"
