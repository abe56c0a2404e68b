"""Line splitter for byte streams, with bounded memory (newline-delimited JSON)."""

from __future__ import annotations

from typing import Any

__all__ = ["Lines"]


class Lines:
    """Incremental line splitter with bounded memory. ``None`` stands for a line that was too long."""

    __slots__ = ("_limit", "_rest", "_skipping")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._skipping = False

    @property
    def skipping(self) -> bool:
        """Whether the current, incomplete line is already too long."""
        return self._skipping

    def feed(self, data: bytes) -> list[bytes | None]:
        """Feed received bytes and return the lines that they complete, without line ends."""
        lines: list[Any] = data.split(b"\n")
        rest = lines.pop()
        if lines and (self._rest or self._skipping):
            lines[0] = None if self._skipping else self._join(lines[0])
            self._skipping = False
        if rest and not self._skipping:
            self._rest += rest
            if len(self._rest) > self._limit:
                self._rest.clear()
                self._skipping = True
        if len(data) > self._limit:
            return [line if line is not None and len(line) <= self._limit else None for line in lines]
        return lines

    def finish(self) -> list[bytes | None]:
        """Return the last line if the stream ended without a line end."""
        lines: list[bytes | None] = [self._join(b"")] if self._rest else []
        if self._skipping:
            lines = [None]
            self._skipping = False
        return lines

    def _join(self, end: bytes) -> bytes | None:
        line = bytes(self._rest + end) if len(self._rest) + len(end) <= self._limit else None
        self._rest.clear()
        return line
