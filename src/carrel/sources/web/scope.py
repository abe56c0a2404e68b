"""Scope of a web source: the URLs that it may fetch, and the URIs by which clients name them.

A target that ends in a slash shares the pages below it. Any other target shares one page and, if it is a sitemap, the
pages that it lists. Paths are compared as they are written, so paths that a web server could decode to a path outside
the folder (dot segments, escaped slashes and backslashes) are rejected.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from carrel.errors import ConfigError, InvalidParams, ResourceNotFound
from carrel.uri.parse import UriError, normalize

__all__ = ["PageAddress", "WebScope"]

OWN = "web+"
SCHEMES = ("https", "web+https", "web+http")
MAX_URL = 8000
#: Parameters at the end of a query that are for this source: a window, or the entry of a feed.
_EXTRA = re.compile(r"[?&]((?:lines|bytes|tail)=[0-9-]*|entry=[0-9a-f]{16})$")
#: Escapes of dots, slashes, backslashes, percent signs and control characters in a path.
_ESCAPED = re.compile(r"%(?:2[eEfF5]|5[cC]|[01][0-9A-Fa-f]|7[fF])")
_PORTS = {"http": 80, "https": 443}


class PageAddress(NamedTuple):
    """URL of a page, and the query parameter for this source, such as ``lines=1-100``, or an empty string."""

    url: str
    extra: str = ""


class WebScope:
    """Scope of a target: ``https://…``, or ``web+https://…`` and ``web+http://…`` for pages that are fetched here.

    Raises:
        ConfigError: the target is not such a URL, or names a user.
    """

    def __init__(self, target: str) -> None:
        scheme, _, remaining = target.partition(":")
        self.fetched = scheme.lower() != "https"
        """Whether the server fetches pages. Otherwise clients are expected to fetch them."""
        bare = scheme.lower().removeprefix(OWN)
        if scheme.lower() not in SCHEMES:
            raise ConfigError("the address of a web source begins with https://, web+https:// or web+http://")
        if "@" in remaining[2:].partition("/")[0]:
            raise ConfigError(f"the address of a web source has no user and no password: {bare}://…")
        shown = f"{scheme}:…{target.rpartition('@')[2]}"[:200] if "@" in target else target[:200]  # no password
        try:
            parts = urlsplit(normalize(f"{bare}:{ascii_host(remaining)}"))
            port = parts.port
        except (UriError, ValueError) as error:
            raise ConfigError(f"{shown} is not a URL: {error}") from None
        if not parts.hostname or parts.fragment or not remaining.startswith("//"):
            raise ConfigError(f"{shown} is not the URL of a page: it has no host, or a fragment")
        self.host = parts.hostname
        host = f"[{self.host}]" if ":" in self.host else self.host
        self.origin = f"{bare}://{host}" + (f":{port}" if port not in (None, _PORTS[bare]) else "")
        path = parts.path or "/"
        if is_devious(path):
            raise ConfigError(f"{shown} has a dot segment or an escaped slash in its path")
        self.url = self.origin + path + (f"?{parts.query}" if parts.query else "")
        self.folder = path.endswith("/") and not parts.query
        """Whether everything below the target is shared."""
        self._before = OWN if self.fetched else ""
        self.uri = self.uri_of(self.url)
        # The pages that a sitemap lists are in its folder, and known only when it has been fetched.
        above = self.uri.rpartition("/")[0] + "/"
        self.prefixes = (self.uri, above) if path.endswith((".xml", ".xml.gz")) else (self.uri,)

    def uri_of(self, url: str) -> str:
        """Return the URI of a URL."""
        return normalize(self._before + url)

    def canonical(self, url: str) -> str | None:
        """Return a URL of this origin in the form to compare, without its fragment; None for all other URLs."""
        if len(url) > MAX_URL:
            return None
        try:
            parts = urlsplit(normalize(url))
            port = parts.port
        except (UriError, ValueError):
            return None
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        origin = f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, _PORTS.get(parts.scheme)) else "")
        if origin != self.origin or "@" in parts.netloc or is_devious(parts.path):
            return None
        return self.origin + (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def includes(self, url: str) -> bool:
        """Return whether a canonical URL is the target, or below it."""
        return url == self.url or (self.folder and url.startswith(self.url))

    def page_of(self, target: str) -> str | None:
        """Return a redirect target as a URL of this origin, ignoring its host and scheme, or None if the path is not
        valid.
        """
        try:
            parts = urlsplit(normalize(target))
        except (UriError, ValueError):
            return None
        return self.canonical(self.origin + (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))

    def address(self, uri: str) -> PageAddress:
        """Parse the URI of a client into a URL. Whether the URL is in the scope is not checked.

        Raises:
            ResourceNotFound: the URI has another origin, or is not shared by this source.
            InvalidParams: it has a fragment.
        """
        if not uri.startswith(self._before):
            raise ResourceNotFound(uri)
        if "#" in uri:
            raise InvalidParams("Invalid params: uri: the URI of a page has no fragment", parameter="uri")
        found = _EXTRA.search(uri) if self.fetched else None
        bare = uri if found is None else uri[: found.start()]
        url = self.canonical(bare.removeprefix(self._before))
        if url is None:
            raise ResourceNotFound(uri)
        return PageAddress(url, "" if found is None else found[1])


def is_devious(path: str) -> bool:
    """Return whether a path is ambiguous: a web server may resolve it to a path outside the folder."""
    return (
        "\\" in path
        or _ESCAPED.search(path) is not None
        or any(segment in (".", "..") or segment.startswith(("..;", ".;")) for segment in path.split("/"))
    )


def ascii_host(remaining: str) -> str:
    """Return ``//host/path`` with an internationalized host in its ASCII form (IDNA), as it is looked up.

    Raises:
        ValueError: the host has no such form.
    """
    host, slash, path = remaining[2:].partition("/")
    if host.isascii() or not remaining.startswith("//"):
        return remaining
    name, colon, port = host.partition(":")
    return f"//{name.encode('idna').decode()}{colon}{port}{slash}{path}"
