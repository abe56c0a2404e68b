"""``carrel run`` and ``carrel dev`` as a program for ``support.forking``.

It imports what servers and programs for ``mcp`` and FastMCP do, and no client: if the module of the client has been
imported, Carrel takes a program for one that runs a client.
"""

import os
import sys

import uvicorn  # noqa: F401
import uvloop  # noqa: F401
import watchfiles  # noqa: F401

import carrel.cli.server.dev
import carrel.cli.server.run
import carrel.compat.authorizer
import carrel.compat.fastmcp.server.server
import carrel.compat.loading
import carrel.compat.mcp2.server.mcpserver
import carrel.compat.serving
import carrel.transports.process
import carrel.transports.server.stdio
import carrel.transports.server.uvicorn  # noqa: F401
from carrel.cli import main

sys.argv[0] = "carrel"
# As with ``python -m carrel``: the working folder, and not the folders of the tests.
sys.path[0] = os.getcwd()
sys.path.remove(os.path.dirname(os.path.dirname(__file__)))
sys.exit(main())
