"""Messages between replicas in memory: the bus to all of them, and the mailbox of each."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from itertools import islice
from typing import Protocol

from carrel.state.interfaces import LeaseExpired
from carrel.state.records import (
    AnswerLetter,
    Changed,
    Letter,
    Notice,
    NoticeBatch,
    SessionMessage,
    TaskAnswerLetter,
    TaskMessageLetter,
    WatchLetter,
)

__all__ = ["MAX_NOTICES", "LetterBox", "MemoryBus", "MemoryMailbox"]

#: Number and bytes of notices that the bus keeps (but always the last one).
MAX_NOTICES = 4096
MAX_NOTICE_BYTES = 4 * 1024 * 1024
#: Letters that a mailbox takes, and their bytes: a replica that hangs reads none.
MAX_LETTERS = 10_000
MAX_LETTER_BYTES = 32 * 1024 * 1024


class MemoryBus:
    """Bus in memory. It keeps the last ``size`` notices, or fewer if they are large."""

    def __init__(self, size: int) -> None:
        self.name = secrets.token_hex(4)
        self._size = size
        self._bytes = 0
        self._notices: deque[Notice] = deque()
        self._last = 0
        self._waiting: list[asyncio.Future[None]] = []

    async def publish(self, notice: Notice) -> None:
        """Add a notice."""
        self.add(notice)

    def add(self, notice: Notice) -> None:
        """Add a notice."""
        self._last += 1
        self._notices.append(notice)
        self._bytes += weigh(notice)
        while len(self._notices) > self._size or (self._bytes > MAX_NOTICE_BYTES and len(self._notices) > 1):
            self._bytes -= weigh(self._notices.popleft())
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def position(self) -> int:
        """Return the position after the last notice."""
        return self._last

    async def read(self, after: int) -> NoticeBatch:
        """Return the notices after a position; wait until there are some."""
        while self._last <= after:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        missed = self._last - after
        kept = len(self._notices)
        first = max(0, kept - missed)
        notices = list(enumerate(islice(self._notices, first, None), self._last - kept + first + 1))
        return NoticeBatch(self._last, notices, missed > kept)


def weigh(notice: Notice) -> int:
    """Return the bytes of the texts of a notice."""
    if isinstance(notice, Changed):
        return sum(len(text) for texts in (notice.uris, *notice.lists.values()) for text in texts or ())
    return len(notice.message) if isinstance(notice, SessionMessage) else 0


class LetterBox(asyncio.Queue["Letter | None"]):
    """Letters to a replica; None is after the last letter."""

    bytes = 0
    """Bytes of the letters."""

    def _put(self, item: Letter | None) -> None:
        super()._put(item)
        self.bytes += weigh_letter(item)

    def _get(self) -> Letter | None:
        item = super()._get()
        self.bytes -= weigh_letter(item)
        return item

    @property
    def has_room(self) -> bool:
        """Whether another letter is taken."""
        return self.qsize() < MAX_LETTERS and self.bytes < MAX_LETTER_BYTES


def weigh_letter(letter: Letter | None) -> int:
    """Return the bytes of the message in a letter."""
    if isinstance(letter, AnswerLetter):
        return len(letter.body)
    if isinstance(letter, TaskAnswerLetter):
        return len(letter.answer)
    if isinstance(letter, WatchLetter):
        return sum(map(len, letter.added)) + sum(map(len, letter.removed))
    return len(letter.message) if isinstance(letter, TaskMessageLetter) else 0


class Mailboxes(Protocol):
    """Mailboxes of all replicas, by slot."""

    boxes: dict[int, LetterBox]

    def has_replica(self, slot: int) -> bool:
        """Return whether a running replica has this slot."""


class MemoryMailbox:
    """Mailboxes in memory, as the replica in one slot sees them."""

    def __init__(self, store: Mailboxes, slot: int) -> None:
        self._store = store
        self.slot = slot

    async def put(self, slot: int, letter: Letter) -> bool:
        """Add a letter; return False if no replica has this slot (any more), or it does not read its letters."""
        if not self._store.has_replica(slot) or not self._store.boxes[slot].has_room:
            return False
        self._store.boxes[slot].put_nowait(letter)
        return True

    async def take(self) -> list[Letter]:
        """Return and remove the letters to this replica, oldest first; wait until there are some."""
        if not self._store.has_replica(self.slot):
            raise LeaseExpired(f"The lease of slot {self.slot} was not renewed in time")
        box = self._store.boxes[self.slot]
        letters = [await box.get()]
        while not box.empty():
            letters.append(box.get_nowait())
        if letters[-1] is None:
            raise LeaseExpired(f"The lease of slot {self.slot} was not renewed in time")
        return [letter for letter in letters if letter is not None]
