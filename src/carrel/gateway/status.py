"""Status of the servers of a gateway as JSON and as a table, and their merged instructions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec

from carrel.columns import aligned
from carrel.gateway.names import Names
from carrel.host.config.server_config import ConfigProblem
from carrel.host.hosted_server import CAUSES, HostedServer
from carrel.printable import printable

__all__ = ["STATUS_URI", "merged_instructions", "status_of", "table_of"]

STATUS_URI = "carrel://gateway/servers"
#: Maximum length of the instructions of one server, and of all servers together, in characters.
MAX_INSTRUCTIONS = 2000
MAX_ALL_INSTRUCTIONS = 16_000
#: Maximum number of look-alike names to show.
MAX_LOOK_ALIKES = 100
#: Members of the status that are null for an invalid entry of a configuration file.
UNKNOWN = (
    *("retryInSeconds", "prefix", "server", "revision", "isolation"),
    *("tools", "prompts", "resources", "templates"),
)


def merged_instructions(own: str | None, servers: Iterable[HostedServer]) -> str | None:
    """Return the gateway's instructions, followed by each server's instructions under a heading with its name."""
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
    """Return the status of one server as a JSON object."""
    ready = server.state == "ready"
    info = server.info
    return {
        "name": server.name,
        "state": "empty" if server.empty else server.state,
        "reason": None if server.cause is None else CAUSES[server.cause],
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


def entries_of(
    servers: Iterable[HostedServer], names: Names, problems: Iterable[ConfigProblem]
) -> list[dict[str, Any]]:
    """Return the status of the servers, and of invalid entries in configuration files, by name."""
    found = {server.name: entry_of(server, names) for server in servers}
    for problem in problems:
        if problem.entry is not None and problem.entry not in found:
            unknown = dict.fromkeys(UNKNOWN)
            found[problem.entry] = {"name": problem.entry, "state": "failed", "reason": problem.message, **unknown}
    return [found[name] for name in sorted(found)]


def status_of(
    servers: Iterable[HostedServer], names: Names, saved: str | None = None, problems: Iterable[ConfigProblem] = ()
) -> str:
    """Return the status of a gateway's servers as JSON; ``saved`` is a text about the tokens saved by tool search."""
    found: dict[str, Any] = {
        "servers": entries_of(servers, names, problems),
        "collisions": [{"kind": kind, "name": name, "servers": list(having)} for kind, name, having in names.shared()],
        "lookAlikes": [
            {"kind": kind, "name": found.name, "server": found.server, "like": found.like, "of": found.other}
            for kind, found in islice(names.look_alikes(), MAX_LOOK_ALIKES)
        ],
    }
    if saved is not None:
        found["toolSearch"] = saved
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()


def table_of(
    servers: Iterable[HostedServer], names: Names, saved: str | None = None, problems: Iterable[ConfigProblem] = ()
) -> str:
    """Return the status of a gateway's servers as a text table; ``saved`` is as in ``status_of``."""
    rows = [("SERVER", "STATE", "REVISION", "TOOLS", "PROMPTS", "RESOURCES", "")]
    for entry in entries_of(servers, names, problems):
        counts = ["-" if entry[key] is None else str(entry[key]) for key in ("tools", "prompts", "resources")]
        reason = "it offers nothing" if entry["state"] == "empty" else (entry["reason"] or "")
        name, revision = printable(entry["name"], 40), entry["revision"] or "-"
        rows.append((name, entry["state"], revision, *counts, printable(reason, 200)))
    lines = aligned(rows, None)
    for kind, found in islice(names.look_alikes(), MAX_LOOK_ALIKES):
        seen = f"{found.name!a} of {printable(found.server, 40)}", f"{found.like!a} of {printable(found.other, 40)}"
        lines.append(f"look-alike: the {kind} {seen[0]} looks like {seen[1]}")
    if saved is not None:
        lines.append(f"tool search: {saved}")
    return "\n".join(lines) + "\n"
