"""Line splitter for byte streams, with bounded memory (newline-delimited JSON)."""

from __future__ import annotations

from typing import Any

from carrel.protocol.encoding import LF

__all__ = ["Lines"]

#: Received pieces of a line are merged up to this size, so that many small ones take little more memory than one.
PIECE = 4096


#: How many bytes of the beginning and of the end of a line that is too long are kept.
ENDS = 200


class Lines:
    """Incremental line splitter with bounded memory. ``None`` stands for a line that was too long.

    With ``keep_ends``, ``ends`` has the beginning and the end of each line that was too long, in order.
    """

    __slots__ = ("_head", "_keep_ends", "_pieces", "_size", "_skipping", "_tail", "ends", "limit", "skipped")

    def __init__(self, limit: int, *, keep_ends: bool = False) -> None:
        self.limit = limit
        self.ends: list[tuple[bytes, bytes]] = []
        self.skipped = 0
        """Number of bytes of the current line that were skipped."""
        self._keep_ends = keep_ends
        self._head = self._tail = b""
        self._pieces: list[bytes] = []  # joined once: to grow a buffer by each would cost much more
        self._size = 0
        self._skipping = False

    @property
    def skipping(self) -> bool:
        """Whether the current, incomplete line is already too long."""
        return self._skipping

    @property
    def head(self) -> bytes:
        """The beginning of the current, incomplete line, if it is too long."""
        return self._head

    def feed(self, data: bytes) -> list[bytes | None]:
        """Feed received bytes and return the lines that they complete, without line ends."""
        if LF not in data:
            self._keep(data)
            return []
        lines: list[Any] = data.split(b"\n")
        rest = lines.pop()
        if self._size or self._skipping:
            lines[0] = self._end_skipping(lines[0]) if self._skipping else self._join(lines[0])
        if rest:
            self._keep(rest)
        if len(data) > self.limit:
            return [line if line is None or len(line) <= self.limit else self._note(line, line) for line in lines]
        return lines

    def finish(self) -> list[bytes | None]:
        """Return the last line if the stream ended without a line end."""
        lines: list[bytes | None] = [self._join(b"")] if self._size else []
        if self._skipping:
            lines = [self._end_skipping(b"")]
        return lines

    def _keep(self, data: bytes) -> None:
        if self._skipping:
            self.skipped += len(data)
            self._tail = (self._tail + data[-ENDS:])[-ENDS:]
            return
        self._size += len(data)
        if self._size > self.limit:
            self._head, self._tail, self.skipped = (*self._pieces, data)[0][:ENDS], data[-ENDS:], self._size
            self._pieces, self._size, self._skipping = [], 0, True
        elif self._pieces and len(self._pieces[-1]) + len(data) <= PIECE:
            self._pieces[-1] += data
        else:
            self._pieces.append(data)

    def _join(self, end: bytes) -> bytes | None:
        pieces, size = self._pieces, self._size + len(end)
        self._pieces, self._size = [], 0
        pieces.append(end)
        if size > self.limit:
            return self._note(pieces[0] or end, (pieces[-2] if len(pieces) > 1 else b"") + end)
        return b"".join(pieces)

    def _end_skipping(self, end: bytes) -> bytes | None:
        head, tail = self._head, self._tail + end
        self._skipping, self._head, self._tail, self.skipped = False, b"", b"", 0
        return self._note(head, tail)

    def _note(self, head: bytes, tail: bytes) -> bytes | None:
        """Store the ends of a line that was too long if ``keep_ends``, and return the placeholder for the line."""
        if self._keep_ends:
            self.ends.append((head[:ENDS], tail[-ENDS:]))
        return None
