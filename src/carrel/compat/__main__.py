"""Command that runs a program written for ``mcp`` 1.x or ``fastmcp``: ``python -m carrel.compat FILE [ARGUMENTS]``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from carrel.compat.generation import find_fastmcp, find_generation
from carrel.compat.redirect import redirect_imports
from carrel.errors import ConfigError
from carrel.transports import held_output

__all__ = ["main", "run"]

USAGE = "usage: python -m carrel.compat FILE [ARGUMENTS]\n       python -m carrel.compat -m MODULE [ARGUMENTS]"
#: Modules that are loaded when a program runs a client, or a server of Carrel: it may have no server to serve.
OTHER_USES = (
    "carrel.client.client",
    "carrel.compat.mcp.client.session",
    "carrel.compat.mcp2.client.session",
    "carrel.server.serving",
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command with the arguments of the process.

    Raises:
        ConfigError: the program ended without running a server or a client.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] in ("-h", "--help") or given == ["-m"]:
        sys.exit(USAGE)
    redirect_imports(find_generation(given), find_fastmcp(given))
    run(given)


def run(program: list[str]) -> None:
    """Run a file, a folder with a ``__main__.py``, or a module (``-m``), after its imports were redirected.

    A program that defines one server and does not run it is served on stdio. What a program prints before a server
    begins to serve there goes to standard error.

    Raises:
        ConfigError: the program ended without running a server or a client, and without any output; or it has defined
            several servers.
    """
    from carrel.compat.loading import run_program
    from carrel.compat.serving import ServedServer

    names: dict[str, Any] = {}
    held_output.hold()
    try:
        with noted_output() as printed:
            try:
                names = run_program(program)
            except SystemExit as ended:
                if ended.code or printed or ServedServer.has_served or _has_other_use():
                    raise
        serve_defined(names, program, has_printed=bool(printed))
    finally:
        held_output.release()


def serve_defined(names: dict[str, Any], program: list[str], *, has_printed: bool) -> None:
    """Serve the server that a program has defined on stdio, unless the program has run a server or a client.

    Raises:
        ConfigError: the program has defined several servers, or none, and has printed nothing.
    """
    from carrel.compat.loading import only_server, server_in
    from carrel.compat.serving import ServedServer

    if ServedServer.has_served:
        return
    try:
        server = only_server(names, program, on_stdio=True)
    except ConfigError as error:
        if _has_other_use():
            return
        if has_printed and not any(map(server_in, names.values())):
            sys.stderr.write(f"carrel: {error}\n")
            return
        raise
    server.run()


def _has_other_use() -> bool:
    """Return whether the program may have run a client, or a server of Carrel."""
    return any(name in sys.modules for name in OTHER_USES)


@contextmanager
def noted_output() -> Iterator[list[bool]]:
    """Context manager with a list that has an item after the first output of a program, such as its help."""
    found: list[bool] = []
    output = sys.stdout

    def write(text: str) -> int:
        found.append(True)
        del output.write  # from now on, output is written as usual
        return output.write(text)

    output.write = write  # type: ignore[method-assign]
    try:
        yield found
    finally:
        vars(output).pop("write", None)


if __name__ == "__main__":
    try:
        main()
    except ConfigError as error:
        sys.exit(f"carrel.compat: {error}")
