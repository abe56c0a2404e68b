"""Hash chain of lines: each line has the hash of itself and of the line before it.

A line ends with ``,"number":N,"hash":"…"}``. The hash is the HMAC-SHA-256, or SHA-256 without a key, of the hash of the
line before and of the line up to its own hash.
"""

from __future__ import annotations

import hashlib
import hmac
import re

__all__ = ["START", "Chain", "split_line"]

#: Hash before the first line.
START = "0" * 64
#: The end of a line of a chain.
END = re.compile(rb',"number":(\d{1,18}),"hash":"([0-9a-f]{64})"\}$')


class Chain:
    """State of a chain: the number and the hash of its last line."""

    def __init__(self, key: bytes = b"", number: int = 0, digest: str = START) -> None:
        self._key = key
        self.number = number
        self.digest = digest

    def hash(self, body: bytes) -> str:
        """Return the hash of the next line, whose text up to its hash is ``body``."""
        data = self.digest.encode() + body
        if self._key:
            return hmac.digest(self._key, data, "sha256").hex()
        return hashlib.sha256(data).hexdigest()

    def add(self, line: bytes) -> bytes:
        """Return a JSON object as the next line, without a line break."""
        self.number += 1
        body = b'%b,"number":%d' % (line[:-1], self.number)
        self.digest = self.hash(body)
        return b'%b,"hash":"%b"}' % (body, self.digest.encode())


def split_line(line: bytes) -> tuple[bytes, int, str] | None:
    """Return the text of a line up to its hash, its number and its hash; None if the line has no number and hash."""
    found = END.search(line)
    if found is None:
        return None
    return line[: found.start(2) - len(b',"hash":"')], int(found[1]), found[2].decode()
