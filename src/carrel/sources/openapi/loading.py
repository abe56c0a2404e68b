"""Loading of a description: from a file, over HTTP, or from an ASGI application; and the base URL of its API."""

# No pathlib, whose import takes a few milliseconds.
# ruff: noqa: PTH111, PTH120, PTH123

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urljoin, urlsplit

from carrel.errors import ConfigError, MCPError
from carrel.log import Log
from carrel.sources.openapi.document import (
    MAX_DOCUMENTS,
    ApiDocuments,
    Location,
    decode_document,
    external_references,
)
from carrel.sources.openapi.operations import check_version
from carrel.uri.parse import file_path, file_uri

__all__ = ["base_url", "load_description", "load_file", "location_of", "within"]

log = Log("carrel.sources")

Loader = Callable[[Location], Awaitable[bytes]]
_VARIABLE = re.compile(r"\{([^{}]*)\}")


def location_of(target: str) -> Location:
    """Return the URL of the description from a target: ``openapi+https://…``, ``openapi:PATH``.

    Raises:
        ConfigError: it names none.
    """
    scheme, _, remaining = target.partition(":")
    kind = scheme.lower().partition("+")[2]
    if kind in ("https", "http"):
        try:
            parts = urlsplit(f"{kind}:{remaining}")
            bare = bool(parts.hostname) and "@" not in parts.netloc and not parts.fragment
        except ValueError:
            bare = False
        if not bare:
            raise ConfigError(f"openapi+{kind}: names the URL of a description, without a user and a fragment")
        return f"{kind}:{remaining}"
    if kind not in ("", "file"):
        raise ConfigError("a description is named by openapi+https://…, openapi+http://… or openapi+file:PATH")
    try:
        path = file_path(f"file:{remaining}") if remaining.startswith("//") else os.path.expanduser(remaining)
        return file_uri(os.path.realpath(path))
    except ValueError as error:  # no URI, or a NUL in it
        raise ConfigError(f"openapi: names no path of a description: {error}") from None


def within(location: Location, root: Location) -> bool:
    """Return whether a description may refer to a document: it must have the same origin, and be below its folder."""
    folder = root.rpartition("/")[0] + "/"
    devious = "%2e" in location.lower() or "/../" in location or "\\" in location or "%2f" in location.lower()
    return location.startswith(folder) and not devious


def load_file(location: Location, root: Location, most: int) -> bytes:
    """Return the bytes of a document in the folder of the first document.

    Raises:
        ConfigError: the document does not exist, is outside the folder, or is too large.
    """
    path = file_path(location)
    folder = os.path.dirname(file_path(root))
    whole = os.path.realpath(path)
    if os.path.commonpath([whole, os.path.realpath(folder)]) != os.path.realpath(folder):
        raise ConfigError(f"{path} is outside the folder of the description")
    try:
        with open(whole, "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise ConfigError(f"the description {path} cannot be read: {error.strerror}") from None
    if len(data) > most:
        raise ConfigError(f"the description {path} has more than {most:,} bytes, the limit (max_description_size)")
    return data


async def load_description(location: Location, load: Loader, decode: Callable[..., Awaitable[Any]]) -> ApiDocuments:
    """Load a description, and the documents that it refers to. Documents outside are skipped, with a warning.

    ``decode`` calls a function in a thread.

    Raises:
        ConfigError: the description cannot be loaded, or is not an OpenAPI description.
    """
    data = await load(location)
    root = await decode(decode_document, data, location)
    check_version(root, location)
    documents = ApiDocuments(root, location)
    waiting = external_references(data, location)
    seen = {location}
    while waiting:
        other = waiting.pop(0)
        if other in seen:
            continue
        seen.add(other)
        if len(seen) > MAX_DOCUMENTS or not within(other, location):
            log.warning("%s is left out: it refers to %s, which is outside its folder", location, other[:200])
            continue
        try:
            data = await load(other)
            documents.add(other, await decode(decode_document, data, other))
        except MCPError as error:
            log.warning("%s is left out of the description: %s", other[:200], error)
            continue
        waiting += external_references(data, other)
    return documents


def base_url(document: dict[str, Any], location: Location, server: str | None) -> str:
    """Return the base URL of an API, without a slash at the end.

    Raises:
        ConfigError: the description names none.
    """
    url = server
    if url is None:
        servers = document.get("servers")
        first = servers[0] if isinstance(servers, list) and servers and isinstance(servers[0], dict) else {"url": "/"}
        variables = first.get("variables")
        variables = variables if isinstance(variables, dict) else {}

        def default(match: re.Match[str]) -> str:
            given = variables.get(match[1])
            return str(given.get("default", "")) if isinstance(given, dict) else ""

        url = urljoin(location, _VARIABLE.sub(default, str(first.get("url", "/"))))
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise ConfigError("the description does not say where its API is; name it with the option server")
    if "@" in parts.netloc or parts.query or parts.fragment or "\\" in url or any(c <= " " for c in url):
        raise ConfigError("the URL of an API has no user, no query and no fragment")
    return url.rstrip("/")
