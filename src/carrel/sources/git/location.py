"""URIs of a repository: ``git://NAME/KIND/REF/PATH``, with the slashes of a ref percent-encoded.

A ref is one segment, ``feature%2Flogin``, so that it is clear where it ends and the path begins. Names that are not
UTF-8 keep their bytes, as in ``file:`` URIs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from carrel.errors import InvalidParams, ResourceNotFound
from carrel.sources.content.query import read_parameters
from carrel.uri.parse import encode_path, percent_encode

__all__ = ["KINDS", "GitLocation", "RepositoryUris"]

# Kinds of resources: whether there is a ref, whether there is a path, and the parameters of the query.
KINDS: Mapping[str, tuple[bool, bool, tuple[str, ...]]] = {
    "": (False, False, ()),
    "branches": (False, False, ("lines", "bytes", "tail")),
    "tags": (False, False, ("lines", "bytes", "tail")),
    "branch": (True, False, ()),
    "tag": (True, False, ()),
    "commit": (True, False, ()),
    "tree": (True, True, ("lines", "bytes", "tail")),
    "file": (True, True, ("lines", "bytes", "tail")),
    "blame": (True, True, ("lines",)),
    "diff": (True, False, ("path",)),
    "log": (True, False, ("path", "limit", "after")),
    "grep": (True, False, ("query", "path")),
}

MAX_DEPTH = 512


class GitLocation(NamedTuple):
    """A resource: its kind, ref and path, and its query, decoded and as it was written."""

    kind: str
    ref: str = ""
    parts: tuple[str, ...] = ()
    parameters: Mapping[str, str] = {}
    query: str = ""


class RepositoryUris:
    """URIs of one repository."""

    def __init__(self, name: str) -> None:
        self.root = f"git://{percent_encode(name.lower(), undecodable=True)}"

    def uri(self, kind: str = "", ref: str = "", parts: tuple[str, ...] = ()) -> str:
        """Return the URI of a resource."""
        if not kind:
            return self.root
        has_ref = KINDS[kind][0]
        whole = f"{self.root}/{kind}" + (f"/{percent_encode(ref, undecodable=True)}" if has_ref else "")
        return f"{whole}/{encode_path(parts)}" if parts else whole

    def parse(self, uri: str) -> GitLocation:
        """Split a URI.

        Raises:
            ResourceNotFound: the URI is not in this repository, or has an unknown kind.
            InvalidParams: the URI is not valid.
        """
        if "#" in uri:
            raise InvalidParams(
                "Invalid params: uri: a resource has no fragment; write # in a name as %23", parameter="uri"
            )
        whole, mark, query = uri.partition("?")
        remaining = whole.removeprefix(self.root)
        if remaining == whole or remaining[:1] not in ("", "/"):
            raise ResourceNotFound(uri)
        kind, _, path = remaining[1:].partition("/")
        if kind not in KINDS or (mark and not query):
            raise ResourceNotFound(uri)
        has_ref, has_path, allowed = KINDS[kind]
        names = [decode(name, uri) for name in path.rstrip("/").split("/")] if path.rstrip("/") else []
        if len(names) < has_ref or (len(names) > has_ref and not has_path) or len(names) > MAX_DEPTH:
            raise ResourceNotFound(uri)
        parts = tuple(names[1:])
        if any(name in ("", ".", "..") or "/" in name for name in parts):
            raise ResourceNotFound(uri)
        return GitLocation(
            kind,
            names[0] if names else "",
            parts,
            read_parameters(query, allowed, lambda text: decode(text, uri)),
            query,
        )


def decode(text: str, uri: str) -> str:
    try:
        found = unquote_to_bytes(text).decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate
        raise ResourceNotFound(uri) from None
    if "\0" in found:
        raise InvalidParams("Invalid params: uri: a name has no NUL", parameter="uri")
    return found
