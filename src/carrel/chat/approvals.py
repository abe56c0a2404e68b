"""Approvals of tool calls: the user decides on each call, or once per server and tool while the tool stays the same.

A remembered approval is bound to a digest of the tool's definition and the server's command or URL. If the server
changes the tool's description, or another server takes the same name, Carrel asks the user again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from carrel.errors import ConfigError
from carrel.host.config.server_config import ServerConfig
from carrel.regular_file import replace_file
from carrel.security.client.file_store import default_directory
from carrel.wire.tools import Tool

__all__ = [
    "ApprovalRequest",
    "ApprovalStore",
    "Approvals",
    "Asker",
    "CallRejected",
    "Decision",
    "default_approvals",
    "definition_digest",
]

Decision: TypeAlias = Literal["yes", "no", "always"]


class CallRejected(Exception):
    """The user rejects a call, with a reason for the model."""


class ApprovalRequest(msgspec.Struct, frozen=True):
    """Request to the user to approve a tool call. ``changed``: the tool has changed since it was always approved.

    ``id`` is the id of the model's tool use.
    """

    server: str
    tool: Tool
    arguments: dict[str, Any]
    changed: bool = False
    id: str = ""


#: Asks the user; raises CancelledError if the user wants to stop altogether, CallRejected to tell the model a reason.
Asker: TypeAlias = Callable[[ApprovalRequest], Awaitable[Decision]]


def definition_digest(config: ServerConfig, tool: Tool) -> str:
    """Return the digest of a tool's definition and its server's command or URL.

    The digest covers hints and descriptions, because the user and the model decide by them.
    """
    server = (config.command, list(config.args), (config.url or "").partition("?")[0])
    definition = msgspec.to_builtins(tool)
    return sha256(msgspec.json.encode([server, definition], order="sorted")).hexdigest()


def default_approvals() -> Path:
    """Return the file of the approvals of this user."""
    return default_directory().parent / "approvals.json"


class ApprovalStore:
    """File of the tools that are approved for always (mode 0600), by server and tool; ``file`` None for none."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._own: dict[str, str] = {}

    def digest(self, server: str, tool: str) -> str | None:
        """Return the digest of the definition that was approved; None if none was."""
        return self._read().get(f"{server}\n{tool}")

    def put(self, server: str, tool: str, digest: str) -> None:
        """Remember the digest of an approved definition.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._write({**self._read(), f"{server}\n{tool}": digest})

    def forget(self, server: str | None = None) -> int:
        """Delete the approvals of a server, or all approvals; return the number of tools."""
        known = self._read()
        kept = {} if server is None else {key: it for key, it in known.items() if key.partition("\n")[0] != server}
        self._write(kept)
        return len(known) - len(kept)

    @property
    def tools(self) -> list[tuple[str, str]]:
        """Servers and tools that are approved."""
        return sorted((server, tool) for server, _, tool in (key.partition("\n") for key in self._read()))

    def _read(self) -> dict[str, str]:
        if self.file is None:
            return self._own
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=dict[str, str])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError):
            return {}  # what cannot be read approves nothing

    def _write(self, known: dict[str, str]) -> None:
        if self.file is None:
            self._own = known
            return
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self.file, msgspec.json.format(msgspec.json.encode(known, order="sorted")))
        except OSError as error:
            raise ConfigError(f"approvals cannot be saved in {self.file}: {error.strerror}") from None


class Approvals:
    """Decides about each tool call: by the ``allowed`` list ("server:tool"), by remembered approvals, or by asking the
    user.

    Without ``ask``, calls that are not approved are rejected. ``ask`` is called for one call at a time, in order.
    """

    def __init__(self, remembered: ApprovalStore, *, ask: Asker | None = None, allowed: Collection[str] = ()) -> None:
        self.remembered = remembered
        self.allowed = frozenset(allowed)
        self._ask = ask
        self._asking = asyncio.Lock()

    async def approve(self, config: ServerConfig, tool: Tool, arguments: dict[str, Any], id: str = "") -> bool:
        """Return whether a call may be made. ``id`` is the id of the tool use.

        Raises:
            CallRejected: it may not, and the user gives a reason.
        """
        if f"{config.name}:{tool.name}" in self.allowed:
            return True
        digest = definition_digest(config, tool)
        async with self._asking:
            known = self.remembered.digest(config.name, tool.name)
            if known == digest:
                return True
            if self._ask is None:
                return False
            request = ApprovalRequest(config.name, tool, arguments, changed=known is not None, id=id)
            decision = await self._ask(request)
            if decision == "always":
                self.remembered.put(config.name, tool.name, digest)
            return decision != "no"
