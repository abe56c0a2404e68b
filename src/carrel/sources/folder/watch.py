"""File system watcher: turns events into batches of resource changes.

One thread for each watch waits for events (inotify, FSEvents, ReadDirectoryChangesW, through watchfiles) and scans the
paths in the events. On Linux each shared directory has a separate watch: directories that are not shared have no cost,
and links are not followed. Polling is used only for file systems without change events (network shares), if the system
is out of watches, or if WATCHFILES_FORCE_POLLING is set.
"""

# Importing pathlib takes a few milliseconds of the start.
# ruff: noqa: PTH113, PTH112, PTH118, PTH120, PTH123

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Collection
from time import time_ns
from typing import TYPE_CHECKING, TypeAlias

from carrel.catalog.provider import Change
from carrel.errors import ConfigError
from carrel.log import Log
from carrel.sources.folder.position import Parts
from carrel.sources.folder.sandbox import relative_to
from carrel.sources.folder.selection import IGNORE_FILE
from carrel.sources.folder.snapshot import PathChanges, Snapshot
from carrel.sources.folder.tree import Tree
from carrel.sources.packages import needed

if TYPE_CHECKING:
    from watchfiles._rust_notify import RustNotify

__all__ = ["FolderWatch"]

log = Log("carrel.sources")

STEP = 40  # milliseconds without events that end a batch
LONGEST = 400  # milliseconds after which a batch ends at the latest
GRACE = 120  # milliseconds to wait for a removed file to come back
POLL = 800  # milliseconds between polls, where polling is needed
FOREVER = 0
PAUSE = 0.2  # seconds before watching again after events were lost
SLACK = 1_000_000_000  # nanoseconds by which clocks of file systems lag behind

CREATED, REMOVED = 1, 3

# inotify watches single directories; elsewhere the system watches whole trees, and does not follow links.
RECURSIVE = not sys.platform.startswith("linux")

# File systems that change without local events: network file systems, and shared folders of virtual machines.
SILENT = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "coda", "glusterfs", "lustre", "ncpfs"}
)
SILENT |= {"drvfs", "prl_fs", "vboxsf", "vmhgfs", "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs"}
SILENT |= {"fuse.sshfs", "fuse.vmhgfs-fuse"}

Raw: TypeAlias = set[tuple[int, str]]


class FolderWatch:
    """Changes in a tree, as an asynchronous iterator of batches. The first one is empty, sent once it is watching."""

    def __init__(self, tree: Tree, path: str, uri: Callable[[Parts], str], *, is_file: bool) -> None:
        self._observer = WatchThread(tree, path, is_file=is_file)
        self._uri = uri
        self._batches: asyncio.Queue[Collection[Change] | BaseException | None] = asyncio.Queue()
        self._taken = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._ended = asyncio.Event()

    def __aiter__(self) -> FolderWatch:
        return self

    async def __anext__(self) -> Collection[Change]:
        if self._thread is None:
            # A dedicated thread, for it blocks as long as the watch lasts; a daemon, for exit need not wait for it.
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._observe, args=(loop,), name="carrel-watch", daemon=True)
            self._thread.start()
        batch = await self._batches.get()
        if batch is None:
            self._batches.put_nowait(None)
            raise StopAsyncIteration
        if isinstance(batch, BaseException):
            raise batch
        self._taken.release()
        return batch

    async def aclose(self) -> None:
        """End the watch, and wait until it has released its resources."""
        self._observer.stopping.set()
        self._taken.release()
        if self._thread is None:
            self._batches.put_nowait(None)
        else:
            await self._ended.wait()
            self._thread.join()  # it has nothing left to send, and is about to exit

    def _observe(self, loop: asyncio.AbstractEventLoop) -> None:
        def call_soon(function: Callable[..., None], *arguments: object) -> None:
            try:
                loop.call_soon_threadsafe(function, *arguments)
            except RuntimeError:
                self._observer.stopping.set()  # the event loop is closed

        try:
            self._observer.begin()
            call_soon(self._batches.put_nowait, ())
            while (changes := self._observer.wait()) is not None:
                # Until a batch is taken the next one grows where the events are collected, each path once.
                self._taken.acquire()
                if not self._observer.stopping.is_set():
                    call_soon(self._batches.put_nowait, self._changes_of(changes))
        except Exception as error:
            call_soon(self._batches.put_nowait, error)
        finally:
            self._observer.end()
            call_soon(self._batches.put_nowait, None)
            call_soon(self._ended.set)

    def _changes_of(self, changes: PathChanges) -> list[Change]:
        entries = {directory: tuple(map(self._uri, inside)) for directory, inside in changes.inside.items()}
        return [
            Change(kind, self._uri(parts), entries.get(parts, ()) if kind == "changed" else ())
            for parts, kind in changes.items()
        ]


