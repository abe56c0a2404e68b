"""Files of an SSH server, with asyncssh: ``sftp://USER@HOST/PATH``.

The protocol cannot open a file without following symbolic links. So the real path is requested first: a path that
contains a link is not shared.

https://datatracker.ietf.org/doc/html/draft-ietf-secsh-filexfer-02
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from carrel.sources.packages import needed
from carrel.sources.stores.address import StoreAddress
from carrel.sources.stores.options import SFTPOptions
from carrel.sources.stores.source import AddressedSource
from carrel.sources.stores.spelling import Spelling
from carrel.sources.stores.store import (
    MAX_KEY,
    AccessDenied,
    EntryPage,
    GetOptions,
    GetResult,
    InvalidStore,
    ListingIndex,
    ObjectNotFound,
    Store,
    StoreEntry,
    StoreError,
    Unreadable,
)

if TYPE_CHECKING:
    from asyncssh import SFTPAttrs, SFTPClient, SSHClientConnection

__all__ = ["SFTPSource", "SFTPStore"]

T = TypeVar("T")

MAX_LEVEL = 100_000  # entries of a directory, which are put in order
CHUNK = 1024 * 1024  # bytes that have to arrive within the timeout
HOME = "~/"
MAX_NAMES = 64 * 1024 * 1024  # characters of all names of a directory
GROWING = ("size", "mtime")  # of a file that is written to
SAME = ("uid", "gid", "permissions")  # of a file when it is looked at, and when it is open


class Disconnected(StoreError):
    """The connection to the server is lost."""


class SFTPStore(Store):
    """Files below a folder of an SSH server. The next request reconnects if the connection is lost."""

    real_directories = True

    def __init__(self, address: StoreAddress, options: SFTPOptions) -> None:
        self._address = address
        self._options = options
        self._connection: SSHClientConnection | None = None
        self._client: SFTPClient | None = None
        self._root = b"/"
        self._spelling = Spelling(len(address.prefix))
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"SFTPStore({self._address.base!r})"

    # Connection

    async def open(self) -> None:
        with needed("sftp: URLs", "sftp"):
            import asyncssh  # noqa: F401
        await self._connected()

    async def close(self) -> None:
        connection, self._connection, self._client = self._connection, None, None
        if connection is not None:
            connection.close()
            await connection.wait_closed()

    async def _connected(self) -> SFTPClient:
        async with self._lock:
            if self._client is None:
                try:
                    async with self._errors():
                        self._connection = await self._connect()
                        client = await self._connection.start_sftp_client()
                        self._root = await self._find_root(client)
                except BaseException:
                    await self.close()
                    raise
                self._client = client
            return self._client

    async def _connect(self) -> SSHClientConnection:
        import asyncssh

        options = self._options
        known_hosts = expanded(options.known_hosts or "~/.ssh/known_hosts")
        given: dict[str, Any] = {
            "client_keys": None if options.identity is None else [expanded(options.identity)],
            "password": options.password,
            "username": self._address.user,
            "port": self._address.port,
        }
        try:
            return await asyncssh.connect(
                self._address.host,
                known_hosts=known_hosts,
                connect_timeout=options.timeout,
                login_timeout=options.timeout,
                keepalive_interval=options.timeout,
                **{name: value for name, value in given.items() if value is not None},
            )
        except asyncssh.HostKeyNotVerifiable:
            raise InvalidStore(
                f"the key of the host is not the one in {known_hosts}, or not in it; compare its fingerprint with "
                "the one that the operator of the server names, and add it, for example by connecting once with ssh"
            ) from None
        except asyncssh.PermissionDenied:
            raise InvalidStore(
                "the server rejected the login: load the key into the SSH agent, or use the option identity or password"
            ) from None
        except FileNotFoundError as error:
            raise InvalidStore(f"there is no file {error.filename}, which known_hosts or identity names") from None

    async def _find_root(self, client: SFTPClient) -> bytes:
        path = self._address.prefix.rstrip("/")
        at_home = path == "~" or path.startswith(HOME)
        path = (path[len(HOME) :] or ".") if at_home else f"/{path}"
        root = await client.realpath(path.encode())
        found = await client.stat(root)
        if not stat.S_ISDIR(found.permissions or 0):
            raise ObjectNotFound("it is not a folder")
        return bytes(root)

    @asynccontextmanager
    async def _errors(self) -> AsyncIterator[None]:
        """Context manager that converts SSH errors to store errors."""
        import asyncssh

        try:
            yield
        except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath, asyncssh.SFTPNotADirectory) as error:
            raise ObjectNotFound(str(error)) from None
        except asyncssh.SFTPPermissionDenied as error:
            raise AccessDenied(str(error)) from None
        except (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection, asyncssh.ConnectionLost):
            raise Disconnected("the connection is lost") from None
        except (asyncssh.Error, OSError, ValueError) as error:
            raise StoreError(str(error) or type(error).__name__) from None

    async def _call(self, work: Callable[[SFTPClient], Awaitable[T]]) -> T:
        """Call a function with the client; once more if the connection turns out to be lost."""
        for attempt in range(2):
            client = await self._connected()
            try:
                async with self._errors():
                    return await work(client)
            except Disconnected:
                if self._client is client:
                    await self.close()
                if attempt:
                    raise
        raise AssertionError

    # Paths

    def _path(self, key: str) -> bytes:
        path = key[len(self._address.prefix) :].strip("/").encode()
        return self._root.rstrip(b"/") + b"/" + path if path else self._root

    async def _check(self, client: SFTPClient, key: str) -> SFTPAttrs:
        """Check the path of a key, and return its attributes, without following links.

        Raises:
            AccessDenied: the path contains a link.
            ObjectNotFound: the spelling of the path differs from the server's list.
        """
        path = self._path(key)
        if path != self._root and await client.realpath(path) != path:
            raise AccessDenied("a symbolic link is part of the path")
        found = await client.lstat(path)
        await self._spelling.check(
            key, lambda other: client.lexists(self._path(other)), lambda level: self._entries(client, level)
        )
        return found

    # Lists

    async def list(self, prefix: str, after: str = "", limit: int = 1000) -> EntryPage:
        level = prefix[: prefix.rfind("/") + 1]

        async def read(client: SFTPClient) -> Collection[StoreEntry]:
            async with asyncio.timeout(self._options.timeout):
                await self._check(client, level)
                return await self._entries(client, level)

        page = ListingIndex(await self._call(read)).level(prefix, after, limit)
        self._spelling.learn(entry.key for entry in page.entries)
        return page

    async def _entries(self, client: SFTPClient, level: str) -> Collection[StoreEntry]:
        found: list[StoreEntry] = []
        size = 0
        async for item in client.scandir(self._path(level)):
            entry = entry_of(level, item.filename, item.attrs)
            if entry is not None and len(entry.key) <= MAX_KEY:
                found.append(entry)
                size += len(entry.key)
            if len(found) > MAX_LEVEL or size > MAX_NAMES:
                raise Unreadable(f"it has more than {MAX_LEVEL:,} entries, or names of {MAX_NAMES:,} characters")
        return found

    # Files

    async def head(self, key: str) -> StoreEntry:
        return await self._call(lambda client: self._find(client, key))

    async def _find(self, client: SFTPClient, key: str) -> StoreEntry:
        return (await self._look(client, key))[0]

    async def _look(self, client: SFTPClient, key: str) -> tuple[StoreEntry, SFTPAttrs]:
        async with asyncio.timeout(self._options.timeout):
            attributes = await self._check(client, key)
        entry = entry_of("", key.encode(), attributes)
        if entry is None or entry.is_directory:
            raise ObjectNotFound(key)
        return entry, attributes

    async def get(self, key: str, wanted: GetOptions) -> GetResult | None:
        async def read(client: SFTPClient) -> GetResult | None:
            entry, attributes = await self._look(client, key)
            if not wanted.check(entry):
                return None
            first = wanted.first or 0
            end = min(entry.size or 0, first + wanted.limit)
            return wanted.part(await self._read(client, key, attributes, first, end), entry)

        return await self._call(read)

    async def _read(self, client: SFTPClient, key: str, known: SFTPAttrs, first: int, end: int) -> bytes:
        """Read bytes of a file whose attributes are ``known``.

        Raises:
            AccessDenied: the opened file may be another file, such as the target of a link. The path is checked again
                after opening, and the open file must match the attributes from before and after.
        """
        timeout = self._options.timeout
        async with asyncio.timeout(timeout):
            file = await client.open(self._path(key), "rb")
        try:
            async with asyncio.timeout(timeout):
                opened = await file.stat()
                _, again = await self._look(client, key)
            if not is_same(known, opened, again):
                raise AccessDenied("it has been replaced by another file")
            parts: list[bytes] = []
            while first < end:
                async with asyncio.timeout(timeout):
                    data = await file.read(min(end - first, CHUNK), first)
                if not data:
                    break
                parts.append(data.encode() if isinstance(data, str) else data)
                first += len(data)
            return b"".join(parts)
        finally:
            await file.close()


def is_same(before: SFTPAttrs, opened: SFTPAttrs, after: SFTPAttrs) -> bool:
    """Return whether an open file can be the one that its path named before and after; it may have been written to."""
    for name in SAME:
        if not getattr(before, name) == getattr(opened, name) == getattr(after, name):
            return False
    return all(
        (getattr(before, name) or 0) <= (getattr(opened, name) or 0) <= (getattr(after, name) or 0) for name in GROWING
    )


def entry_of(above: str, name: bytes | str, attributes: SFTPAttrs) -> StoreEntry | None:
    """Return a file or a directory; None for links, devices and the like, and names that are not UTF-8."""
    try:
        text = name.decode() if isinstance(name, bytes) else name
    except UnicodeDecodeError:
        return None
    mode = attributes.permissions or 0
    if stat.S_ISDIR(mode):
        return None if text in (".", "..") else StoreEntry(f"{above}{text}/")
    if not stat.S_ISREG(mode):
        return None
    return StoreEntry(above + text, attributes.size, attributes.mtime, f"{attributes.mtime}-{attributes.size}")


def expanded(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111


class SFTPSource(AddressedSource):
    """Provider of the files of an SSH server, given as ``sftp://USER@HOST/PATH`` or ``sftp://HOST/~/PATH``.

    Raises:
        ConfigError: the URL names no server, or has a password.
    """

    options = SFTPOptions
    store = SFTPStore
