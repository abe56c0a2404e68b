"""``carrel.Client`` with servers of older official TypeScript SDKs, whose newest revision is an older one."""

from __future__ import annotations

from interop.shelf import Changing, Completing, Sampling, Shelf, client, over

__all__ = ["client"]


@over(("stdio", None))
class TestNovember2024(Shelf, Completing, Sampling, Changing):
    server = "typescript_sdk_older sdk-2024-11-05"
    newest = "2024-11-05"
    instructions = None  # it had no way to say so


@over(("stdio", None), ("http", None), ("http", "2024-11-05"))
class TestMarch2025(Shelf, Completing, Sampling, Changing):
    server = "typescript_sdk_older sdk-2025-03-26"
    newest = "2025-03-26"


@over(("stdio", None), ("http", None))
class TestJune2025(Shelf, Completing, Sampling, Changing):
    server = "typescript_sdk_older sdk-2025-06-18"
    newest = "2025-06-18"
