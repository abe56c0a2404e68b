"""Transports of programs: context managers that yield a pair of streams."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias

__all__ = ["ReadStream", "Transport", "TransportStreams", "WriteStream"]

ReadStream: TypeAlias = Any
WriteStream: TypeAlias = Any
TransportStreams: TypeAlias = tuple[Any, Any]


class Transport(AbstractAsyncContextManager[TransportStreams], Protocol):
    """Transport of a client."""
