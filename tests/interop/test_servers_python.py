"""``carrel.Client`` with servers of the official Python SDK 1.x and 2.x."""

from __future__ import annotations

from interop.shelf import Changing, CompletingInContext, Newer, Sampling, Shelf, client, over

__all__ = ["client"]

OLDER = "2025-06-18"
HANDSHAKE = "2025-11-25"


@over(("stdio", None), ("http", None), ("http", OLDER))
class TestPythonSDK1(Shelf, Newer, CompletingInContext, Sampling, Changing):
    server = "python_sdk_1"
    newest = HANDSHAKE
    unknown = None


@over(("stdio", None), ("stdio", HANDSHAKE), ("http", None), ("http", HANDSHAKE))
class TestPythonSDK2(Shelf, Newer, CompletingInContext, Sampling, Changing):
    server = "python_sdk_2"
    newest = "2026-07-28"
