"""ZIP archives: ``zip:PATH``. Members are read in place; nothing is unpacked to the disk."""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH100, PTH111, PTH116, PTH119

from __future__ import annotations

import io
import os
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, TypeVar
from zlib import error as ZlibError  # noqa: N812

from carrel.errors import ConfigError
from carrel.log import Log
from carrel.sources.alias import base_of
from carrel.sources.stores.address import StoreAddress
from carrel.sources.stores.options import StoreOptions
from carrel.sources.stores.source import StoreSource
from carrel.sources.stores.store import (
    EntryPage,
    GetOptions,
    GetResult,
    InvalidStore,
    ListingIndex,
    Store,
    StoreEntry,
    StoreError,
    Unreadable,
    is_shareable,
)
from carrel.sources.workers import Workers
from carrel.uri.parse import UriError, normalize, percent_decode, percent_encode

if TYPE_CHECKING:
    from zipfile import ZipFile, ZipInfo

__all__ = ["ZipSource", "ZipStore"]

T = TypeVar("T")

log = Log("carrel.sources.stores")

MAX_DIRECTORY = 64 * 1024 * 1024  # bytes of the list of members
MAX_MEMBERS = 500_000
MAX_RATIO = 200  # of the size of a member to its compressed size; text is at 3 to 20
SMALL = 1024 * 1024  # bytes up to which the ratio does not matter
OPEN = 8  # members that stay open for sequential reads
ENCRYPTED = 0x1
METHODS = (0, 8)  # stored and deflated: zipfile unpacks no others in parts, so that bytes become gigabytes at once


class ZipStore(Store):
    """Members of an archive, as it is on the disk now: when the file is replaced, it is opened again."""

    def __init__(self, path: str, options: StoreOptions) -> None:
        self._path = path
        self._options = options
        self._workers = Workers(self, "carrel-zip")
        self._lock = threading.Lock()
        self._archive: Archive | None = None

    def __repr__(self) -> str:
        return f"ZipStore({self._path!r})"

    async def open(self) -> None:
        self._workers.start()

    async def close(self) -> None:
        await self._workers.stop()
        with self._lock:
            archive, self._archive = self._archive, None
        if archive is not None:
            archive.close()

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        from zipfile import BadZipFile

        try:
            return await self._workers.run("", function, *arguments)
        except (BadZipFile, ZlibError, EOFError, UnicodeDecodeError, ValueError) as error:
            raise InvalidStore(f"the file is not a ZIP archive, or it is damaged ({error})") from None
        except FileNotFoundError:
            raise InvalidStore(f"there is no file {self._path}") from None
        except OSError as error:
            raise StoreError(f"the archive cannot be read ({error.strerror or error})") from None

    def _current(self) -> Archive:
        """Return the archive, opened again if the file has been replaced. Runs in a thread."""
        with self._lock:
            info = os.stat(self._path)
            fingerprint = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)
            if self._archive is None or self._archive.fingerprint != fingerprint:
                old, self._archive = self._archive, None
                if old is not None:
                    old.close()
                self._archive = Archive(self._path, fingerprint)
            return self._archive

    async def list(self, prefix: str, after: str = "", limit: int = 1000) -> EntryPage:
        return await self._call(lambda: self._current().index.level(prefix, after, limit))

    async def walk(self, prefix: str, after: str = "", limit: int = 1000) -> EntryPage:
        return await self._call(lambda: self._current().index.objects(prefix, after, limit))

    async def head(self, key: str) -> StoreEntry:
        return await self._call(lambda: self._current().index.find(key))

    async def get(self, key: str, wanted: GetOptions) -> GetResult | None:
        return await self._call(self._get, key, wanted)

    def _get(self, key: str, wanted: GetOptions) -> GetResult | None:
        archive = self._current()
        entry = archive.index.find(key)
        if not wanted.check(entry):
            return None
        first = wanted.first or 0
        # The bytes before a range have to be decompressed as well.
        reach = self._options.max_scan + self._options.max_size
        if first > reach and not archive.is_stored(key):
            raise Unreadable(f"it is compressed, and only the first {reach:,} bytes of it can be reached")
        return GetResult(archive.read(key, first, wanted.limit), entry)


