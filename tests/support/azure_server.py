"""Azure Blob Storage for tests: Azurite, Microsoft's emulator, in memory, on a free port, filled by obstore."""

from __future__ import annotations

import hmac
import re
import subprocess
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from hashlib import sha256
from urllib.request import Request, urlopen

import obstore
from obstore.store import AzureStore

from support.parties import azurite, node_program

__all__ = ["ACCOUNT", "CONTAINER", "CREDENTIALS", "AzureServer", "azure_server"]

CONTAINER = "shelf"
ACCOUNT = "devstoreaccount1"
#: The account and the key that every Azurite has, which Microsoft has published.
CREDENTIALS = {
    "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
    "AZURE_STORAGE_ACCOUNT_KEY": "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2U"
    "VErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
}
PATIENCE = 60.0
VERSION = "2024-08-04"


class AzureServer:
    """Server with one container that can be filled."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
        self.create(CONTAINER)
        self.store = AzureStore(
            CONTAINER,
            account_name=ACCOUNT,
            account_key=CREDENTIALS["AZURE_STORAGE_ACCOUNT_KEY"],
            endpoint=self.endpoint,
            client_options={"allow_http": True},
        )

    def create(self, container: str, access: str = "") -> None:
        """Make a container; with the access ``container``, anyone may list and read it. obstore makes none.

        https://learn.microsoft.com/en-us/rest/api/storageservices/authorize-with-shared-key
        """
        headers = {"x-ms-blob-public-access": access} if access else {}
        headers |= {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION}
        named = "".join(f"{name}:{value}\n" for name, value in headers.items())
        signed = f"PUT{12 * chr(10)}{named}/{ACCOUNT}/{ACCOUNT}/{container}\nrestype:container"
        key = b64decode(CREDENTIALS["AZURE_STORAGE_ACCOUNT_KEY"])
        signature = b64encode(hmac.digest(key, signed.encode(), sha256)).decode()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
        url = f"{self.endpoint}/{container}?restype=container"
        with urlopen(Request(url, method="PUT", headers=headers), timeout=PATIENCE):
            pass

    def put(self, key: str, data: bytes | str) -> None:
        """Store an object."""
        obstore.put(self.store, key, data.encode() if isinstance(data, str) else data)

    def remove(self, key: str) -> None:
        """Remove an object."""
        obstore.delete(self.store, key)


@contextmanager
def azure_server() -> Iterator[AzureServer]:
    """Run a server until the end of the block."""
    flags = ("--blobPort", "0", "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent")
    command = [node_program(), azurite(), *flags]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield AzureServer(port_of(process))
        finally:
            process.kill()


def port_of(process: subprocess.Popen[str]) -> int:
    """Return the port that Azurite says it listens on."""
    assert process.stdout is not None
    said = ""
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            said += line
            found = re.search(r"successfully listens on http://127\.0\.0\.1:(\d+)", line)
            if found is not None:
                return int(found[1])
    finally:
        watchdog.cancel()
    raise AssertionError(f"Azurite has ended:\n{said}")
