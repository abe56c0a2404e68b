"""Azure and Google, by obstore: the contract on obstore's own store in memory, and how connections are made.

The requests to Azure and Google are obstore's own.
"""

from __future__ import annotations

import itertools
from typing import Any

import obstore
import pytest
from obstore.store import MemoryStore

from carrel import sources
from carrel.catalog.provider import Provider
from carrel.errors import ConfigError
from carrel.sources.stores.address import read_address
from carrel.sources.stores.cloud import CloudStore
from carrel.sources.stores.options import CloudOptions
from carrel.sources.stores.source import StoreSource
from sources.stores.test_contract import OPTIONS, StoreContract


class Memory(CloudStore):
    """Store of this source whose requests go to obstore's store in memory."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(read_address("az://shelf/docs"), CloudOptions())
        self.inner = inner

    def _connect(self) -> Any:
        return self.inner


class TestCloudSource(StoreContract):
    """Objects below a prefix, in a store of obstore."""

    base = "az://shelf/docs/"
    numbers = itertools.count()

    @pytest.fixture
    def provider(self) -> Provider:
        self.inner = MemoryStore()
        self.fill()
        obstore.put(self.inner, "docs-beside/secret.txt", b"secret")
        return self.again(self)  # type: ignore[arg-type]

    def again(self, provider: Provider) -> Provider:
        return StoreSource(Memory(self.inner), read_address("az://shelf/docs"), CloudOptions(**OPTIONS))

    def put(self, key: str, data: bytes) -> None:
        obstore.put(self.inner, f"docs/{key}", data)

    def delete(self, key: str) -> None:
        obstore.delete(self.inner, f"docs/{key}")


@pytest.mark.parametrize("scheme", ["az", "gs"])
def test_a_url_that_names_no_container_is_refused(scheme: str) -> None:
    for end in ("", "//", "//key:hunter2@shelf", "//shelf/../x"):
        with pytest.raises(ConfigError) as raised:
            sources.open(f"{scheme}:{end}")
        assert "hunter2" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["az", "gs"])
async def test_a_server_that_is_not_reached_is_an_error_without_secrets(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "aHVudGVyMg==")
    anonymous = scheme == "gs"  # else it asks Google's metadata server for credentials
    source = sources.open(f"{scheme}://shelf", endpoint="http://127.0.0.1:1", timeout=5.0, anonymous=anonymous)
    with pytest.raises(ConfigError, match="cannot be listed") as raised:
        await source.start(None)  # type: ignore[arg-type]
    assert "aHVudGVyMg" not in str(raised.value)


async def test_a_key_that_is_missing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="az://shelf/ cannot be opened"):
        await sources.open("az://shelf").start(None)  # type: ignore[arg-type]
