"""Folder of an index on disk, private to the user, with a lock for the one process that writes it.

Sources of folders exclude it by its name, so it may be inside a shared folder.
"""

# Importing pathlib takes a few milliseconds.
# ruff: noqa: PTH117, PTH116, PTH100, PTH103, PTH111, PTH118, PTH101

from __future__ import annotations

import hashlib
import os
import shutil
import sys

from carrel.errors import ConfigError
from carrel.sources.folder.selection import INDEX_FOLDER

__all__ = ["IndexFolder", "cache_folder"]


def cache_folder() -> str:
    """Return the folder for caches of the user."""
    if sys.platform == "win32":
        return os.environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local")
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches")
    given = os.environ.get("XDG_CACHE_HOME", "")
    return given if os.path.isabs(given) else os.path.expanduser("~/.cache")


class IndexFolder:
    """Folder of the index for ``key``, which identifies the shared resources. Only the current user may read it.

    Raises:
        ConfigError: the folder cannot be created, or belongs to another user.
    """

    def __init__(self, folder: str | None, key: str) -> None:
        parent = os.path.abspath(os.path.expanduser(folder or os.path.join(cache_folder(), "carrel", "search")))
        name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        self.path = os.path.join(parent, INDEX_FOLDER + name)
        """The folder."""
        try:
            os.makedirs(parent, mode=0o700, exist_ok=True)
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            if sys.platform != "win32":
                if os.stat(self.path).st_uid != os.getuid():
                    raise ConfigError(f"The folder of the search index, {self.path}, belongs to another user")
                os.chmod(self.path, 0o700)
        except OSError as error:
            raise ConfigError(
                f"The search index cannot be kept in {self.path}: {error.strerror or error}; see the option folder"
            ) from error
        self._lock: int | None = None

    @property
    def manifest(self) -> str:
        """Path of the manifest: the list of the indexed resources."""
        return os.path.join(self.path, "manifest.sqlite")

    def identity(self) -> tuple[int, int]:
        """Return the device and inode of the manifest, which change if it is replaced; zeros if it does not exist."""
        try:
            info = os.stat(self.manifest)
        except FileNotFoundError:
            return 0, 0
        return info.st_dev, info.st_ino

    @property
    def terms(self) -> str:
        """Path of the folder of the index of terms."""
        path = os.path.join(self.path, "terms")
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def lock(self) -> bool:
        """Take the lock, and return whether it was free."""
        if self._lock is not None:
            return True
        file = os.open(os.path.join(self.path, "lock"), os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return False
        self._lock = file
        return True

    def unlock(self) -> None:
        """Release the lock."""
        file, self._lock = self._lock, None
        if file is not None:
            os.close(file)

    def clear(self) -> None:
        """Delete the index. The caller must hold the lock."""
        shutil.rmtree(os.path.join(self.path, "terms"), ignore_errors=True)
        for name in ("manifest.sqlite", "manifest.sqlite-wal", "manifest.sqlite-shm"):
            try:
                os.unlink(os.path.join(self.path, name))  # noqa: PTH108
            except FileNotFoundError:
                pass

    def restrict(self) -> None:
        """Make the files readable only by the current user, independent of the umask."""
        if sys.platform == "win32":
            return
        for folder in (self.path, os.path.join(self.path, "terms")):
            for entry in os.scandir(folder):
                try:
                    if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mode & 0o077:
                        os.chmod(entry.path, 0o600)
                except FileNotFoundError:  # merged away meanwhile
                    pass

    def size(self) -> int:
        """Return the bytes that the index has on the disk."""
        total = 0
        for folder in (self.path, os.path.join(self.path, "terms")):
            with os.scandir(folder) as entries:
                total += sum(entry.stat(follow_symlinks=False).st_size for entry in entries if entry.is_file())
        return total
