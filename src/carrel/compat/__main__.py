"""Command that runs a program written for ``mcp`` 1.x or ``fastmcp``: ``python -m carrel.compat FILE [ARGUMENTS]``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from carrel.compat.redirect import redirect_imports

__all__ = ["main"]

SERVERS = ("carrel.compat.fastmcp.server.server", "carrel.compat.mcp.server.fastmcp.server")
USAGE = "usage: python -m carrel.compat FILE [ARGUMENTS]\n       python -m carrel.compat -m MODULE [ARGUMENTS]"


def main(arguments: list[str] | None = None) -> None:
    """Run a file, a folder with a ``__main__.py``, or a module (``-m``), with its imports redirected.

    A program that defines one FastMCP server and does not run it is served on stdio.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if not given or given[0] in ("-h", "--help") or given == ["-m"]:
        sys.exit(USAGE)
    redirect_imports()
    if given[0] == "-m":
        sys.argv = given[1:]
        sys.path.insert(0, str(Path.cwd()))
        names = runpy.run_module(given[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = given
        sys.path.insert(0, str(Path(given[0]).resolve().parent))
        names = runpy.run_path(given[0], run_name="__main__")
    kinds = tuple(sys.modules[name].FastMCP for name in SERVERS if name in sys.modules)
    found = {id(each): each for each in names.values() if isinstance(each, kinds)}
    servers = [each for each in found.values() if not each._mcp_server.served]
    if len(servers) == len(found) == 1:
        servers[0].run()


if __name__ == "__main__":
    main()
