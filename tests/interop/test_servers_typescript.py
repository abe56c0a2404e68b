"""``carrel.Client`` with servers of the official TypeScript SDK, 1.x and 2.x."""

from __future__ import annotations

from carrel.errors import PeerError, ResourceNotFound
from interop.shelf import Changing, Completing, CompletingInContext, Newer, Sampling, Shelf, client, over

__all__ = ["client"]

HANDSHAKE = "2025-11-25"


@over(("stdio", None), ("http", None), ("http", "2025-06-18"))
class TestTypeScriptSDK1(Shelf, Newer, CompletingInContext, Sampling, Changing):
    server = "typescript_sdk_1"
    newest = HANDSHAKE
    page = 3
    missing = (ResourceNotFound, PeerError)  # the SDK decides by the data of the error
    unknown = None


@over(("stdio", None), ("stdio", HANDSHAKE), ("http", None))
class TestTypeScriptSDK2(Shelf, Newer, CompletingInContext, Sampling, Changing):
    server = "typescript_sdk_2"
    newest = "2026-07-28"
    page = 3
    missing = (ResourceNotFound, PeerError)  # it says so by the code of 2026-07-28, whatever is spoken


@over(("http", HANDSHAKE))
class TestTypeScriptSDK2WithoutSessions(Shelf, Completing):
    """Over HTTP it takes part in handshakes, but remembers nothing of them: it can neither ask nor tell of changes."""

    server = "typescript_sdk_2"
    newest = "2026-07-28"
    page = 3
    missing = (ResourceNotFound, PeerError)  # the SDK decides by the data of the error
