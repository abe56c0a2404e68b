"""Runs ``carrel run --compat`` with the arguments, in the process that runs this file."""

from __future__ import annotations

import os
import sys


def imported_ahead():
    """Import packages that most programs use, so that a fork does not have to: see ``support.forking``."""
    import anyio.from_thread
    import httpx
    import jsonschema
    import msgspec
    import pydantic.networks
    import pydantic.type_adapter
    import starlette.applications
    import starlette.middleware.cors
    import starlette.requests
    import starlette.responses
    import starlette.routing

    import carrel.cli.server.run

    return anyio, carrel, httpx, jsonschema, msgspec, pydantic, starlette


def main():
    """Run the command."""
    from carrel.cli import main as carrel

    sys.path[0:1] = os.environ["PYTHONPATH"].split(os.pathsep)
    sys.argv[0] = "carrel"
    sys.exit(carrel(["run", "--compat", *sys.argv[1:]]))


main()
