"""Startup message of ``carrel serve --http``: its URL, how to connect clients, and a curl example."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import which

from carrel import __version__
from carrel.cli.server.sharing import Targets
from carrel.protocol.encoding import encode
from carrel.protocol.methods import READ_RESOURCE
from carrel.protocol.revisions import LATEST
from carrel.server.greeting import entry_of
from carrel.wire.base import ClientCapabilities, Implementation, RequestMeta
from carrel.wire.resources import ReadResourceParams, Resource

__all__ = ["choose", "curl", "first_read", "welcome"]

SMALL = 8 * 1024
#: Maximum line length of a command, if it can be wrapped.
LINE = 72


def welcome(name: str, url: str, targets: Targets, old: str | None, tokens: str | None) -> list[str]:
    """Return the lines of the startup message before the example.

    ``old`` is the URL of the HTTP+SSE transport, ``tokens`` the file of accepted tokens or their issuer, if callers
    need a token.
    """
    shared = [*targets.shared, *(f"{path} (skills)" for path in targets.skills)]
    arguments = (*targets.shared, *(f"--skills={path}" for path in targets.skills), *targets.flags)
    command = this_program()
    install = f"{command} install"
    remote = f"{quote(url)} --name {quote(name)}"
    headers = None if tokens is None else {"Authorization": "Bearer TOKEN"}
    target = quote(url) if tokens is None else f"--header {quote('Authorization: Bearer TOKEN')} {quote(url)}"
    return [
        "",
        f"  carrel {__version__} is ready: {name!r}",
        "",
        f"    URL      {url}",
        *([] if old is None else [f"    old URL  {old} (HTTP+SSE)"]),
        *(f"    {'shares' if number == 0 else '':<8} {path}" for number, path in enumerate(shared)),
        *([] if tokens is None else [f"    tokens   {tokens}"]),
        f"    list     {command} ls {target} (likewise: find … WORDS, watch …)",
        "    stop     Ctrl-C",
        "",
        "  Connect an application (Claude Desktop starts its own server):",
        *([] if tokens else [f"    {install} vscode {remote}", f"    {install} cursor {remote}"]),
        f"    {install} claude-desktop {' '.join(quote(argument) for argument in arguments)}",
        "  or configure another application by hand:",
        *indent(entry_of(name, url, headers)),
        "",
    ]


def first_read(url: str, example: Resource | None, *, token: bool, policy: bool) -> list[str]:
    """Return lines that read ``example`` with curl, or say why there is none.

    ``token`` is whether callers need a token, ``policy`` whether a policy can hide files from callers without a role.
    """
    if example is not None:
        return [f"  Read {example.name} with curl:", *indent(curl(url, example.uri, token=token))]
    if policy:
        return ["  Callers without a role can read no file now: carrel policy explain says who may read what."]
    return ["  There is no file yet. New files appear as resources."]


def choose(resources: Sequence[Resource]) -> Resource | None:
    """Return the resource to use as the example: preferably a small text file, else any file."""
    files = [resource for resource in resources if resource.mime_type != "inode/directory"]
    texts = [resource for resource in files if str(resource.mime_type).startswith("text/")]
    small = [resource for resource in texts if isinstance(resource.size, int) and 0 < resource.size <= SMALL]
    return next(iter([*small, *texts, *files]), None)


def curl(url: str, uri: str, *, token: bool = False) -> str:
    """Return a curl command that reads a resource: one stateless request of the latest revision, headers included.

    With ``token``, the command has a placeholder for a bearer token.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#request-metadata
    """
    method = READ_RESOURCE.method
    meta = RequestMeta(
        protocol_version=LATEST.name,
        client_info=Implementation(name="curl", version="1"),
        capabilities=ClientCapabilities(),
    )
    body = encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": ReadResourceParams(uri=uri, meta=meta)})
    headers = [
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"MCP-Protocol-Version: {LATEST.name}",
        f"Mcp-Method: {method}",
        f"Mcp-Name: {uri}",
        *(["Authorization: Bearer TOKEN"] if token else []),
    ]
    parts = [f"curl -s {quote(url)}", *(f"-H {quote(header)}" for header in headers), f"-d {quote(body.decode())}"]
    if sys.platform == "win32":
        return " ".join(parts)
    lines = parts[:1]
    for part in parts[1:]:
        fits = len(lines[-1]) + len(part) < LINE
        lines[-1:] = [f"{lines[-1]} {part}"] if fits else [f"{lines[-1]} \\", f"  {part}"]
    return "\n".join(lines)


def this_program() -> str:
    """Return the command as it was invoked, so that it can be copied from the terminal."""
    program = Path(sys.argv[0])
    if which(program.name) == str(program) and program.stem == "carrel":
        return program.stem
    return quote(str(program)) if program.stem == "carrel" else f"{quote(sys.executable)} -m carrel"


def quote(text: str) -> str:
    """Quote an argument for the default shell of the platform."""
    if sys.platform != "win32":
        return shlex.quote(text)
    return '"' + text.replace('"', '\\"') + '"'


def indent(text: str) -> list[str]:
    return [f"    {line}" for line in text.split("\n")]
