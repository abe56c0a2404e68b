"""Facts about a message: its kind, the request or response that belongs to it, and whether its schema allows it."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

__all__ = ["Facts", "Kind"]

Kind: TypeAlias = Literal["request", "response", "notification", "batch", "other"]


class Facts(msgspec.Struct, gc=False):
    """Facts about a message, for the timeline. A response has the ``method`` and ``target`` of its request.

    ``duration`` is in milliseconds, from a request to its response; ``counterpart`` is the number of the other one.
    ``invalid`` has the reasons why the schema of the revision does not allow the message.
    """

    kind: Kind
    method: str | None = None
    id: str | int | None = None
    target: str | None = None
    revision: str | None = None
    counterpart: int | None = None
    duration: float | None = None
    error: str | None = None
    invalid: tuple[str, ...] = ()
