"""Line splitter for byte streams, with bounded memory (newline-delimited JSON)."""

from __future__ import annotations

from typing import Any

__all__ = ["Lines"]

#: Received pieces of a line are merged up to this size, so that many small ones take little more memory than one.
PIECE = 4096


class Lines:
    """Incremental line splitter with bounded memory. ``None`` stands for a line that was too long."""

    __slots__ = ("_pieces", "_size", "_skipping", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._pieces: list[bytes] = []  # joined once: to grow a buffer by each would cost much more
        self._size = 0
        self._skipping = False

    @property
    def skipping(self) -> bool:
        """Whether the current, incomplete line is already too long."""
        return self._skipping

    def feed(self, data: bytes) -> list[bytes | None]:
        """Feed received bytes and return the lines that they complete, without line ends."""
        if b"\n" not in data:
            self._keep(data)
            return []
        lines: list[Any] = data.split(b"\n")
        rest = lines.pop()
        if self._size or self._skipping:
            lines[0] = None if self._skipping else self._join(lines[0])
            self._skipping = False
        if rest:
            self._keep(rest)
        if len(data) > self.limit:
            return [line if line is not None and len(line) <= self.limit else None for line in lines]
        return lines

    def finish(self) -> list[bytes | None]:
        """Return the last line if the stream ended without a line end."""
        lines: list[bytes | None] = [self._join(b"")] if self._size else []
        if self._skipping:
            lines = [None]
            self._skipping = False
        return lines

    def _keep(self, data: bytes) -> None:
        if self._skipping:
            return
        self._size += len(data)
        if self._size > self.limit:
            self._pieces, self._size, self._skipping = [], 0, True
        elif self._pieces and len(self._pieces[-1]) + len(data) <= PIECE:
            self._pieces[-1] += data
        else:
            self._pieces.append(data)

    def _join(self, end: bytes) -> bytes | None:
        pieces, size = self._pieces, self._size + len(end)
        self._pieces, self._size = [], 0
        pieces.append(end)
        return b"".join(pieces) if size <= self.limit else None
