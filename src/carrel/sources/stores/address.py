"""Address of a store: its URL for the driver, and the URIs that clients see.

    s3://bucket/docs               ->  s3://bucket/docs/
    sftp://ann@files.example/srv   ->  sftp://files.example/srv/
    zip:/srv/manual.zip            ->  zip://manual.zip/

A URI has neither user nor password. A directory ends with a slash, and an object does not: ``docs/`` and ``docs`` are
two resources, as they are in an object store.
"""

from __future__ import annotations

from typing import NamedTuple

from carrel.errors import ConfigError, InvalidParams, ResourceNotFound
from carrel.media_types import DIRECTORY, type_of_name
from carrel.sources.alias import base_of
from carrel.sources.folder.describe import annotate
from carrel.sources.stores.store import StoreEntry, is_shareable
from carrel.uri.parse import UriError, encode_path, normalize, parse, percent_decode, split_port
from carrel.wire.resources import Resource

__all__ = ["StoreAddress", "describe", "read_address"]

FORMS = {
    "memory": "memory://NAME",
    "s3": "s3://BUCKET/PREFIX",
    "gs": "gs://BUCKET/PREFIX",
    "az": "az://CONTAINER/PREFIX",
    "sftp": "sftp://USER@HOST/PATH",
    "webdav": "webdav://HOST/PATH",
    "webdavs": "webdavs://HOST/PATH",
}
WITH_USER = ("sftp", "webdav", "webdavs")


class StoreAddress(NamedTuple):
    """Location of a store. Shared keys begin with ``prefix``; URIs that clients see begin with ``base``."""

    scheme: str
    base: str
    host: str
    prefix: str = ""
    user: str | None = None
    port: int | None = None

    def uri(self, key: str) -> str:
        """Return the URI of a key."""
        return self.base + encode_path(key[len(self.prefix) :].split("/"))

    def key(self, uri: str) -> str:
        """Return the key in a URI, without the query.

        Raises:
            ResourceNotFound: the URI is not in this store.
            InvalidParams: the URI cannot be the URI of an object.
        """
        whole = uri.partition("?")[0]
        try:
            found = normalize(whole)
        except UriError as error:
            raise InvalidParams(f"Invalid params: uri: {error}", parameter="uri") from None
        if "#" in whole:
            raise InvalidParams(
                "Invalid params: uri: a resource has no fragment; write # in a name as %23", parameter="uri"
            )
        if found == self.base:
            return self.prefix
        if not found.startswith(self.base):
            raise ResourceNotFound(uri)
        path = found[len(self.base) :]
        try:
            names = [percent_decode(name) for name in path.split("/")]
        except UriError:
            raise ResourceNotFound(uri) from None
        if any("/" in name for name in names) or not is_shareable("/".join(names)):
            raise ResourceNotFound(uri)
        return self.prefix + "/".join(names)


def describe(address: StoreAddress, entry: StoreEntry, name: str | None = None) -> Resource:
    """Return the resource of an object or a directory; ``name`` overrides its own name."""
    uri = address.uri(entry.key)
    if entry.is_directory or entry.key == address.prefix:
        return Resource(uri, name or entry.name, mime_type=DIRECTORY)
    return Resource(
        uri,
        name or entry.name,
        mime_type=type_of_name(entry.name),
        size=entry.size,
        annotations=None if entry.modified is None else annotate(entry.modified),
    )


def read_address(target: str, alias: str | None = None) -> StoreAddress:
    """Parse the URL of a store.

    Raises:
        ConfigError: the URL is not valid. The message shows the expected form, and contains no password.
    """
    scheme = target.partition(":")[0].lower()
    form = FORMS[scheme]
    try:
        uri = parse(target)
        path = percent_decode(uri.path)
    except UriError:
        raise ConfigError(f"this URL names no store; it should look like {form}, percent-encoded") from None
    user_info, _, host_port = (uri.authority or "").rpartition("@")
    user, colon, _ = user_info.partition(":")
    if colon or (user and scheme not in WITH_USER):
        raise ConfigError(f"{scheme}: the URL has credentials, which belong in the environment or the options: {form}")
    try:
        host, port = split_port(host_port)
    except UriError:
        host, port = "", None
    if not host or uri.query is not None or uri.fragment is not None:
        raise ConfigError(f"this URL names no store; it should look like {form}")
    prefix = path.removeprefix("/").removesuffix("/")
    if prefix and not is_shareable(prefix):
        raise ConfigError(f"the path of {scheme}://{host_port} has an empty, '.' or '..' segment")
    prefix = f"{prefix}/" if prefix else ""
    base = f"{scheme}://{host_port.lower()}/{encode_path(prefix.split('/'))}"
    name = percent_decode(host.strip("[]"))
    if alias:
        base = f"{base_of(scheme, alias)}/"
    return StoreAddress(scheme, base, name, prefix, percent_decode(user) or None, port)
