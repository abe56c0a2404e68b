"""Stores of the OAuth proxy: encrypted records by key, with a lifetime, in memory or in files."""

from __future__ import annotations

import asyncio
import os
import secrets
import struct
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from carrel.errors import ConfigError, ServerUnavailable
from carrel.regular_file import replace_file

__all__ = ["ProxyFileStore", "ProxyMemoryStore", "ProxyStore"]

#: Maximum number of records in memory before new logins are rejected. A login has two or three records.
MAX_RECORDS = 100_000

#: Prefix of the key of a login's first record.
LOGIN = "grant-"

#: Seconds between two searches for expired records.
SWEEP = 300.0

EXPIRY = struct.Struct(">d")


class ProxyStore(Protocol):
    """Store for records that all processes of a server share. Values are already encrypted.

    If the store is full, it raises ``ServerUnavailable`` for a new key that begins with ``grant-``, which is a new
    login. It must accept all other records, which belong to earlier logins, or record the end of a login.
    """

    async def get(self, key: str) -> str | None:
        """Return a record, or None."""

    async def put(self, key: str, value: str, ttl: float) -> None:
        """Store a record for ``ttl`` seconds. Replace an existing record with the same key."""

    async def take(self, key: str) -> str | None:
        """Return a record and remove it atomically: only one of several concurrent callers gets it."""

    async def delete(self, key: str) -> None:
        """Remove a record, if it is there."""


class ProxyMemoryStore:
    """Store in the memory of one process: users have to log in again after a restart."""

    def __init__(self) -> None:
        self._records: dict[str, tuple[float, str]] = {}
        self._swept = time.monotonic()

    async def get(self, key: str) -> str | None:
        """Return a record, or None."""
        expires, value = self._records.get(key, (0.0, None))
        return value if expires > time.monotonic() else None

    async def put(self, key: str, value: str, ttl: float) -> None:
        """Store a record for ``ttl`` seconds.

        Raises:
            ServerUnavailable: the record is for a new login, and there are too many records.
        """
        now = time.monotonic()
        full = len(self._records) >= MAX_RECORDS and key.startswith(LOGIN) and key not in self._records
        if full or now > self._swept + SWEEP:
            self._swept = now
            self._records = {name: row for name, row in self._records.items() if row[0] > now}
            if full and len(self._records) >= MAX_RECORDS:
                raise ServerUnavailable("There are too many logins: try again later")
        self._records[key] = (now + ttl, value)

    async def take(self, key: str) -> str | None:
        """Return a record and remove it."""
        value = await self.get(key)
        self._records.pop(key, None)
        return value

    async def delete(self, key: str) -> None:
        """Remove a record, if it is there."""
        self._records.pop(key, None)


class ProxyFileStore:
    """Store in a directory (mode 0700) that processes on one machine share, with one file per record.

    Raises:
        ConfigError: the directory cannot be created.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._directory = Path(directory)
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.name == "posix" and self._directory.stat().st_mode & 0o077:
                self._directory.chmod(0o700)
        except OSError as error:
            raise ConfigError(f"logins cannot be stored in {self._directory}: {error.strerror}") from None
        self._swept = 0.0

    async def get(self, key: str) -> str | None:
        """Return a record, or None."""
        return await asyncio.to_thread(self._read, self._path(key))

    async def put(self, key: str, value: str, ttl: float) -> None:
        """Store a record for ``ttl`` seconds."""
        await asyncio.to_thread(self._write, self._path(key), value, time.time() + ttl)

    async def take(self, key: str) -> str | None:
        """Return a record and remove it atomically, as renaming its file succeeds only once."""
        return await asyncio.to_thread(self._take, self._path(key))

    async def delete(self, key: str) -> None:
        """Remove a record, if it is there."""
        await asyncio.to_thread(self._path(key).unlink, missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._directory / sha256(key.encode()).hexdigest()

    def _read(self, path: Path) -> str | None:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        if len(data) < EXPIRY.size or EXPIRY.unpack_from(data)[0] <= time.time():
            return None
        return data[EXPIRY.size :].decode("ascii", "replace")

    def _take(self, path: Path) -> str | None:
        mine = path.with_suffix(f".{secrets.token_hex(8)}")
        try:
            path.rename(mine)
        except FileNotFoundError:
            return None
        try:
            return self._read(mine)
        finally:
            mine.unlink(missing_ok=True)

    def _write(self, path: Path, value: str, expires: float) -> None:
        replace_file(path, EXPIRY.pack(expires) + value.encode("ascii"), durable=False)
        now = time.time()
        if now > self._swept + SWEEP:
            self._swept = now
            self._sweep(now)

    def _sweep(self, now: float) -> None:
        """Remove the files of expired records."""
        for path in self._directory.iterdir():
            with suppress(OSError, struct.error):
                if path.is_symlink() or not path.is_file():
                    continue
                with path.open("rb") as file:
                    (expires,) = EXPIRY.unpack(file.read(EXPIRY.size))
                if expires <= now:
                    path.unlink(missing_ok=True)
