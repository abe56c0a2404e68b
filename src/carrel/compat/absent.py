"""Replacements for modules and names of ``mcp`` and ``fastmcp`` that the mirrors do not have."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

__all__ = ["ORIGINAL", "NotMirroredError", "explain"]

PACKAGE = "carrel.compat"
#: Modules that are not mirrored, and what to use in their place.
MODULES = {
    "fastmcp.cli": "the command is `carrel`",
    "fastmcp.client.sampling.handlers": "give Client(sampling_handler=) a function",
    "fastmcp.server.tasks": "use carrel.Server and @app.tool(task=...)",
    "mcp.cli": "the command is `carrel`",
    "mcp.client.experimental": "use carrel.Client, whose calls follow tasks by themselves",
    "mcp.client.websocket": "use Streamable HTTP",
    "mcp.server.experimental": "use carrel.Server and @app.tool(task=...)",
    "mcp.server.fastmcp": "mcp 2 has mcp.server.mcpserver.MCPServer; programs for mcp 1 run with --compat=mcp1",
    "mcp.server.mcpserver": "mcp 1 has mcp.server.fastmcp.FastMCP; programs for mcp 2 run with --compat=mcp2",
    "mcp.server.runner": "use Server.run with a pair of streams, or carrel.Server",
    "mcp.server.websocket": "use Streamable HTTP",
    "mcp.shared.direct_dispatcher": "use Client with a server of this process, or carrel.Client",
    "mcp.shared.experimental": "use carrel.Server and @app.tool(task=...)",
    "mcp.shared.jsonrpc_dispatcher": "use Server.run with a pair of streams, or carrel.Server",
}
#: Names that have another name in the other generation, by generation.
RENAMED = {
    1: {"Client": "ClientSession", "MCPError": "McpError", "MCPServer": "mcp.server.fastmcp.FastMCP"},
    2: {
        "FastMCP": "mcp.server.mcpserver.MCPServer",
        "McpError": "MCPError",
        "RequestContext": "ServerRequestContext and ClientRequestContext",
        "streamablehttp_client": "streamable_http_client",
    },
}
#: Names that are not mirrored, and what to use in their place.
NAMES = {
    "Dispatcher": MODULES["mcp.shared.jsonrpc_dispatcher"],
    "ServerRunner": MODULES["mcp.server.runner"],
    "TaskConfig": MODULES["fastmcp.server.tasks"],
}
#: What to do if nothing in Carrel replaces a module or name.
ORIGINAL = "run the program without --compat, with the package itself"
#: Message of a failed import of a name. In Python 3.11, only the message has both the name and the module.
CANNOT_IMPORT = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")


class NotMirroredError(ModuleNotFoundError):
    """A module of another package that ``carrel.compat`` does not have. The message says what to use instead."""

    def __init__(self, name: str, usual: str = ORIGINAL) -> None:
        parts = name.split(".")
        known = (MODULES.get(".".join(parts[:length])) for length in range(len(parts), 1, -1))
        hint = next((each for each in known if each), usual)
        super().__init__(f"{name} is not mirrored by {PACKAGE}: {hint}", name=name)


def explain(error: BaseException) -> str | None:
    """Return what to use in place of a module or name that a mirror does not have; None for other errors."""
    if isinstance(error, NotMirroredError):
        return str(error)
    name, module = None, None
    if isinstance(error, ImportError) and (found := CANNOT_IMPORT.match(str(error))):
        name, module = found[1], sys.modules.get(found[2])
    elif isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        name, module = error.name, error.obj
    if name is None or module is None or not module.__name__.startswith(f"{PACKAGE}."):
        return None
    return f"{_original(module)} has no {name} in {PACKAGE}{_instead(name, module)}"


def _original(module: ModuleType) -> str:
    """Return the name of the module of a package that a module mirrors."""
    return re.sub(r"^mcp2\b", "mcp", module.__name__.removeprefix(f"{PACKAGE}."))


def _instead(name: str, module: ModuleType) -> str:
    """Return what to use in place of a name, as the end of a message."""
    from carrel.near_names import did_you_mean  # imported only after a mistake

    mirror = module.__name__.split(".")[2]
    if name in NAMES:
        return f": {NAMES[name]}"
    if mirror in ("mcp", "mcp2"):
        generation = 2 if mirror == "mcp2" else 1
        other = 3 - generation
        if name in _names(f"{PACKAGE}.{('mcp', 'mcp2')[other - 1]}{module.__name__[len(PACKAGE) + 1 + len(mirror) :]}"):
            renamed = RENAMED[generation].get(name)
            first = f"mcp {generation} has {renamed}" if renamed else f"mcp {other} has it"
            return f": {first}; programs for mcp {other} run with --compat=mcp{other}"
    return did_you_mean(name, _names(module.__name__)) or f": {ORIGINAL}"


def _names(module: str) -> Mapping[str, object]:
    """Return the names of a module; none if there is no such module."""
    try:
        found = import_module(module)
    except ImportError:
        return {}
    return dict.fromkeys((*vars(found), *getattr(found, "__all__", ())))
