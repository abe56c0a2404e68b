"""Command that runs a program written for ``mcp`` 1.x or ``fastmcp``: ``python -m carrel.compat FILE [ARGUMENTS]``."""

from __future__ import annotations

import sys

from carrel.compat.generation import find_generation
from carrel.compat.redirect import redirect_imports
from carrel.errors import ConfigError

__all__ = ["main"]

USAGE = "usage: python -m carrel.compat FILE [ARGUMENTS]\n       python -m carrel.compat -m MODULE [ARGUMENTS]"
#: Modules that are loaded when a program runs a client, or a server of Carrel: it may have no server to serve.
OTHER_USES = (
    "carrel.client.client",
    "carrel.compat.mcp.client.session",
    "carrel.compat.mcp2.client.session",
    "carrel.server.serving",
)


def main(arguments: list[str] | None = None) -> None:
    """Run a file, a folder with a ``__main__.py``, or a module (``-m``), with its imports redirected.

    A program that defines one server and does not run it is served on stdio.

    Raises:
        ConfigError: the program ended without running a server or a client.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] in ("-h", "--help") or given == ["-m"]:
        sys.exit(USAGE)
    redirect_imports(find_generation(given))
    from carrel.compat.loading import application_of, run_program, server_in
    from carrel.compat.serving import ServedServer

    names = run_program(given)
    found = {id(server): name for name, value in names.items() if (server := server_in(value)) and not server.served}
    if ServedServer.has_served:
        return
    program = " ".join(given[:2]) if given[0] == "-m" else given[0]
    if len(found) != 1:
        if any(name in sys.modules for name in OTHER_USES):
            return
        choices = " or ".join(f"{program}:{name}" for name in found.values())
        hint = f"; it has {len(found)} servers, name one: {choices}" if found else ""
        raise ConfigError(f"{program} ended without running a server{hint}")
    app = application_of(names[next(iter(found.values()))])
    assert app is not None
    app.run()


if __name__ == "__main__":
    try:
        main()
    except ConfigError as error:
        sys.exit(f"carrel.compat: {error}")
