"""Amazon S3 and compatible servers, with botocore: ``s3://BUCKET/PREFIX``.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from carrel.errors import ConfigError
from carrel.sources.packages import needed
from carrel.sources.stores.address import StoreAddress
from carrel.sources.stores.options import S3Options
from carrel.sources.stores.source import AddressedSource
from carrel.sources.stores.store import (
    AccessDenied,
    EntryPage,
    GetOptions,
    GetResult,
    InvalidStore,
    ObjectNotFound,
    ObjectNotModified,
    Store,
    StoreEntry,
    StoreError,
    VersionChanged,
)
from carrel.sources.workers import Workers
from carrel.threads import stop_if_cancelled

__all__ = ["S3Source", "S3Store"]

T = TypeVar("T")

THREADS = 32  # each of which waits for the network
PAGE = 1000  # keys; S3 gives no more at a time
LAST = "\U0010ffff"  # sorts after any character of a key
ATTEMPTS = 3
CHUNK = 1024 * 1024  # bytes that are skipped at a time


class S3Store(Store):
    """A bucket. botocore blocks, and is called in threads."""

    def __init__(self, address: StoreAddress, options: S3Options) -> None:
        self._bucket = address.host
        self._options = options
        self._workers = Workers(self, "carrel-s3", THREADS, THREADS)
        self._client: Any = None

    def __repr__(self) -> str:
        return f"S3Store({self._bucket!r})"

    async def open(self) -> None:
        self._workers.start()
        self._client = await self._workers.run("", self._connect)

    def _connect(self) -> Any:
        with needed("s3: URLs", "s3"):
            from botocore import UNSIGNED  # type: ignore[import-untyped]
            from botocore.config import Config  # type: ignore[import-untyped]
            from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]
            from botocore.session import Session  # type: ignore[import-untyped]
        options = self._options
        settings: dict[str, Any] = {"signature_version": UNSIGNED} if options.anonymous else {}
        if options.endpoint:
            settings["s3"] = {"addressing_style": "path"}  # other servers have no host name for each bucket
        config = Config(
            connect_timeout=options.timeout,
            read_timeout=options.timeout,
            retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
            max_pool_connections=THREADS,
            **settings,
        )
        try:
            session = Session(profile=options.profile)
            session.register_component("data_loader", loader())
            region = options.region or session.get_config_variable("region") or "us-east-1"
            return session.create_client("s3", region_name=region, endpoint_url=options.endpoint, config=config)
        except (BotoCoreError, ValueError) as error:
            raise ConfigError(f"s3://{self._bucket} cannot be opened: {error}") from None

    async def close(self) -> None:
        client, self._client = self._client, None
        await self._workers.stop()
        if client is not None:
            client.close()

    async def _call(self, function: Callable[..., T], *arguments: Any) -> T:
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError
        from urllib3.exceptions import HTTPError

        try:
            return await self._workers.run("", function, *arguments)
        except ClientError as error:
            raise translate(error.response) from None
        except NoCredentialsError:
            raise StoreError(
                "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE or the "
                "option profile; for a public bucket, the option anonymous"
            ) from None
        except (BotoCoreError, HTTPError, OSError) as error:
            raise StoreError(str(error)) from None
        except KeyError as error:
            raise StoreError(f"the answer of the server lacks {error}") from None

    # Lists

    async def list(self, prefix: str, after: str = "", limit: int = PAGE) -> EntryPage:
        return await self._call(self._list, prefix, f"{after}{LAST}" if after.endswith("/") else after, limit, "/")

    async def walk(self, prefix: str, after: str = "", limit: int = PAGE) -> EntryPage:
        return await self._call(self._list, prefix, after, limit, "")

    def _list(self, prefix: str, after: str, limit: int, delimiter: str) -> EntryPage:
        where = {"Delimiter": delimiter} if delimiter else {}
        if after:
            where["StartAfter"] = after
        found = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, MaxKeys=min(limit, PAGE), **where)
        entries = [StoreEntry(common["Prefix"]) for common in found.get("CommonPrefixes", ())]
        entries += [
            StoreEntry(item["Key"], item["Size"], item["LastModified"].timestamp(), item.get("ETag"))
            for item in found.get("Contents", ())
        ]
        entries.sort(key=lambda entry: entry.key)
        return EntryPage(entries, entries[-1].key if found.get("IsTruncated") and entries else None)

    # Objects

    async def head(self, key: str) -> StoreEntry:
        return await self._call(self._head, key)

    def _head(self, key: str) -> StoreEntry:
        return entry_of(key, self._client.head_object(Bucket=self._bucket, Key=key))

    async def get(self, key: str, wanted: GetOptions) -> GetResult | None:
        where = {"IfMatch": wanted.match, "IfNoneMatch": wanted.unless, "Range": wanted.range}
        try:
            return await self._call(self._get, key, wanted, where)
        except ObjectNotModified:
            return None
        except BeyondEnd:  # so is the first byte of an empty object
            return GetResult(b"", await self.head(key))

    def _get(self, key: str, wanted: GetOptions, where: Mapping[str, str | None]) -> GetResult:
        given = {name: value for name, value in where.items() if value is not None}
        found = self._client.get_object(Bucket=self._bucket, Key=key, **given)
        body = found["Body"]
        try:
            entry = entry_of(key, found)
            wanted.check(entry)
            skipped = wanted.skip(found["ResponseMetadata"]["HTTPStatusCode"], found.get("ContentRange", ""))
            while skipped > 0 and (data := body.read(min(skipped, CHUNK))):
                stop_if_cancelled()
                skipped -= len(data)
            data = body.read(wanted.limit + (wanted.first is None))
        finally:
            body.close()
        return wanted.part(data, entry)


@cache
def loader() -> Any:
    """Return the loader of botocore's descriptions of services, whose parsing takes longer than all else."""
    from botocore.loaders import create_loader  # type: ignore[import-untyped]

    return create_loader()


def entry_of(key: str, found: Mapping[str, Any]) -> StoreEntry:
    """Parse the headers of a response into an entry."""
    total = found.get("ContentRange", "").rpartition("/")[2]
    size = int(total) if total.isdigit() else found["ContentLength"]
    return StoreEntry(key, size, found["LastModified"].timestamp(), found.get("ETag"))


class BeyondEnd(StoreError):
    """The range begins after the end of the object."""


def translate(response: Mapping[str, Any]) -> StoreError:
    """Convert an S3 error response to a store error."""
    code = str(response.get("Error", {}).get("Code", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code == "NoSuchBucket":
        return InvalidStore("there is no such bucket")
    kinds = {304: ObjectNotModified, 403: AccessDenied, 404: ObjectNotFound, 412: VersionChanged, 416: BeyondEnd}
    return kinds.get(status, StoreError)(f"the server answered {status} {code}")


class S3Source(AddressedSource):
    """Provider of the objects in a bucket, given as ``s3://BUCKET`` or ``s3://BUCKET/PREFIX``.

    Raises:
        ConfigError: the URL names no bucket.
    """

    options = S3Options
    store = S3Store
