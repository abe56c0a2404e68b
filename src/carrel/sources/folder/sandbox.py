"""Sandboxed file access: opens only paths under a root, safe against path traversal and symlink escapes.

A path is walked one name at a time, each looked up in the directory opened before it (``openat`` with ``O_NOFOLLOW``):
even if files are renamed or replaced meanwhile, the opened file is in the root. Symbolic links are resolved here, not
by the system: a link that stays in the root is walked again from the root, so that it opens nothing that could not be
opened without it; a link that leaves is rejected, or followed if ``follow_links`` is set. Only regular files and
directories are opened: no pipes, sockets or devices.

Where the platform cannot look up names in an open directory (Windows), the same walk goes by path. It rejects the same
links and names, but a process that can write in the root could replace a directory between two steps.
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH115, PTH116, PTH117, PTH118, PTH119, PTH120, PTH206

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Generator
from typing import Protocol

from carrel.sources.folder.position import Parts
from carrel.sources.folder.work import Work

__all__ = ["MAX_DEPTH", "Costly", "Excluded", "Guard", "OpenDirectory", "OpenNode", "SandboxRoot"]

MAX_DEPTH = 128
MAX_LINKS = 40
MAX_PATH = 4096  # bytes: the system's limit for paths opened in one step (PATH_MAX)

# Work, in microseconds
LOOKUP = 5.0  # to look up a name
ENTER = 15.0  # to open a directory
MOST = 25_000.0  # to open one path

HAS_HANDLES = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW") and os.scandir in os.supports_fd
SPELLS_LOOSELY = sys.platform in ("darwin", "win32")
FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)
FILE |= getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
PASSAGE = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
JUNCTION = 0xA0000003


class Excluded(PermissionError):
    """The path is not shared, whether or not it exists."""


class Costly(Excluded):
    """Deciding whether the path is shared takes too long: there are too many links or patterns on the way."""


class OpenDirectory(Protocol):
    """A directory in which names are looked up."""

    def stat(self, name: str, *, follow: bool = False) -> os.stat_result: ...
    def open(self, name: str, *, follow: bool = False) -> int: ...
    def enter(self, name: str, *, follow: bool = False) -> OpenDirectory: ...
    def read_link(self, name: str) -> str: ...
    def scan(self) -> Generator[os.DirEntry[str], None, None]: ...
    def status(self) -> os.stat_result: ...
    def close(self) -> None: ...


class Guard(Protocol):
    """Access check on the way down from the root: decides which files are shared."""

    def enter(self, handle: OpenDirectory, parts: Parts) -> None:
        """Record that the walk has entered a directory.

        Raises:
            Excluded: the contents of the directory are not shared.
            OSError: the rules of the directory cannot be read.
        """

    def admits(self, name: str, is_directory: bool) -> bool:
        """Return whether a name in the current directory is shared."""

    def admits_link(self, name: str) -> bool:
        """Return whether a link in the current directory is shared, provided that its target is."""


class OpenNode:
    """An open file or directory, to be closed by the caller."""

    __slots__ = ("descriptor", "guard", "handle", "info", "outside", "parts")

    def __init__(
        self,
        parts: Parts,
        info: os.stat_result,
        guard: Guard,
        descriptor: int,
        handle: OpenDirectory | None,
        outside: bool,
    ) -> None:
        self.parts = parts
        """Its path after links are resolved."""
        self.info = info
        self.guard = guard
        self.descriptor = descriptor
        self.handle = handle
        """Set for a directory."""
        self.outside = outside
        """Whether a link led out of the root on the way."""

    def close(self) -> None:
        if self.handle is not None:
            self.handle.close()
        elif self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> OpenNode:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WalkStep:
    """The one directory that a walk holds open: closed when the walk moves on, and at its end unless taken."""

    __slots__ = ("handle",)

    def __init__(self, handle: OpenDirectory) -> None:
        self.handle = handle

    def move(self, handle: OpenDirectory) -> None:
        self.handle.close()
        self.handle = handle

    def take(self) -> OpenDirectory:
        handle, self.handle = self.handle, CLOSED
        return handle

    def __enter__(self) -> WalkStep:
        return self

    def __exit__(self, *_: object) -> None:
        self.handle.close()


class DirectoryHandle:
    """A directory by its file descriptor: lookups stay valid if it is moved or renamed."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def stat(self, name: str, *, follow: bool = False) -> os.stat_result:
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=follow)

    def open(self, name: str, *, follow: bool = False) -> int:
        return os.open(name, FILE if follow else FILE | NO_FOLLOW, dir_fd=self.descriptor)

    def enter(self, name: str, *, follow: bool = False) -> OpenDirectory:
        return DirectoryHandle(os.open(name, PASSAGE if follow else PASSAGE | NO_FOLLOW, dir_fd=self.descriptor))

    def read_link(self, name: str) -> str:
        return os.readlink(name, dir_fd=self.descriptor)

    def scan(self) -> Generator[os.DirEntry[str], None, None]:
        # The descriptor may be good for lookups only, not for reading (O_PATH).
        descriptor = os.open(".", DIRECTORY, dir_fd=self.descriptor)
        try:
            with os.scandir(descriptor) as entries:
                yield from entries
        finally:
            os.close(descriptor)

    def status(self) -> os.stat_result:
        return os.fstat(self.descriptor)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class DirectoryPath:
    """A directory by its path, for platforms without lookups relative to a descriptor."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def stat(self, name: str, *, follow: bool = False) -> os.stat_result:
        return os.stat(os.path.join(self.path, name), follow_symlinks=follow)

    def open(self, name: str, *, follow: bool = False) -> int:
        return os.open(os.path.join(self.path, name), FILE if follow else FILE | NO_FOLLOW)

    def enter(self, name: str, *, follow: bool = False) -> OpenDirectory:
        return DirectoryPath(os.path.join(self.path, name))

    def read_link(self, name: str) -> str:
        return os.readlink(os.path.join(self.path, name)).removeprefix("\\\\?\\")

    def scan(self) -> Generator[os.DirEntry[str], None, None]:
        with os.scandir(self.path) as entries:
            yield from entries

    def status(self) -> os.stat_result:
        return os.stat(self.path)

    def close(self) -> None:
        pass


CLOSED: OpenDirectory = DirectoryHandle(-1)


class SandboxRoot:
    """A shared folder, or one file, and the paths in it.

    ``path`` is absolute, and may be a link itself. With ``follow_links``, links that lead out of the root are followed.
    """

    def __init__(self, path: str, *, follow_links: bool = False, handles: bool = HAS_HANDLES) -> None:
        self.path = path
        self.follows = follow_links
        self._handles = handles

    def open(self, parts: Parts, make_guard: Callable[[], Guard], work: Work | None = None) -> OpenNode:
        """Open a path for reading. The guard must admit both the requested path and the targets of links on it.

        Raises:
            Costly: it takes too much work. The cost is added to ``work``, whose own limit does not apply here.
            Excluded: the guard rejects it, or a link leaves the root.
            OSError: it does not exist, may not be read, or is neither a file nor a directory.
        """
        work = work or Work()
        most = work.spent + MOST
        for _ in range(MAX_LINKS):
            if len(parts) > MAX_DEPTH or sum(map(len, parts)) + len(parts) > MAX_PATH:
                raise OSError(errno.ENAMETOOLONG, "too deep")
            found = self._walk(parts, make_guard(), work, most)
            if isinstance(found, OpenNode):
                return found
            parts = found
        raise OSError(errno.ELOOP, "too many links")

    def open_in(self, directory: OpenNode, name: str) -> OpenNode | None:
        """Open a file in an open directory; None if it has to be looked up from the root, as it may be a link.

        Raises:
            Excluded: the guard of the directory rejects it.
            OSError: it does not exist, may not be read, or is no file.
        """
        handle, guard = directory.handle, directory.guard
        if handle is None or directory.outside or name == "..":
            return None
        info = handle.stat(name)
        if is_link(info) or stat.S_ISDIR(info.st_mode):
            return None
        if not guard.admits(name, False):
            raise Excluded(errno.EACCES, "not shared")
        return self._open_file(handle, name, (*directory.parts, name), info, guard, False)

    def _walk(self, parts: Parts, guard: Guard, work: Work, most: float) -> OpenNode | Parts:
        """Open a path, or return the path to continue with if there is a link on it."""
        work.spent += ENTER
        if not parts:
            return self._open_top(guard)
        outside = False
        passed: set[tuple[int, int]] = set()
        with WalkStep(self._top()) as step:
            self._note(step.handle, passed, outside)
            guard.enter(step.handle, ())
            for index, name in enumerate(parts, 1):
                if name == "..":  # from a link; the path before it contains no link, so this is its parent
                    return self._climb(parts[: index - 1], parts[index:])
                work.spent += LOOKUP
                if work.spent > most:
                    raise Costly(errno.EACCES, "takes too long to find")
                info = step.handle.stat(name, follow=outside)
                if is_link(info):
                    if not guard.admits_link(name):
                        raise Excluded(errno.EACCES, "not shared")
                    target = self._resolve(step.handle.read_link(name), parts[: index - 1], parts[index:])
                    if target is not None:
                        return target
                    if not self.follows:
                        raise Excluded(errno.EACCES, "a link that leaves the root")
                    outside = True
                    info = step.handle.stat(name, follow=True)
                is_directory = stat.S_ISDIR(info.st_mode)
                if not guard.admits(name, is_directory):
                    raise Excluded(errno.EACCES, "not shared")
                if is_directory:
                    work.spent += ENTER
                    step.move(step.handle.enter(name, follow=outside))
                    self._note(step.handle, passed, outside)
                    guard.enter(step.handle, parts[:index])
                elif index < len(parts):
                    raise NotADirectoryError(errno.ENOTDIR, "not a directory")
                else:
                    return self._open_file(step.handle, name, parts, info, guard, outside)
            if SPELLS_LOOSELY and not outside:
                check_spelling(real_path(step.handle, "."), parts)
            return OpenNode(parts, step.handle.status(), guard, -1, step.take(), outside)

    def _note(self, handle: OpenDirectory, passed: set[tuple[int, int]], outside: bool) -> None:
        """Record a visited directory; outside of the root, refuse to visit one again (a link loop)."""
        if self.follows:
            info = handle.status()
            identity = info.st_dev, info.st_ino
            if outside and identity in passed:
                raise OSError(errno.ELOOP, "a link that leads back")
            passed.add(identity)

    def _top(self) -> OpenDirectory:
        return DirectoryHandle(os.open(self.path, PASSAGE)) if self._handles else DirectoryPath(self.path)

    def _open_top(self, guard: Guard) -> OpenNode:
        info = os.stat(self.path)
        if stat.S_ISDIR(info.st_mode):
            with WalkStep(self._top()) as step:
                guard.enter(step.handle, ())
                return OpenNode((), step.handle.status(), guard, -1, step.take(), False)
        parent = DirectoryPath(os.path.dirname(self.path))
        return self._open_file(parent, os.path.basename(self.path), (), info, guard, True)

    def _open_file(
        self, handle: OpenDirectory, name: str, parts: Parts, info: os.stat_result, guard: Guard, follow: bool
    ) -> OpenNode:
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.ENXIO, "neither a file nor a directory")
        descriptor = handle.open(name, follow=follow)
        try:
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):  # replaced since
                raise OSError(errno.ENXIO, "neither a file nor a directory")
            if SPELLS_LOOSELY and not follow:
                check_spelling(real_path(handle, name, descriptor), parts)
        except BaseException:
            os.close(descriptor)
            raise
        return OpenNode(parts, info, guard, descriptor, None, follow)

    def _climb(self, base: Parts, remaining: Parts) -> Parts:
        if base:
            return base[:-1] + remaining
        target = self._resolve(os.path.join("..", *remaining), (), ())
        if target is None:
            raise Excluded(errno.EACCES, "a link that leaves the root")
        return target

    def _resolve(self, target: str, base: Parts, remaining: Parts) -> Parts | None:
        """Return the target of a link in ``base``, followed by ``remaining``, or None if it is outside of the root."""
        names = [name for name in target.replace(os.altsep or os.sep, os.sep).split(os.sep) if name not in ("", ".")]
        climbs = 0
        while climbs < len(names) and names[climbs] == "..":
            climbs += 1
        if not os.path.isabs(target) and climbs <= len(base):
            return (*base, *names, *remaining)
        real = os.path.realpath(self.path)
        absolute = os.path.normpath(os.path.join(real, *base, target))
        for top in (real, self.path):
            inside = relative_to(absolute, top)
            if inside is not None:
                return inside + remaining
        return None


def relative_to(path: str, top: str) -> Parts | None:
    """Return the names that lead from ``top`` to ``path``, or None if it is not inside. Both are normalized paths."""
    if path == top:
        return ()
    prefix = top if top.endswith(os.sep) else top + os.sep
    return tuple(path[len(prefix) :].split(os.sep)) if path.startswith(prefix) else None


def is_link(info: os.stat_result) -> bool:
    return stat.S_ISLNK(info.st_mode) or getattr(info, "st_reparse_tag", 0) == JUNCTION


def check_spelling(path: str, parts: Parts) -> None:
    """Reject names that are spelled differently from the names in ``path``, the real path that was opened.

    A case-insensitive file system (``.ENV`` for ``.env``) would otherwise open a file that the guard rejects by its
    real name.
    """
    if tuple(path.split(os.sep))[-len(parts) :] != parts:
        raise FileNotFoundError(errno.ENOENT, "spelled differently")


def real_path(handle: OpenDirectory, name: str, descriptor: int | None = None) -> str:
    """Return the path of an entry of an open directory, as the file system spells it."""
    if isinstance(handle, DirectoryHandle):
        import fcntl  # not on Windows, where there are no handles

        of = handle.descriptor if descriptor is None else descriptor
        path = fcntl.fcntl(of, getattr(fcntl, "F_GETPATH", 50), bytes(1024))
        return os.fsdecode(path.rstrip(b"\0"))
    assert isinstance(handle, DirectoryPath)
    return os.path.realpath(os.path.join(handle.path, name))
