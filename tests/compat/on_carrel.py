"""A program on Carrel, with the packages of the original's environment beside our own, for ``support.forking``.

on_carrel.py PACKAGES PROGRAM ARGUMENT…

``carrel.compat.fastmcp.http_library`` is imported later, because it depends on the version of FastMCP.
"""

import site
import sys

import carrel.client.client
import carrel.compat.fastmcp.server.server
import carrel.compat.loading
import carrel.compat.mcp.client.session
import carrel.compat.mcp2.client.session
import carrel.compat.mcp2.server.mcpserver
from carrel.compat import generation
from carrel.compat.__main__ import main

sys.path[0] = ""  # not this folder
site.addsitedir(sys.argv.pop(1))
# There may be another version of FastMCP than where the modules were imported.
generation.installed_fastmcp.cache_clear()
carrel.compat.fastmcp.__version__ = generation.fastmcp_version()
main(sys.argv[1:])
