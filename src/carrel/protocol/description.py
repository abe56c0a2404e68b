"""Description of a server: its identity, capabilities, revisions and extensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.errors import ConfigError
from carrel.protocol.members import Duplicates
from carrel.protocol.revision import Revision
from carrel.protocol.revisions import LATEST, REVISIONS
from carrel.wire.base import Implementation
from carrel.wire.lifecycle import ServerCapabilities

if TYPE_CHECKING:
    from carrel.protocol.extension import Extension

__all__ = ["Description"]


class Description(msgspec.Struct):
    """Description of a server: the content of the results of ``initialize`` and ``server/discover``.

    ``ttl_ms`` and ``scope`` are the default freshness hints of results.
    """

    info: Implementation
    capabilities: Callable[[], ServerCapabilities]
    instructions: str | None = None
    ttl_ms: int = 0
    scope: str = "private"
    revisions: Mapping[str, Revision] = msgspec.field(default_factory=lambda: REVISIONS)
    identity: dict[str, Any] = {}
    """The server's identity in the ``_meta`` of results."""
    extended: dict[str, Extension] = {}
    """Extensions of the server, by the methods that they add."""
    duplicates: Duplicates = msgspec.field(default_factory=Duplicates)
    """Check of the messages of all clients for duplicate members."""

    def __post_init__(self) -> None:
        self.identity = {"io.modelcontextprotocol/serverInfo": self.info}

    def extend(self, extension: Extension) -> None:
        """Add the methods of an extension.

        Raises:
            ConfigError: one of the methods exists already.
        """
        for method in extension.requests:
            other = self.extended.get(method)
            if method in LATEST.requests or (other is not None and other.name != extension.name):
                taken = "the protocol itself" if other is None else other.name
                raise ConfigError(f"{extension.name} cannot add the method {method}: {taken} has it")
        self.extended = {**self.extended, **dict.fromkeys(extension.requests, extension)}
