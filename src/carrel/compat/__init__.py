"""Faces of other packages: programs written for them run on Carrel.

``carrel.compat.mcp`` has the modules, names and behaviour of ``mcp`` 1.x that programs use. Either import from there:

    from carrel.compat.mcp.server.fastmcp import FastMCP

or leave the program as it is and run it with ``python -m carrel.compat FILE``, which redirects its imports.
"""

from carrel.compat.redirect import redirect_imports
from carrel.extras import explain_missing, find_missing

__all__ = ["redirect_imports"]

if (_missing := find_missing("compat")) is not None:
    raise ModuleNotFoundError(explain_missing(_missing, "compat"), name=_missing.name)
