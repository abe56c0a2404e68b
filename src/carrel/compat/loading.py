"""Servers of programs written for ``mcp`` 1.x or ``fastmcp``, as servers of Carrel."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from carrel.compat.serving import DEFAULT_PATH, Guarded, ServedServer
from carrel.errors import ConfigError
from carrel.server.app import Server

if TYPE_CHECKING:
    from carrel.transports.server.authorizer import Authorizer

__all__ = ["application_of", "authorizer_of", "only_server", "run_program", "server_in", "take_server"]

#: Authorization that programs have for the endpoints of their servers.
GUARDS: WeakKeyDictionary[Server[Any], Callable[[str], Guarded | None]] = WeakKeyDictionary()
#: Attributes of high-level servers that hold their low-level server.
INNER = ("_mcp_server", "_lowlevel_server")


class Taken(BaseException):
    """Raised where a server begins to serve, so that the program ends there."""


def server_in(value: object) -> ServedServer | None:
    """Return the low-level server of a value: a ``FastMCP`` or ``MCPServer`` of a mirror, or a low-level server."""
    mirrored = any(each.__module__.startswith("carrel.compat.") for each in type(value).__mro__)
    for name in INNER if mirrored else ():
        value = getattr(value, name, value)
    return value if isinstance(value, ServedServer) else None


def application_of(value: object) -> Server[Any] | None:
    """Return the server of Carrel that answers for a server of ``mcp`` or ``fastmcp``; None for other values."""
    found = server_in(value)
    return None if found is None else _application(found)


def _application(server: ServedServer, options: Any = None) -> Server[Any]:
    app = server.application(options)
    if server.guard is not None:
        GUARDS[app] = server.guard
    return app


def authorizer_of(app: Server[Any]) -> Authorizer | None:
    """Return the authorizer with the authorization that the program has given to a server; None without any."""
    guard = GUARDS.get(app)
    if guard is None or guard(DEFAULT_PATH) is None:
        return None
    from carrel.compat.authorizer import ProgramAuthorizer  # which imports Starlette

    return ProgramAuthorizer(guard)


def only_server(names: dict[str, Any], program: list[str], *, on_stdio: bool = False) -> Server[Any]:
    """Return the server that a program has defined, by the names of its module, and has not run.

    With ``on_stdio``, it declares itself as on stdio.

    Raises:
        ConfigError: there is none, or several.
    """
    found = {id(server): name for name, value in names.items() if (server := server_in(value)) and not server.served}
    if len(found) != 1:
        shown = " ".join(program[:2]) if program[0] == "-m" else program[0]
        choices = " or ".join(f"{shown}:{name}" for name in found.values())
        hint = f"; it has {len(found)} servers, name one: {choices}" if found else ""
        raise ConfigError(f"{shown} ended without running a server{hint}")
    server = server_in(names[next(iter(found.values()))])
    assert server is not None
    return _application(server, server.stdio_options() if on_stdio else None)


@contextmanager
def take_server() -> Iterator[list[Server[Any]]]:
    """End the block where a server begins to serve, and add the server to the list, as one of Carrel."""
    taken: list[Server[Any]] = []

    def take(server: ServedServer, options: Any) -> None:
        taken.append(_application(server, options))
        raise Taken

    ServedServer.on_begin = take
    try:
        yield taken
    except BaseException:
        if not taken:  # a task group raises a group with Taken in it, and a program may raise its own exception
            raise
    finally:
        ServedServer.on_begin = None


def run_program(arguments: list[str]) -> dict[str, Any]:
    """Run a file, a folder with a ``__main__.py``, or a module (``-m``) as a program; return its names."""
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, str(Path.cwd()))
        return runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    sys.argv = arguments
    sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
    return runpy.run_path(arguments[0], run_name="__main__")