class Archive:
    """Open archive: an index of the shared members, and thread-safe reads.

    Raises:
        BadZipFile: the file is not a ZIP archive, or is damaged.
        StoreError: the path is not a regular file, or the archive has too many members.
    """

    def __init__(self, path: str, fingerprint: tuple[int, ...]) -> None:
        from zipfile import ZipFile

        self.fingerprint = fingerprint
        file = BoundedFile(open_regular(path), "rb")
        try:
            self._zip: ZipFile = ZipFile(file)
            file.listed = True
            if len(self._zip.infolist()) > MAX_MEMBERS:
                raise StoreError(f"the archive has more than {MAX_MEMBERS:,} members")
            self._members = shared_members(self._zip.infolist(), path)
        except BaseException:
            file.close()
            raise
        self._file = file
        self._open: OrderedDict[str, IO[bytes]] = OrderedDict()
        self._lock = threading.Lock()
        self.index = ListingIndex(entry_of(info) for info in self._members.values())

    def close(self) -> None:
        """Close the archive; reads that are under way fail."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
        self._zip.close()
        self._file.close()

    def is_stored(self, key: str) -> bool:
        """Return whether a member is not compressed."""
        return self._members[key].compress_type == 0

    def read(self, key: str, first: int, count: int) -> bytes:
        """Read bytes of a member. If the member is still open, continue at its position.

        Raises:
            Unreadable: it is encrypted, compressed in another way, or expands too much.
        """
        info = self._members[key]
        check(info)
        with self._lock:
            member = self._open.pop(key, None)
        try:
            if member is not None and member.tell() > first:
                member.close()
                member = None
            if member is None:
                member = self._zip.open(info)
            if member.tell() < first:
                member.seek(first)
            data = member.read(count)
        except BaseException:
            if member is not None:
                member.close()
            raise
        if count < info.file_size and first + count < info.file_size:
            with self._lock:
                self._open[key] = member
                if len(self._open) > OPEN:
                    self._open.popitem(last=False)[1].close()
        else:
            member.close()
        return data


class BoundedFile(io.FileIO):
    """File that limits a read to the maximum size of the member list, until the list has been read (``listed``)."""

    listed = False

    def read(self, size: int | None = -1, /) -> bytes:
        if self.listed:
            return super().read(size) or b""
        bounded = MAX_DIRECTORY + 1 if size is None or size < 0 else min(size, MAX_DIRECTORY + 1)
        data = super().read(bounded) or b""
        if len(data) > MAX_DIRECTORY:
            raise StoreError(f"the list of members has more than {MAX_DIRECTORY:,} bytes")
        return data


def open_regular(path: str) -> int:
    """Open a regular file. Devices and pipes are rejected."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidStore("the archive is not a regular file")
    return descriptor


def shared_members(members: list[ZipInfo], path: str) -> dict[str, ZipInfo]:
    """Return the shared members by key: no links, no names that lead out of the archive, and no duplicates."""
    found: dict[str, ZipInfo] = {}
    left_out: set[str] = set()
    for info in members:
        name = info.filename
        kind = stat.S_IFMT(info.external_attr >> 16)
        strange = kind not in (0, stat.S_IFREG, stat.S_IFDIR) or name != info.orig_filename
        if strange or name in found or not is_shareable(name) or not encodable(name):
            left_out.add(name)
        else:
            found[name] = info
    if left_out:
        log.warning("%s: %d members are left out: links, doubtful names, or names that come twice", path, len(left_out))
    return {name: info for name, info in found.items() if name not in left_out}


def encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def entry_of(info: ZipInfo) -> StoreEntry:
    if info.is_dir():
        return StoreEntry(info.filename)
    try:
        modified: float | None = time.mktime((*info.date_time, 0, 0, -1))  # in local time, as archives have it
    except (ValueError, OverflowError):
        modified = None
    saved = "".join(f"{part:02}" for part in info.date_time)
    return StoreEntry(info.filename, info.file_size, modified, f"{info.CRC:08x}-{info.file_size}-{saved}")


def check(info: ZipInfo) -> None:
    """Check that a member can be read.

    Raises:
        Unreadable: it is encrypted, or expands too much.
    """
    if info.flag_bits & ENCRYPTED:
        raise Unreadable("it is encrypted")
    if info.compress_type not in METHODS:
        raise Unreadable("it is compressed in a way that is not supported; only stored and deflated members are read")
    if info.file_size > SMALL and info.file_size > MAX_RATIO * info.compress_size:
        raise Unreadable(f"it expands to more than {MAX_RATIO} times its size in the archive")


class ZipSource(StoreSource):
    """Provider of the members of an archive, given as ``zip:PATH``.

    Raises:
        ConfigError: the URL has no path, or the name of the archive is too long for a URI.
    """

    changes = "machine"

    def __init__(self, target: str, options: StoreOptions = StoreOptions()) -> None:  # noqa: B008
        path = path_of(target)
        name = options.alias or os.path.basename(path)
        try:
            own = normalize(f"zip://{percent_encode(name.lower(), undecodable=True)}") if not options.alias else ""
        except UriError as error:
            raise ConfigError(f"the name of the archive cannot be in a URI ({error}); give it an alias") from None
        base = own or base_of("zip", name)
        address = StoreAddress("zip", f"{base}/", name)
        super().__init__(ZipStore(path, options), address, options)


def path_of(target: str) -> str:
    """Return the absolute path that a URL names: ``zip:PATH`` or ``zip:///PATH``.

    Raises:
        ConfigError: it has none.
    """
    remaining = target.partition(":")[2]
    if remaining.startswith("//"):
        remaining = remaining[2:]
        try:
            remaining = remaining if os.path.lexists(remaining) else percent_decode(remaining)
        except UriError:
            pass
    if (
        not remaining
        or remaining.endswith("/")
        or "\0" in remaining
        or (target[4:6] == "//" and not remaining.startswith("/"))
    ):
        raise ConfigError("this URL names no archive; it should look like zip:PATH or zip:///PATH")
    return os.path.abspath(os.path.expanduser(remaining))
