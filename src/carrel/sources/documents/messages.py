"""Messages between a server and the process that reads documents: length, then MessagePack."""

from __future__ import annotations

from typing import IO, Literal, TypeAlias

import msgspec

__all__ = ["Answer", "Crashed", "Failure", "Question", "TookTooLong", "receive", "send"]

Failure: TypeAlias = Literal["damaged", "encrypted", "expands", "memory", "no_page", "missing"]
"""Why a document has no text. ``expands``: it is larger than it may be when it is unpacked."""


class TookTooLong(Exception):
    """The document takes more time than it may."""


class Crashed(Exception):
    """The process ended: it needed more memory than it may have, or a parser failed badly."""


class Question(msgspec.Struct, array_like=True):
    """Page of a document that is wanted (0: the whole text).

    ``key`` identifies the document; without ``data``, it is the one of the question before. ``limit`` is how many
    characters are wanted at most; ``locations`` whether images may tell where they were taken.
    """

    key: str
    module: str
    format: str
    unit: str
    data: bytes | None
    page: int
    limit: int
    locations: bool


class Answer(msgspec.Struct, array_like=True):
    """Text of a page, how many pages the document has, and facts about an image; or the failure.

    ``complete`` is false where the text has been cut at the limit. After the ``last`` one the process ends.
    """

    text: str = ""
    pages: int = 0
    complete: bool = True
    facts: dict[str, str | int | float] | None = None
    failure: Failure | None = None
    detail: str = ""
    last: bool = False


def send(file: IO[bytes], message: msgspec.Struct) -> None:
    """Write a message.

    Raises:
        OSError: the other side is gone.
    """
    data = msgspec.msgpack.encode(message)
    file.write(len(data).to_bytes(4, "big"))
    file.write(data)
    file.flush()


def receive(file: IO[bytes]) -> bytes | None:
    """Read a message that is still encoded; None at the end.

    Raises:
        OSError: the other side is gone.
    """
    head = file.read(4)
    size = int.from_bytes(head, "big")
    data = file.read(size) if len(head) == 4 else b""
    return data if len(head) == 4 and len(data) == size else None
