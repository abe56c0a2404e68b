"""Scripts of endpoints: the answers to one request after the other, in terms that all vendors have."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias

__all__ = [
    "Answer",
    "Break",
    "CallTool",
    "Decline",
    "Draw",
    "FailInStream",
    "Failure",
    "Hold",
    "Part",
    "Say",
    "Script",
    "Speak",
    "Step",
    "Think",
    "Tokens",
    "pieces",
]

#: Characters of one event of a stream; small, so that most texts and arguments come in several.
PIECE = 7

numbers = count(1)


@dataclass(frozen=True)
class Say:
    """Text of the answer."""

    text: str


@dataclass(frozen=True)
class Think:
    """Reasoning that comes before the answer."""

    text: str


@dataclass(frozen=True)
class CallTool:
    """Tool call. ``arguments`` may be a text that is not JSON, as models write it now and then."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    id: str = field(default_factory=lambda: f"{next(numbers):08d}")

    @property
    def json(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True)
class Draw:
    """Image of the answer."""

    data: bytes
    mime_type: str = "image/png"


@dataclass(frozen=True)
class Speak:
    """Audio of the answer."""

    data: bytes
    mime_type: str = "audio/wav"


@dataclass(frozen=True)
class Decline:
    """Refusal by the model or a filter of the vendor."""

    text: str = "This request is not allowed."


@dataclass(frozen=True)
class Hold:
    """Sends nothing more until the client closes the connection."""


@dataclass(frozen=True)
class Break:
    """Breaks the connection in the middle of the stream."""


@dataclass(frozen=True)
class FailInStream:
    """Error after the stream has begun, with status 200."""

    kind: str = "overloaded_error"
    message: str = "Overloaded"


Part: TypeAlias = Say | Think | CallTool | Draw | Speak | Decline | Hold | Break | FailInStream


@dataclass(frozen=True)
class Tokens:
    """Tokens that an answer reports; ``cached`` are part of ``input``."""

    input: int = 20
    output: int = 10
    cached: int = 0


@dataclass(frozen=True, init=False)
class Answer:
    """Answer of the model. ``stop`` is the vendor's own stop reason, in place of the one that fits the parts."""

    parts: tuple[Part, ...]
    stop: str | None
    tokens: Tokens

    def __init__(self, *parts: Part, stop: str | None = None, tokens: Tokens | None = None) -> None:
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "tokens", tokens or Tokens())

    def has(self, kind: type[Part]) -> bool:
        return any(isinstance(part, kind) for part in self.parts)


@dataclass(frozen=True)
class Failure:
    """Error response. ``retry_after`` is in seconds; ``retry`` is what the SDKs are told to do."""

    status: int
    message: str = "Something went wrong"
    kind: str | None = None
    retry_after: float | None = None
    retry: bool | None = None


Step: TypeAlias = Answer | Failure
#: Steps in order, or a function of the request's body.
Script: TypeAlias = Sequence[Step] | Callable[[dict[str, Any]], Step]


def pieces(text: str) -> Iterator[str]:
    """Give a text in the pieces in which it is streamed."""
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]
