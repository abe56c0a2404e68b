"""Provider of a store: objects and directories as resources, with windows, completion, search and polling."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from heapq import nlargest
from typing import Any

from carrel.catalog.paging import decode_cursor, encode_cursor
from carrel.catalog.provider import Change, Events, Hit, Interest, Page, Request
from carrel.errors import (
    ConfigError,
    InvalidCursor,
    InvalidParams,
    MCPError,
    ProviderUnavailable,
    ResourceError,
    ResourceForbidden,
    ResourceNotFound,
    ResourceTooLarge,
    SourceUnavailable,
)
from carrel.log import Log
from carrel.media_types import DIRECTORY
from carrel.sources.base import BaseSource, PartialVariable
from carrel.sources.content.directory import directory_contents
from carrel.sources.content.window import SUGGESTIONS, parse_window, window_templates, windows_of
from carrel.sources.content.words import words_of
from carrel.sources.documents.documents import Documents, Original
from carrel.sources.files.search import escape, rate
from carrel.sources.polling import Unlisted, poll
from carrel.sources.stores.address import StoreAddress, describe, read_address
from carrel.sources.stores.options import StoreOptions
from carrel.sources.stores.reading import ObjectReader
from carrel.sources.stores.store import (
    AccessDenied,
    EntryPage,
    InvalidStore,
    ObjectNotFound,
    Store,
    StoreEntry,
    StoreError,
    Unreadable,
    is_shareable,
)
from carrel.sources.watches import RunningWatches
from carrel.sources.workers import ClientLimiter, Workers
from carrel.uri.parse import UriError, percent_decode
from carrel.wire.completion import Completion
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate

__all__ = ["AddressedSource", "StoreSource", "complete", "templates"]

log = Log("carrel.sources.stores")

REQUESTS = 32  # at a time, of all clients
PAGES = 20  # of a list to search for a page with a shared entry
LEVEL = 1000  # entries of a directory that a look for changes compares


class StoreSource(BaseSource):
    """Read-only provider of the objects in a store below the prefix of its address."""

    options: type[StoreOptions] = StoreOptions
    shares_watch = True
    _documents: Documents
    naming = "give each store its own name with the option alias, in carrel.toml or in Python"

    def __init__(self, store: Store, address: StoreAddress, options: StoreOptions) -> None:
        self._store = store
        self._address = address
        self._options = options
        self.name = self.uri = address.base
        self.title = options.title or options.alias or address.host
        self.prefixes: Sequence[str] = (address.base,)
        self._workers = Workers(self, "carrel-stores")
        self._reader = ObjectReader(store, options, self._workers)
        self._documents = Documents(
            self, offered=options.documents, limit=options.max_size, locations=options.image_locations
        )
        self._limiter = ClientLimiter(options.requests_per_client, REQUESTS)
        self._watches = RunningWatches()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    async def start(self, events: Events) -> None:
        """Connect, and check that the store can be listed.

        Raises:
            ConfigError: the store cannot be listed, and the message gives the reason; or a package is missing.
        """
        try:
            await self._store.open()
            await self._store.list(self._address.prefix, limit=1)
        except BaseException as error:
            await self._store.close()
            if isinstance(error, ObjectNotFound):
                raise ConfigError(f"{self.uri} cannot be listed: it does not exist ({error})") from None
            if isinstance(error, AccessDenied):
                raise ConfigError(f"{self.uri} cannot be listed: the account may not do that ({error})") from None
            if isinstance(error, Unreadable):
                raise ConfigError(f"{self.uri} cannot be listed: {error}") from None
            if isinstance(error, StoreError):
                is_down = not isinstance(error, InvalidStore)
                raise SourceUnavailable(f"{self.uri} cannot be listed: {error}", is_down=is_down) from None
            raise
        self._workers.start()

    async def stop(self) -> None:
        """End watches, close connections, forget contents."""
        await self._watches.stop()
        await self._documents.stop()
        await self._workers.stop()
        await self._store.close()
        self._reader.forget()

    @asynccontextmanager
    async def _request(self, uri: str, client: str) -> AsyncIterator[None]:
        """Context manager for a request to the store: limit concurrency, and convert errors to provider errors."""
        self._workers.check()
        async with self._limiter.slot(client):
            try:
                yield
            except ObjectNotFound:
                raise ResourceNotFound(uri) from None
            except AccessDenied:
                raise ResourceForbidden(uri) from None
            except Unreadable as error:
                raise ResourceError(uri, f"Resource cannot be read: {error}") from None
            except StoreError as error:
                log.warning("%s: %s", self.uri, error)
                raise ProviderUnavailable(self.uri) from None

    def _resource(self, entry: StoreEntry) -> Resource:
        return self._documents.describe(describe(self._address, entry))

    # Lists

    async def list_resources(self, request: Request) -> Page[Resource]:
        """Return a page of the store itself, then its objects at all depths, in the order of their keys."""
        prefix, limit = self._address.prefix, max(request.limit, 1)
        listing = f"objects {self.uri}"
        items: list[Resource] = []
        after = ""
        if request.cursor is None:
            items = [describe(self._address, StoreEntry(prefix), self.title)]
        else:
            after = key_of_cursor(request.cursor, listing)
        async with self._request(self.uri, request.client):
            if len(items) == limit:
                return Page(items, encode_cursor("", listing))
            found = await self._page(prefix, after, limit - len(items), deep=True)
        items += [self._resource(entry) for entry in found.entries]
        return Page(items, None if found.after is None else encode_cursor(found.after, listing))

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        """Return a page of the objects and directories directly inside a directory, in the order of their keys."""
        key = self._directory(uri, request)
        listing = f"entries {self._address.uri(key)}"
        after = "" if request.cursor is None else key_of_cursor(request.cursor, listing)
        async with self._request(uri, request.client):
            found = await self._page(key, after, max(request.limit, 1), deep=False)
        items = [self._resource(entry) for entry in found.entries]
        return Page(items, None if found.after is None else encode_cursor(found.after, listing))

    async def _page(self, prefix: str, after: str, limit: int, *, deep: bool) -> EntryPage:
        """Return a page without keys that have no URI and without markers of empty directories: they are not shared."""
        ask = self._store.walk if deep else self._store.list
        found: list[StoreEntry] = []
        position: str | None = after
        for _ in range(PAGES):
            assert position is not None
            listing = (await ask(prefix, position, limit - len(found))).check(position)
            if not (listing.entries or deep or after or listing.after or self._is_there(prefix)):
                raise ObjectNotFound(prefix)
            found += [entry for entry in listing.entries if self._shares(entry, prefix, deep=deep)]
            position = listing.after
            if position is None or len(found) >= limit:
                break
        return EntryPage(found, position)

    def _is_there(self, prefix: str) -> bool:
        """Return whether an empty directory may exist."""
        return self._store.real_directories or prefix == self._address.prefix

    def _shares(self, entry: StoreEntry, prefix: str, *, deep: bool) -> bool:
        if entry.key == prefix or (deep and entry.is_directory):
            return False
        if is_shareable(entry.key[len(self._address.prefix) :]):
            return True
        log.debug("%s: %r has no URI, and is left out", self.uri, entry.key)
        return False

    def _key(self, uri: str, request: Request) -> str:
        """Return the key that a URI names, if the caller may know of it."""
        key = self._address.key(uri)
        if request.visible is not None and not request.visible(self._address.uri(key)):
            raise ResourceForbidden(uri)
        return key

    def _directory(self, uri: str, request: Request) -> str:
        key = self._key(uri, request)
        if "?" in uri or (key and not key.endswith("/")):
            raise ResourceNotFound(uri)
        return key

    def shows(self, uri: str, request: Request) -> bool:
        """Return whether the caller may see a URI, in its normalized spelling."""
        try:
            return request.visible is None or request.visible(self._address.uri(self._address.key(uri)))
        except MCPError:
            return True

    def accepts(self, uri: str, request: Request) -> bool:
        """Return True: absent objects accept subscriptions, so hidden objects must accept them too."""
        return True

    def is_guarded(self, uri: str) -> bool:
        """Return True: a URI may have several spellings, and rules are about one of them."""
        return True

    # Reading

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        """Return an object as text or a blob, a window of it, or a directory as a JSON array of resources.

        Of a document, its text can be read as well.
        """
        return await self._documents.read(uri, request, self._read, self._original)

    async def _original(self, uri: str, request: Request, limit: int, known: Callable[[Hashable], bool]) -> Original:
        """Return an object of at most ``limit`` bytes as a document."""
        key = self._key(uri, request)
        if not key or key.endswith("/"):
            return Original(DIRECTORY, None, None)
        async with self._request(uri, request.client):
            return await self._reader.original(key, uri, limit, known)

    async def _read(self, uri: str, request: Request) -> ReadResourceResult:
        key = self._key(uri, request)
        window = parse_window(uri.partition("?")[2])
        async with self._request(uri, request.client):
            if key and not key.endswith("/"):
                return ReadResourceResult(contents=[await self._reader.read(key, uri, window, request.client)])
            entries: list[StoreEntry] = []
            position: str | None = ""
            most = self._options.max_objects
            while position is not None and len(entries) <= most:
                page = await self._page(key, position, LEVEL, deep=False)
                entries += page.entries
                position = page.after

        def shown() -> Iterator[Resource]:
            for item in map(self._resource, entries[:most]):
                if request.visible is None or request.visible(item.uri):
                    yield item
            if position is not None or len(entries) > most:
                some = windows_of(uri, f"lines=1-{min(1000, max(most // 2, 1))}")
                raise ResourceTooLarge(uri, f"The directory has more than {most:,} entries; read some of it, {some}")

        return ReadResourceResult(contents=[directory_contents(uri, shown(), window, self._options.max_size)])

    # Templates, completion, search

    def _templates(self) -> list[ResourceTemplate]:
        """Return the templates of paths, windows of objects, and texts of documents."""
        found = templates(self.uri, self.title)
        return [*found, *self._documents.templates(found[0].uri_template, self.title)]

    async def _suggest(self, variable: PartialVariable, request: Request) -> Completion | list[str]:
        """Return paths, one directory at a time, or windows."""
        async with self._request(self.uri, request.client):
            try:
                return await complete(self._store, self._address.prefix, variable)
            except (ObjectNotFound, AccessDenied, Unreadable):
                return []

    async def _hits(self, query: str, limit: int, request: Request) -> Sequence[Hit]:
        """Return the objects whose paths have all words of a query, of the first ``max_objects`` objects."""
        words = words_of(query)
        if not words or limit < 1:
            return []
        scored: list[tuple[float, StoreEntry]] = []
        prefix = self._address.prefix
        async with self._request(self.uri, request.client):
            async for entry in self._objects():
                path = entry.key[len(prefix) :].casefold()
                if all(word in path for word in words):
                    above, _, name = path.rpartition("/")
                    scored.append((rate(words, name, len(above)), entry))
        best = nlargest(limit, scored, key=lambda pair: pair[0])
        return [Hit(self._resource(entry), score) for score, entry in best]

    async def _objects(self) -> AsyncIterator[StoreEntry]:
        """Yield the shared objects, up to ``max_objects``."""
        left = self._options.max_objects
        position: str | None = ""
        while position is not None and left > 0:
            page = await self._page(self._address.prefix, position, min(LEVEL, left), deep=True)
            for entry in page.entries:
                yield entry
            left -= max(len(page.entries), 1)
            position = page.after

    # Changes

    def watch(self, interest: Interest) -> AsyncIterator[Collection[Change]]:
        """Return changes that polling finds: of the first ``max_objects`` objects, and of all with a subscription."""
        self._workers.check()
        return self._watches.join(poll(lambda: self._look(interest), self._options.poll_seconds, owner=self.uri))

    async def _look(self, interest: Interest) -> Mapping[str, Hashable]:
        """Return a fingerprint for each object, each directory, and each subscribed resource beyond ``max_objects``."""
        fingerprints: dict[str, Hashable] = {}
        entries = [entry async for entry in self._objects()]
        whole = len(entries) < self._options.max_objects
        directories = directories_of(self._address.prefix, entries) if whole else {}
        fingerprints |= {self._address.uri(entry.key): entry.fingerprint for entry in entries}
        fingerprints |= {self._address.uri(key): Unlisted(fingerprint) for key, fingerprint in directories.items()}
        for uri in {uri.partition("?")[0] for uri in interest.uris} - fingerprints.keys():
            try:
                key = self._address.key(uri)
                fingerprints[uri] = Unlisted(await self._fingerprint(key))
            except (ObjectNotFound, AccessDenied, Unreadable, ResourceNotFound, InvalidParams):
                fingerprints[uri] = Unlisted(None)
        return fingerprints

    async def _fingerprint(self, key: str) -> Hashable:
        if key and not key.endswith("/"):
            return (await self._store.head(key)).fingerprint
        page = await self._page(key, "", LEVEL, deep=False)
        return tuple((entry.key, entry.fingerprint) for entry in page.entries)


class AddressedSource(StoreSource):
    """Base of the sources of one kind of ``store``, which a URL and options name.

    Raises:
        ConfigError: the URL does not name a store.
    """

    store: Callable[[StoreAddress, Any], Store]

    def __init__(self, target: str, options: StoreOptions | None = None) -> None:
        options = self.options() if options is None else options
        address = read_address(target, options.alias)
        super().__init__(type(self).store(address, options), address, options)


def directories_of(prefix: str, entries: Iterable[StoreEntry]) -> dict[str, int]:
    """Return the directories that objects are in, each with a hash of its objects and of the names in it."""
    found = {prefix: 0}
    for entry in entries:
        name, fingerprint = entry.key, hash(entry)
        while len(name) > len(prefix):
            above = name.rstrip("/").rpartition("/")[0]
            above = f"{above}/" if above else ""
            known = above in found
            found[above] = found.get(above, 0) + fingerprint
            if known:
                break
            name, fingerprint = above, hash(above)
    return found


def key_of_cursor(cursor: str, listing: str) -> str:
    """Return the key that a cursor names.

    Raises:
        InvalidCursor: it was not issued for this listing.
    """
    key = decode_cursor(cursor, listing)
    try:
        key.encode()
    except UnicodeEncodeError:
        raise InvalidCursor from None
    return key


MAX_VALUES = 100


def templates(base: str, title: str) -> Sequence[ResourceTemplate]:
    """Return a template for paths, and one for each kind of window."""
    path = f"{base}{{+path}}"
    about = f"An object in {title}, or a directory, whose path ends with a slash"
    return [ResourceTemplate(path, title, description=about), *window_templates(path, title, "an object")]


async def complete(store: Store, prefix: str, variable: PartialVariable) -> Completion | list[str]:
    """Complete paths that begin with the typed text, one directory at a time, or windows.

    Values are suitable for ``{+path}`` (RFC 6570): ``#``, ``?`` and text that looks like a percent-escape are escaped.

    Raises:
        StoreError: the directory cannot be listed.
    """
    typed = variable.value
    if variable.name != "path":
        return [value for value in SUGGESTIONS[variable.name] if value.startswith(typed)]
    path = typed.lstrip("/") if typed.strip("/") else ""
    candidates = dict.fromkeys((path, unescaped(path)))
    for candidate in candidates:
        if candidate and not is_shareable(candidate):
            continue
        try:
            candidate.encode()
        except UnicodeEncodeError:  # a lone surrogate
            continue
        found = await store.list(prefix + candidate, "", MAX_VALUES + 1)
        keys = [entry.key[len(prefix) :] for entry in found.entries]
        values = [escape(key) for key in keys if is_shareable(key) and key != candidate + "/" * candidate.endswith("/")]
        if values:
            more = found.after is not None or len(values) > MAX_VALUES
            return Completion(values[:MAX_VALUES], total=None if more else len(values), has_more=more)
    return []


def unescaped(text: str) -> str:
    try:
        return percent_decode(text)
    except UriError:
        return text
