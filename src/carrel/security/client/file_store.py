"""Token store in files that only their user can read: one file per name, replaced atomically."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from carrel.errors import AuthorizationError
from carrel.regular_file import replace_file

__all__ = ["FileStore", "default_directory"]


class Record(msgspec.Struct):
    """Content of a file: the stored text and its name, for a human reader."""

    name: str
    text: str


def default_directory() -> Path:
    """Return the credentials directory in the user's configuration directory."""
    if sys.platform == "win32":
        home = os.environ.get("APPDATA")
        base = Path(home) if home else Path.home() / "AppData" / "Roaming"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        home = os.environ.get("XDG_CONFIG_HOME")
        base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".config"
    return base / "carrel" / "credentials"


class FileStore:
    """Token store in a directory (mode 0700), with one file per name (mode 0600).

    Several processes may use it at the same time: a file is written under a temporary name and then renamed.
    """

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.directory = default_directory() if directory is None else Path(directory)

    async def get(self, name: str) -> str | None:
        """Return the text stored under a name, or None if it is missing or unreadable."""
        return await asyncio.to_thread(self._read, name)

    async def put(self, name: str, text: str) -> None:
        """Store a text under a name.

        Raises:
            AuthorizationError: the file cannot be written.
        """
        try:
            await asyncio.to_thread(self._write, name, text)
        except OSError as error:
            raise AuthorizationError(f"Tokens cannot be stored in {self.directory}: {error.strerror}") from None

    async def delete(self, name: str) -> None:
        """Delete the text stored under a name, if any."""
        with suppress(OSError):
            await asyncio.to_thread(self._path(name).unlink)

    def _path(self, name: str) -> Path:
        return self.directory / f"{sha256(name.encode()).hexdigest()}.json"

    def _read(self, name: str) -> str | None:
        try:
            record = msgspec.json.decode(self._path(name).read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return record.text if record.name == name else None

    def _write(self, name: str, text: str) -> None:
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.directory.stat().st_mode & 0o077 and os.name == "posix":
            self.directory.chmod(0o700)
        replace_file(self._path(name), msgspec.json.encode(Record(name, text)))