class WatchThread:
    """The blocking side of a watch, which waits for events in its own thread."""

    def __init__(self, tree: Tree, path: str, *, is_file: bool) -> None:
        self.stopping = threading.Event()
        self._snapshot = Snapshot(tree, self.stopping.is_set)
        self._path = path
        self._is_file = is_file
        self._exists = False  # whether the root does, if it is one file
        self._notify: RustNotify | None = None
        self._watched: set[str] = set()
        self._left: Raw = set()  # events left over from the previous watcher
        self._overflowed = False  # whether events were lost
        self._real = path
        self._settled = -1  # the version of the snapshot that is being watched
        self._polling = must_poll(path)
        self._heard = 0  # when events were last collected, in nanoseconds since 1970

    def begin(self) -> None:
        """Start watching, and make the first scan.

        Raises:
            ConfigError: watchfiles is not installed, or the system does not allow watching.
        """
        self._look((), PathChanges())
        self._settle(PathChanges())
        self._heard = time_ns()

    def wait(self) -> PathChanges | None:
        """Wait for changes, and return them; None when the watch is stopped."""
        while not self.stopping.is_set():
            changes = PathChanges()
            raw = self._collect()
            if raw is None:
                self._recover(changes)
            elif raw:
                self._heard = time_ns()
                self._evaluate(raw, changes)
            if changes:
                return changes
        return None

    def end(self) -> None:
        """Close the watcher, and clear the snapshot."""
        if self._notify is not None:
            self._notify.close()
            self._notify = None
        self._snapshot.known.clear()

    def _collect(self) -> Raw | None:
        """Wait for raw events, and return them; None if events were lost."""
        if self._overflowed or self._notify is None:
            return None
        raw, self._left = self._left, set()
        try:
            more = self._notify.watch(LONGEST, STEP, STEP if raw else FOREVER, self.stopping)
            if isinstance(more, set):
                raw |= more
            if any(kind == REMOVED for kind, _ in raw) and not self.stopping.is_set():
                # An editor may save a file by removing it before it puts another in its place.
                more = self._notify.watch(GRACE, STEP, GRACE, self.stopping)
                if isinstance(more, set):
                    raw |= more
        except RuntimeError as error:  # a name that is not UTF-8 is one cause, and makes this watch useless
            log.debug("listening for changes begins anew: %s", error)
            return None
        return raw

    def _recover(self, changes: PathChanges) -> None:
        """Restart watching, and scan for changes that were missed."""
        since = self._heard - SLACK
        self.stopping.wait(PAUSE)
        self._overflowed = False
        self._settle(changes, anew=True)
        self._heard = time_ns()
        if self._is_file:
            self._look((), changes)
        else:
            self._snapshot.look_for_writes(since, changes)

    def _evaluate(self, raw: Raw, changes: PathChanges) -> None:
        """Scan the paths named by events, and record the changes."""
        known = self._snapshot.known
        was_there = self._is_there()
        touched: dict[Parts, set[str]] = {}
        moved: set[Parts] = set()  # directories that were created or removed, or both
        again: set[Parts] = set()  # directories to rescan recursively
        for kind, path in raw:
            parts = relative_to(path, self._path)
            if parts is None and self._real != self._path:
                parts = relative_to(path, self._real)
            if not parts:
                if parts is not None or not self._is_there():
                    again.add(())
            elif parts[:-1] in known:
                touched.setdefault(parts[:-1], set()).add(parts[-1])
                if parts[-1] == IGNORE_FILE:
                    again.add(parts[:-1])
                if kind in (CREATED, REMOVED) and parts in known:
                    moved.add(parts)
        for parts, names in sorted(touched.items()):
            if parts in known:
                self._snapshot.look_at(parts, names, changes)
        # Perhaps removed and created again: a watch on the old directory gets no events from the new one.
        again |= replaced if (replaced := {parts for parts in moved if parts in known}) else set()
        for parts in again:
            if not parts or parts in known:
                self._look(parts, changes)
        root_moved = () in again and not self._is_file and (was_there or self._is_there())
        self._settle(changes, anew=bool(replaced) or root_moved)

    def _is_there(self) -> bool:
        """Return whether the root existed at the last scan."""
        return self._exists if self._is_file else () in self._snapshot.known

    def _look(self, parts: Parts, changes: PathChanges) -> None:
        if not self._is_file:
            self._snapshot.look(parts, changes)
            return
        existed, self._exists = self._exists, os.path.isfile(self._path)
        if existed or self._exists:
            changes.note("changed" if existed and self._exists else "removed" if existed else "created", ())

    def _settle(self, changes: PathChanges, *, anew: bool = False) -> None:
        """Watch exactly the directories that exist now, and scan those newly watched, until nothing changes."""
        while not self.stopping.is_set():
            if self._settled == self._snapshot.version and self._is_there() and not (anew or self._is_file):
                return
            version = self._snapshot.version
            paths = self._paths()
            if paths == self._watched and not anew:
                self._settled = version
                return
            fresh = paths if anew else paths - self._watched
            anew = not self._listen(paths)
            if self._is_file:
                if os.path.isfile(self._path) != self._exists:
                    self._look((), changes)
                continue
            inside = {relative_to(path, self._path) or () for path in fresh}
            for parts in {()} if anew or () in inside else inside:
                # A recursive scan includes deeper paths.
                if not parts or (parts[:-1] not in inside and parts in self._snapshot.known):
                    self._look(parts, changes)

    def _paths(self) -> set[str]:
        """Return the directories to watch."""
        self._real = os.path.realpath(self._path)
        above = {os.path.dirname(self._path), os.path.dirname(self._real)}
        if not self._is_there() or self._is_file:
            return {existing(path) for path in above}
        # A link to a folder can be replaced by another one without any change in the folder.
        paths = set() if self._real == self._path else {existing(os.path.dirname(self._path))}
        if RECURSIVE:
            return paths | {self._path}
        return paths | {os.path.join(self._path, *parts) for parts in self._snapshot.known if is_utf8(parts)}

    def _listen(self, paths: set[str]) -> bool:
        """Replace the watched directories. Return False if one of the new ones is gone."""
        with needed("Watches of files", "files"):
            from watchfiles._rust_notify import RustNotify  # deferred: it takes 40 ms to load
        recursive = RECURSIVE and self._is_there() and not self._is_file
        while True:
            try:
                notify = RustNotify(sorted(paths), False, self._polling, POLL, recursive, True)
                break
            except FileNotFoundError:
                return False
            except UnicodeEncodeError:
                raise ConfigError(f"{self._path!a} cannot be watched: its name is not UTF-8") from None
            except (OSError, RuntimeError) as error:
                if self._polling:
                    raise ConfigError(f"{self._path} cannot be watched: {error}") from None
                log.warning("%s is polled for changes, because the system cannot watch it: %s", self._path, error)
                self._polling = True
        before, self._notify, self._watched = self._notify, notify, paths
        if before is not None:
            # Events that the previous watcher has until now; from now on both get the same.
            try:
                left = before.watch(1, 1, 1, self.stopping)
                self._left |= left if isinstance(left, set) else set()
            except RuntimeError as error:
                log.debug("events were lost: %s", error)
                self._overflowed = True
            before.close()
        return True


def existing(path: str) -> str:
    """Return a path, or its nearest parent, that is an existing directory."""
    while not os.path.isdir(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def is_utf8(parts: Parts) -> bool:
    """Return whether a path is valid UTF-8, so that it can be watched."""
    return not any("\udc80" <= character <= "\udcff" for name in parts if not name.isascii() for character in name)


def must_poll(path: str) -> bool:
    """Return whether to poll: on a file system without change events, or if WATCHFILES_FORCE_POLLING says so."""
    setting = os.environ.get("WATCHFILES_FORCE_POLLING", "")
    if setting:
        return setting.lower() not in ("false", "disable", "disabled")
    return file_system(os.path.realpath(path)) in SILENT


def file_system(path: str) -> str | None:
    """Return the type of the file system that contains a path, from /proc/self/mountinfo, or None."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split() for line in file]
    except OSError:
        return None
    best, kind = "", None
    for fields in mounts:
        point = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
        if len(point) >= len(best) and relative_to(path, point) is not None:
            best, kind = point, fields[fields.index("-") + 1]
    return kind
