"""Azure Blob Storage and Google Cloud Storage, by obstore: ``az://CONTAINER/PREFIX`` and ``gs://BUCKET/PREFIX``.

obstore is called in threads: with its asynchronous functions, the process may abort when the interpreter ends.

https://developmentseed.org/obstore/latest/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from carrel.errors import ConfigError
from carrel.sources.packages import needed
from carrel.sources.stores.address import StoreAddress
from carrel.sources.stores.options import CloudOptions
from carrel.sources.stores.source import AddressedSource
from carrel.sources.stores.store import (
    AccessDenied,
    EntryPage,
    GetOptions,
    GetResult,
    ListingIndex,
    ObjectNotFound,
    ObjectNotModified,
    Store,
    StoreEntry,
    StoreError,
    VersionChanged,
)
from carrel.sources.workers import Workers
from carrel.threads import stop_if_cancelled

__all__ = ["CloudSource", "CloudStore"]

T = TypeVar("T")

THREADS = 32  # each of which waits for the network
PAGE = 1000
FEW = 10_000  # more objects than the pages of any server have
CHUNK = 262_144  # bytes that are taken at a time


class CloudStore(Store):
    """Azure container or Google bucket. A page of a level requires a list of the whole level."""

    def __init__(self, address: StoreAddress, options: CloudOptions) -> None:
        self._address = address
        self._options = options
        self._workers = Workers(self, "carrel-cloud", THREADS, THREADS)
        self._store: Any = None
        self._has_ends = False  # whether a list of more than one page of the server has not come to its start again

    def __repr__(self) -> str:
        return f"CloudStore({self._address.base!r})"

    async def open(self) -> None:
        self._workers.start()
        self._store = await self._workers.run("", self._connect)

    def _connect(self) -> Any:
        scheme, options = self._address.scheme, self._options
        with needed(f"{scheme}: URLs", "cloud"):
            from obstore.exceptions import BaseError
            from obstore.store import AzureStore, GCSStore
        given: dict[str, Any] = {"skip_signature": True} if options.anonymous else {}
        client: dict[str, Any] = {"timeout": f"{options.timeout}s", "connect_timeout": f"{options.timeout}s"}
        if options.endpoint is not None:
            given["endpoint" if scheme == "az" else "base_url"] = options.endpoint
            client["allow_http"] = options.endpoint.startswith("http:")
        make: Any = AzureStore if scheme == "az" else GCSStore
        try:
            return make(self._address.host, client_options=client, retry_config={"max_retries": 2}, **given)
        except (BaseError, ValueError) as error:
            raise ConfigError(f"{self._address.base} cannot be opened: {first_line(error)}") from None

    async def close(self) -> None:
        self._store = None
        await self._workers.stop()

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        from obstore import exceptions as failure

        try:
            return await self._workers.run("", function, *arguments)
        except (FileNotFoundError, failure.NotFoundError) as error:
            raise ObjectNotFound(first_line(error)) from None
        except (failure.PermissionDeniedError, failure.UnauthenticatedError) as error:
            raise AccessDenied(first_line(error)) from None
        except failure.PreconditionError as error:
            raise VersionChanged(first_line(error)) from None
        except failure.NotModifiedError as error:
            raise ObjectNotModified(first_line(error)) from None
        except failure.InvalidPathError:
            raise StoreError("a key has an empty, '.' or '..' segment, so that obstore cannot list it") from None
        except (failure.BaseError, ValueError, OSError) as error:
            raise StoreError(first_line(error)) from None

    # Lists

    async def list(self, prefix: str, after: str = "", limit: int = PAGE) -> EntryPage:
        above = prefix.rpartition("/")[0]
        if not self._has_ends:
            few = await self._call(self._few, above)
            if few is not None:
                return ListingIndex(few).level(prefix, after, limit)
        return ListingIndex(await self._call(self._level, above)).level(prefix, after, limit)

    def _few(self, above: str) -> Sequence[StoreEntry] | None:
        """Return all objects below a directory if there are few; otherwise check that the server's pages differ.

        obstore requests pages until the server reports the last page, and does not check that the pages differ.
        """
        from obstore.exceptions import InvalidPathError

        found: list[StoreEntry] = []
        try:
            for item in self._stream(above, "", PAGE):
                found.append(entry_of(item))
                if len(found) > FEW:
                    self._has_ends = True
                    return None
        except InvalidPathError:  # of a key at any depth, while a list of the level may have none
            return None
        return found

    def _stream(self, above: str, after: str, size: int) -> Iterator[Any]:
        """Yield the entries that a server lists, in chunks of ``size``.

        Raises:
            StoreError: the server repeats a part of the list.
        """
        import obstore

        anchor, count, renewal = "", 0, 1  # Brent's detection of cycles
        for page in obstore.list(self._store, above or None, offset=after or None, chunk_size=size):
            stop_if_cancelled()
            for item in page:
                if item["path"] == anchor:
                    raise StoreError(f"its list has no end: the server lists {anchor[:200]!r} again")
                count += 1
                if count == renewal:
                    anchor, renewal = item["path"], 2 * renewal
                yield item

    def _level(self, above: str) -> Sequence[StoreEntry]:
        import obstore

        found = obstore.list_with_delimiter(self._store, above or None)
        return [*map(entry_of, found["objects"]), *(StoreEntry(f"{key}/") for key in found["common_prefixes"])]

    async def walk(self, prefix: str, after: str = "", limit: int = PAGE) -> EntryPage:
        return await self._call(self._walk, prefix.rstrip("/"), after, limit)

    def _walk(self, above: str, after: str, limit: int) -> EntryPage:
        found: list[StoreEntry] = []
        for item in self._stream(above, after, min(limit + 1, PAGE)):
            if item["path"] > after:  # not every server knows offsets
                found.append(entry_of(item))
                if len(found) > limit:
                    return EntryPage(found[:limit], found[limit - 1].key)
        return EntryPage(found)

    # Objects

    async def head(self, key: str) -> StoreEntry:
        import obstore

        return entry_of(await self._call(obstore.head, self._store, key))

    async def get(self, key: str, wanted: GetOptions) -> GetResult | None:
        given: dict[str, Any] = {"if_match": wanted.match, "if_none_match": wanted.unless}
        if wanted.first is not None:
            if wanted.match is None:  # else the size is known
                entry = await self.head(key)
                if (entry.size or 0) <= wanted.first:
                    return GetResult(b"", entry)
            given["range"] = (wanted.first, wanted.first + wanted.limit)
        options = {name: value for name, value in given.items() if value is not None}
        try:
            return await self._call(self._get, key, wanted, options)
        except ObjectNotModified:
            return None

    def _get(self, key: str, wanted: GetOptions, options: Any) -> GetResult:
        import obstore

        found = obstore.get(self._store, key, options=options)
        try:
            entry = entry_of(found.meta)
            wanted.check(entry)
            # obstore does not compare the received range with the requested range.
            data = bytearray()
            for part in found.stream(CHUNK):
                stop_if_cancelled()
                data += part
                if len(data) > wanted.limit:
                    break
        finally:
            del found  # an error keeps this frame, and with it the connection
        return wanted.part(bytes(data), entry)


def entry_of(meta: Any) -> StoreEntry:
    tag = meta["e_tag"]
    if tag and not tag.startswith('"'):
        tag = f'"{tag}"'  # Azure's lists have it without quotes
    return StoreEntry(meta["path"], meta["size"], meta["last_modified"].timestamp(), tag)


def first_line(error: BaseException) -> str:
    """Return the first line of an error. The rest is for the authors of obstore."""
    return str(error).partition("\n")[0] or type(error).__name__


class CloudSource(AddressedSource):
    """Provider of the blobs in a container of Azure, or the objects in a bucket of Google: ``az://CONTAINER/PREFIX``,
    ``gs://BUCKET/PREFIX``.

    Raises:
        ConfigError: the URL names no container or bucket.
    """

    options = CloudOptions
    store = CloudStore
