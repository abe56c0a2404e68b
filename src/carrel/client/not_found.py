"""Recognition of "resource not found" among the errors of servers."""

from __future__ import annotations

from carrel.errors import INVALID_PARAMS, PeerError

__all__ = ["is_not_found"]

#: Code of "resource not found" before 2026-07-28.
NOT_FOUND = -32002


def is_not_found(error: PeerError, uri: str) -> bool:
    """Return whether an error means that the resource ``uri`` was not found, in any revision.

    Since 2026-07-28 the code is the code of every invalid parameter. As in the example of the specification, the data
    of "not found" then has the URI and no other member. The official SDKs send and expect the same, in all revisions.

    https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling
    """
    return error.code == NOT_FOUND or (error.code == INVALID_PARAMS and error.data == {"uri": uri})
