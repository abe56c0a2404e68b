"""Runs a program on the original package as ``carrel run --compat`` does: ``launch.py FILE[:NAME]`` or ``-m MODULE``.

A file that runs nothing itself has its server served on stdio: the one with the name, or the first.
"""

from __future__ import annotations

import ast
import os
import runpy
import sys


def runs_itself(file):
    """Return whether a file has code that runs only in a program, or that ends with a call at its top level."""
    with open(file, encoding="utf-8") as text:
        body = ast.parse(text.read()).body
    if any(isinstance(each, ast.If) and "__name__" in ast.unparse(each.test) for each in body):
        return True
    calls = [ast.unparse(each) for each in body if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)]
    return any(".run" in call for call in calls)


def serve(server):
    """Serve on stdio until the client is gone."""
    if callable(getattr(server, "run_stdio_async", None)):
        server.run("stdio")
        return
    import anyio
    from mcp.server.stdio import stdio_server

    async def main():
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(main)


def servers_in(names):
    """Return the servers among values, by their names."""
    kinds = []
    for module, name in (
        ("mcp.server.fastmcp", "FastMCP"),
        ("mcp.server.mcpserver", "MCPServer"),
        ("mcp.server.lowlevel", "Server"),
        ("fastmcp.server.server", "FastMCP"),
    ):
        if module in sys.modules and hasattr(sys.modules[module], name):
            kinds.append(getattr(sys.modules[module], name))
    found = {}
    for name, value in names.items():
        if isinstance(value, tuple(kinds)) and not any(value is other for other in found.values()):
            found[name] = value
    return found


def imported_ahead():
    """Import packages that programs use, so that a fork does not have to: see ``support.forking``."""
    import fastmcp
    import mcp.client.streamable_http
    import mcp.server.fastmcp
    import mcp.server.mcpserver
    import mcp.server.streamable_http_manager

    return fastmcp, mcp


def main():
    """Run the program in the arguments."""
    paths = os.environ["PYTHONPATH"].split(os.pathsep)  # which a fork does not read by itself
    if sys.argv[1] == "-m":
        sys.argv = sys.argv[2:]
        sys.path[0:1] = [os.getcwd(), *paths]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        return
    file, _, wanted = sys.argv[1].partition(".py:")
    file += "" if file.endswith(".py") else ".py"
    sys.argv = [file, *sys.argv[2:]]
    sys.path[0:1] = [os.path.dirname(os.path.abspath(file)), *paths]
    if wanted or not runs_itself(file):
        found = servers_in(runpy.run_path(file, run_name="server"))
        if found:
            name = wanted or next(iter(found))
            with open(os.environ.get("LAUNCHED", os.devnull), "w") as note:
                note.write(name if len(found) > 1 else "")
            serve(found[name])
            return
    runpy.run_path(file, run_name="__main__")


main()
