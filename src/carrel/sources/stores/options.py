"""Options of object stores, remote file systems and archives.

This module is imported for the help of the command line, so it must import quickly.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta

from carrel.sources.documents.options import AsText, Locations
from carrel.sources.options import Alias, Count, MaxScan, RedactedStruct, Seconds, Secret, Size

__all__ = ["CloudOptions", "S3Options", "SFTPOptions", "StoreOptions", "WebDAVOptions"]

Password: TypeAlias = Secret | None
Endpoint: TypeAlias = Annotated[
    str | None,
    Meta(description="the URL of another server than the vendor's, such as MinIO", extra={"title": "URL"}),
]


class StoreOptions(RedactedStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of every store: its name, how much of it is read at once, and the poll interval for changes."""

    title: Annotated[str | None, Meta(description="the name of the store in lists (default: bucket or host)")] = None
    alias: Alias = None
    max_size: Annotated[
        Size, Meta(description="the largest object that can be read whole; larger objects can be read in windows")
    ] = 10 * 1024 * 1024
    max_scan: MaxScan = 256 * 1024 * 1024
    documents: AsText = True
    image_locations: Locations = False
    cache_size: Annotated[Size, Meta(description="memory for cached objects")] = 64 * 1024 * 1024
    max_objects: Annotated[
        Count, Meta(description="the maximum number of objects that a search or a poll examines")
    ] = 10_000
    requests_per_client: Annotated[Count, Meta(description="the maximum number of concurrent requests per client")] = 8
    timeout: Annotated[Seconds, Meta(description="the time limit for a response of the store")] = 30.0
    poll_seconds: Annotated[Seconds, Meta(description="the interval between two polls, in seconds")] = 60.0


class S3Options(StoreOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of S3. Credentials come from the environment, a profile, or the machine that this runs on."""

    endpoint: Endpoint = None
    region: Annotated[
        str | None, Meta(description="the region of the bucket (default: AWS_REGION, or the profile's)")
    ] = None
    profile: Annotated[str | None, Meta(description="the profile with the credentials (default: AWS_PROFILE)")] = None
    anonymous: Annotated[bool, Meta(description="send no credentials, for public buckets")] = False


class CloudOptions(StoreOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of Google Cloud Storage and Azure Blob Storage. Credentials come from the environment."""

    endpoint: Endpoint = None
    anonymous: Annotated[bool, Meta(description="send no credentials, for public buckets")] = False


class SFTPOptions(StoreOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of SFTP. Without a password, the keys of the SSH agent and of ~/.ssh are tried."""

    identity: Annotated[
        str | None,
        Meta(description="the file of the private key (default: agent and ~/.ssh)", extra={"title": "FILE"}),
    ] = None
    known_hosts: Annotated[
        str | None,
        Meta(description="the file of known host keys (default: ~/.ssh/known_hosts)", extra={"title": "FILE"}),
    ] = None
    password: Annotated[Password, Meta(description="the password (default: keys only)")] = None


class WebDAVOptions(StoreOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of WebDAV."""

    user: Annotated[str | None, Meta(description="the user (default: the user in the URL)")] = None
    password: Annotated[Password, Meta(description="the password (default: none)")] = None
