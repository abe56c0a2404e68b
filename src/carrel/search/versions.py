"""Versions of resources: values that change with a resource, so that changes are noticed without reading it."""

from __future__ import annotations

from datetime import datetime

import msgspec

from carrel.sources.documents.query import text_uri
from carrel.wire.resources import Resource

__all__ = ["is_racy", "version_of"]

#: Resolution of file system timestamps, in seconds. A file read so soon after a change may change again with the same
#: timestamp.
COARSE = 2.0
#: Names in ``_meta`` that are versions of a resource.
VERSIONS = ("version", "etag", "digest", "sha", "revision")


def version_of(resource: Resource) -> str:
    """Return the size, time and versions of a resource as text; empty if it has no time and no version."""
    modified = None if resource.annotations is None else resource.annotations.last_modified
    versions = {
        key: value
        for key, value in (resource.meta or {}).items()
        if key.rpartition("/")[2].lower().startswith(VERSIONS) and isinstance(value, str | int)
    }
    if modified is None and not versions:
        return ""
    if (text := text_uri(resource)) != resource.uri:
        versions["text"] = text
    return msgspec.json.encode([resource.size, modified, versions]).decode()


def is_racy(resource: Resource, now: float) -> bool:
    """Return whether a resource has changed so shortly before it is read that the next change may have its version."""
    modified = None if resource.annotations is None else resource.annotations.last_modified
    if modified is None:
        return False
    try:
        return datetime.fromisoformat(modified).timestamp() > now - COARSE
    except ValueError:
        return False
