"""Servers of the tests of stores, one for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.azure_server import AzureServer, azure_server
from support.s3_server import S3Server, s3_server
from support.sftp_server import SFTPServer, sftp_server
from support.webdav_server import WebDAVServer, webdav_server


@pytest.fixture(scope="session")
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def azure() -> Iterator[AzureServer]:
    with azure_server() as server:
        yield server


@pytest.fixture(scope="session")
def ssh() -> Iterator[SFTPServer]:
    with sftp_server() as server:
        yield server


@pytest.fixture(scope="session")
def dav() -> Iterator[WebDAVServer]:
    with webdav_server() as server:
        yield server
