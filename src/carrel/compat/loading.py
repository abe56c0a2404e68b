"""Servers of programs written for ``mcp`` 1.x or ``fastmcp``, as servers of Carrel."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from carrel.compat.application import Application
from carrel.compat.mcp.server.lowlevel.server import Server
from carrel.compat.mcp.server.models import InitializationOptions

__all__ = ["application_of", "run_program", "server_in", "take_server"]

FASTMCP = ("carrel.compat.fastmcp.server.server", "carrel.compat.mcp.server.fastmcp.server")


class Taken(BaseException):
    """Raised where a server begins to serve, so that the program ends there."""


def server_in(value: object) -> Server[Any, Any] | None:
    """Return the low-level server of a value: a ``FastMCP`` of either package, or a low-level server."""
    kinds = tuple(sys.modules[name].FastMCP for name in FASTMCP if name in sys.modules)
    found = value._mcp_server if isinstance(value, kinds) else value
    return found if isinstance(found, Server) else None


def application_of(value: object) -> Application | None:
    """Return the server of Carrel that answers for a server of ``mcp`` or ``fastmcp``; None for other values."""
    found = server_in(value)
    return None if found is None else found.application()


@contextmanager
def take_server() -> Iterator[list[Application]]:
    """End the block where a server begins to serve, and add the server to the list, as one of Carrel."""
    taken: list[Application] = []

    def take(server: Server[Any, Any], options: InitializationOptions | None) -> None:
        taken.append(server.application(options))
        raise Taken

    Server.on_begin = take
    try:
        yield taken
    except BaseException:
        if not taken:  # a task group raises a group with Taken in it, and a program may raise its own exception
            raise
    finally:
        Server.on_begin = None


def run_program(arguments: list[str]) -> dict[str, Any]:
    """Run a file, a folder with a ``__main__.py``, or a module (``-m``) as a program; return its names."""
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, str(Path.cwd()))
        return runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    sys.argv = arguments
    sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
    return runpy.run_path(arguments[0], run_name="__main__")
