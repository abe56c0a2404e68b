"""Status of the servers of a gateway: as JSON, as a table, and their instructions in one text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from carrel.columns import aligned
from carrel.gateway.names import Names
from carrel.host.hosted_server import HostedServer
from carrel.printable import printable

__all__ = ["STATUS_URI", "merged_instructions", "status_of", "table_of"]

STATUS_URI = "carrel://gateway/servers"
#: How much of the instructions of one server is passed on, and of all of them, in characters.
MAX_INSTRUCTIONS = 2000
MAX_ALL_INSTRUCTIONS = 16_000


def merged_instructions(own: str | None, servers: Iterable[HostedServer]) -> str | None:
    """Return the instructions of a gateway: its own, and those of each server under its name."""
    parts = [own] if own else []
    room = MAX_ALL_INSTRUCTIONS
    for server in sorted(servers, key=lambda one: one.name):
        text = (server.instructions or "").strip()
        if not text or room <= 0:
            continue
        text = text[: min(MAX_INSTRUCTIONS, room)]
        room -= len(text)
        parts.append(f"# {printable(server.name, 100)}\n\n{text}")
    return "\n\n".join(parts) or None


def entry_of(server: HostedServer, names: Names) -> dict[str, Any]:
    """Return what is known of a server."""
    ready = server.state == "ready"
    info = server.info
    return {
        "name": server.name,
        "state": "empty" if server.empty else server.state,
        "reason": server.cause,
        "retryInSeconds": None if server.retry_in is None else round(server.retry_in, 1),
        "prefix": names.prefixes.get(server.name),
        "server": None if info is None else {"name": info.name, "version": info.version},
        "revision": server.revision,
        "isolation": server.config.isolation,
        "tools": len(names.of("tool", server.name)) if ready else None,
        "prompts": len(names.of("prompt", server.name)) if ready else None,
        "resources": len(names.of("uri", server.name)) if ready else None,
        "templates": len(names.of("template", server.name)) if ready else None,
    }


def status_of(servers: Iterable[HostedServer], names: Names, saved: str | None = None) -> str:
    """Return how the servers of a gateway are, as JSON; ``saved``: what tool search saves."""
    found: dict[str, Any] = {
        "servers": [entry_of(server, names) for server in sorted(servers, key=lambda one: one.name)],
        "collisions": [{"kind": kind, "name": name, "servers": list(having)} for kind, name, having in names.shared()],
    }
    if saved is not None:
        found["toolSearch"] = saved
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()


def table_of(servers: Iterable[HostedServer], names: Names, saved: str | None = None) -> str:
    """Return how the servers of a gateway are, as lines for people; ``saved``: what tool search saves."""
    rows = [("SERVER", "STATE", "REVISION", "TOOLS", "PROMPTS", "RESOURCES", "")]
    for server in sorted(servers, key=lambda one: one.name):
        entry = entry_of(server, names)
        counts = ["-" if entry[key] is None else str(entry[key]) for key in ("tools", "prompts", "resources")]
        reason = "it offers nothing" if server.empty else (server.cause or "")
        rows.append(
            (printable(server.name, 40), entry["state"], server.revision or "-", *counts, printable(reason, 200))
        )
    lines = aligned(rows, None)
    if saved is not None:
        lines.append(f"tool search: {saved}")
    return "\n".join(lines) + "\n"
