"""``carrel info``: shows a server's versions, capabilities and instructions, and measures its response times."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.cli.client.connection import add_connection_options, answered, open_client, read_target, shown
from carrel.cli.options import Parser
from carrel.cli.target import ServerTarget
from carrel.cli.terminal.output import duration, table, write_json, write_text
from carrel.cli.terminal.progress import Bar
from carrel.errors import MCPError

if TYPE_CHECKING:
    from carrel.client.client import Client

__all__ = ["describe", "parser", "run", "transport_of"]

SUMMARY = "Show the name, versions, capabilities, instructions and response times of a server."
EXAMPLES = """\
examples:
  carrel info server.py
  carrel info http://127.0.0.1:8000/mcp --json
  carrel info --quick -- npx -y @modelcontextprotocol/server-everything
"""
#: How often a request is measured; the median is shown.
ROUNDS = 9
TRANSPORTS = {"StdioTransport": "stdio", "HTTPTransport": "Streamable HTTP", "HTTPSSETransport": "HTTP+SSE"}


def parser() -> Parser:
    """Return the argument parser of ``carrel info``."""
    reader = Parser("info", SUMMARY, epilog=EXAMPLES)
    add_connection_options(reader)
    reader.add_argument("--quick", action="store_true", help="do not check which other revisions the server accepts")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel info`` and return the exit code: 0, 1 if the server answered with an error, 3 without a connection.

    Raises:
        ConfigError: wrong use.
    """
    options, target = read_target(parser(), arguments)

    async def show() -> int:
        started = time.perf_counter()
        async with open_client(target, options) as client:
            connected = time.perf_counter() - started
            facts = describe(client)
            facts["timing"] = {"connect": milliseconds(connected), **await measure(client)}
            facts["tools"] = await context_of(client)
        if not options.quick:
            facts["accepts"] = await accepted(target, options, facts["revision"])
        if options.json:
            write_json(facts)
        else:
            write_text(written(facts), escape=False)
        return 0

    return answered(show, quiet=options.quiet, name=target.name)


def describe(client: Client) -> dict[str, Any]:
    """Return the information that a connected server declares, as JSON values."""
    server = client.server
    return {
        "server": None if server is None else msgspec.to_builtins(server),
        "revision": client.revision,
        "era": "stateless" if client.session.stateless else "handshake",
        "transport": transport_of(client),
        "capabilities": msgspec.to_builtins(client.capabilities),
        "instructions": client.instructions,
    }


async def context_of(client: Client) -> dict[str, int] | None:
    """Return the number of tools, and the approximate number of tokens that they use in the context of a model.

    If the server has tool search, ``found`` and ``foundTokens`` count the tools that can be found with it. Returns None
    without tools.
    """
    from carrel.vendors.token_estimate import SUMMARY, tokens_of_tools

    try:
        tools = [] if client.capabilities.tools is None else await client.list_tools()
    except MCPError:
        return None
    facts = {"listed": len(tools), "tokens": tokens_of_tools(tools)}
    for summary in ((tool.meta or {}).get(SUMMARY) for tool in tools):
        if (
            isinstance(summary, dict)
            and isinstance(summary.get("tools"), int)
            and isinstance(summary.get("tokens"), int)
        ):
            facts |= {"found": summary["tools"], "foundTokens": summary["tokens"]}
    return facts if tools else None


def transport_of(client: Client) -> str:
    """Return the name of a client's transport."""
    connection = client.session.connection
    transport = None if connection is None else connection.transport
    name = type(getattr(transport, "inner", transport)).__name__
    return TRANSPORTS.get(name, "in memory")


async def measure(client: Client) -> dict[str, float | None]:
    """Return the median times of a list request and a ping, in milliseconds, or None for an error response."""
    lists: dict[str, Callable[[], Awaitable[object]]] = {
        "resources": client.list_resources,
        "tools": client.list_tools,
        "prompts": client.list_prompts,
    }
    offered = next((ask for name, ask in lists.items() if getattr(client.capabilities, name) is not None), None)
    first = None if offered is None else await timed(offered, 1)
    return {
        "firstList": first,
        "list": None if offered is None else await timed(offered, ROUNDS),
        "ping": await timed(client.ping, ROUNDS),
    }


async def timed(ask: Callable[[], Awaitable[object]], rounds: int) -> float | None:
    """Return the median time of a request in milliseconds, or None if it fails."""
    took = []
    for _ in range(rounds):
        started = time.perf_counter()
        try:
            await ask()
        except MCPError:
            return None
        took.append(time.perf_counter() - started)
    return milliseconds(statistics.median(took))


def milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


async def accepted(target: ServerTarget, options: argparse.Namespace, spoken: str) -> dict[str, bool]:
    """Return whether the server accepts each protocol revision. Opens one connection per revision."""
    from carrel.protocol.revisions import REVISIONS

    limited = argparse.Namespace(**{**vars(options), "timeout": min(options.timeout, 10.0)})

    async def accepts(name: str) -> bool:
        try:
            async with open_client(target, limited, revision=name, stderr=lambda _: None) as client:
                return client.revision == name
        except MCPError:
            return False

    others = [name for name in REVISIONS if name != spoken]
    with Bar.of(options) as bar:
        bar.update(f"connecting in {len(others)} other revisions")
        found = dict(zip(others, await asyncio.gather(*map(accepts, others)), strict=True))
    return {name: found.get(name, True) for name in REVISIONS}


def written(facts: dict[str, Any]) -> str:
    """Return the facts about a server as tables."""
    server = facts["server"] or {}
    title = server.get("title")
    name = " ".join(str(part) for part in (server.get("name", "(without a name)"), server.get("version", "")) if part)
    rows = [
        ("server", shown(f"{title} ({name})" if title else name)),
        ("revision", f"{facts['revision']} ({facts['era']})"),
        ("transport", facts["transport"]),
    ]
    if "accepts" in facts:
        rows.append(("accepts", ", ".join(name for name, accepts in facts["accepts"].items() if accepts)))
    if facts.get("tools"):
        rows.append(("tools", tools_of(facts["tools"])))
    timing = [(label_of(name), duration(value / 1000)) for name, value in facts["timing"].items() if value is not None]
    capabilities = [(shown(kind), shown(details(value), 300)) for kind, value in facts["capabilities"].items()]
    tables = [table("Server", rows), table("Capabilities", capabilities), table("Timing", timing)]
    if facts["instructions"]:
        lines = [f"  {shown(line)}" for line in facts["instructions"].strip().splitlines()]
        tables.append("\n".join([table("Instructions", [("",)]).splitlines()[0], *lines]))
    return "\n\n".join(one for one in tables if one)


def tools_of(facts: dict[str, int]) -> str:
    """Describe the number of tools and their tokens in the context of a model."""
    listed = f"{facts['listed']}, about {facts['tokens']} tokens of a model's context"
    if "found" not in facts:
        return listed
    return f"{listed}, instead of {facts['found']}, about {facts['foundTokens']}"


def label_of(name: str) -> str:
    return {"connect": "connect", "firstList": "first list"}.get(name, f"{name} (median of {ROUNDS})")


def details(value: Any) -> str:
    """Describe the settings of a capability: "listChanged, subscribe"."""
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(
        name if setting in (True, {}) else f"{name}: {compact(setting)}" for name, setting in value.items()
    )


def compact(value: Any) -> str:
    return msgspec.json.encode(value).decode()
