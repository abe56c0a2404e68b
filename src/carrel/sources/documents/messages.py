"""Messages between a server and the process that reads documents, as MessagePack."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

__all__ = ["Failure", "WorkerRequest", "WorkerResponse"]

Failure: TypeAlias = Literal["damaged", "encrypted", "expands", "memory", "no_page", "missing"]
"""Why a document has no text. ``expands``: it is larger than it may be when it is unpacked."""


class WorkerRequest(msgspec.Struct, array_like=True):
    """Request to the worker for a page of a document (0: the whole text).

    ``key`` identifies the document. Without ``data``, it is the document of the previous request. ``limit`` is the
    maximum number of characters. ``locations`` is true if the facts of images may contain GPS positions.
    """

    key: str
    module: str
    format: str
    unit: str
    data: bytes | None
    page: int
    limit: int
    locations: bool


class WorkerResponse(msgspec.Struct, array_like=True):
    """Text of a page, how many pages the document has, and facts about an image; or the failure.

    ``complete`` is false if the text was truncated at the limit. After the ``last`` response, the process exits.
    """

    text: str = ""
    pages: int = 0
    complete: bool = True
    facts: dict[str, str | int | float] | None = None
    failure: Failure | None = None
    detail: str = ""
    last: bool = False
