"""Code in the first argument, for ``support.forking``: as ``python -c``, after what most of it imports."""

import sys

import carrel.cli.server.load
import carrel.compat.fastmcp.server.server
import carrel.compat.mcp2.server.mcpserver  # noqa: F401

sys.path[0] = ""
exec(sys.argv.pop(1), {"__name__": "__main__"})
