"""Checks of a connection that has failed: which step of connecting to a server works, and which does not."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from carrel.errors import AuthorizationError, HTTPStatusError, MCPError, PeerError, RequestTimeout
from carrel.host.hosted_server import CAUSES, HostedServer

__all__ = ["ConnectionCheck", "ConnectionStep", "check_connection"]

ConnectionStep: TypeAlias = Literal["dns", "tcp", "tls", "http", "version", "authorization", "program", "initialize"]
#: Seconds that a step may take.
PATIENCE = 5.0


class ConnectionCheck(NamedTuple):
    """Outcome of a step. ``ok`` is None if the step was not reached."""

    step: ConnectionStep
    ok: bool | None
    detail: str = ""


async def check_connection(server: HostedServer) -> list[ConnectionCheck]:
    """Return the steps of connecting to a server that has failed, in their order.

    The network is tried again; which of the later steps has failed follows from the error of the server.
    """
    error = server.error
    config = server.resolved or server.config
    if config.url is not None:
        found = await _network(config.url)
        reached = all(check.ok for check in found)
        return found + _protocol(error, reached=reached)
    if config.command is None:
        return [ConnectionCheck("initialize", False, _cause(server))]
    program = shutil.which(config.command, path=config.env.get("PATH"))
    if program is None:
        return [
            ConnectionCheck("program", False, f"there is no program {config.command}"),
            ConnectionCheck("initialize", None),
        ]
    return [ConnectionCheck("program", True, program), ConnectionCheck("initialize", False, _cause(server))]


def _cause(server: HostedServer) -> str:
    return "" if server.cause is None else CAUSES[server.cause]


async def _network(url: str) -> list[ConnectionCheck]:
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    rest: list[ConnectionStep] = ["dns", "tcp", *(["tls"] if secure else [])]  # type: ignore[list-item]
    found: list[ConnectionCheck] = []
    try:
        async with asyncio.timeout(PATIENCE):
            addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found.append(ConnectionCheck("dns", True, ", ".join(dict.fromkeys(str(each[4][0]) for each in addresses))))
        async with asyncio.timeout(PATIENCE):
            _, writer = await asyncio.open_connection(host, port)
        found.append(ConnectionCheck("tcp", True, f"port {port}"))
        if secure:
            async with asyncio.timeout(PATIENCE):
                await writer.start_tls(ssl.create_default_context(), server_hostname=host)
            found.append(ConnectionCheck("tls", True, ""))
        writer.close()
    except (OSError, UnicodeError) as error:  # a TimeoutError is one
        step = rest[len(found)]
        found.append(ConnectionCheck(step, False, str(error) or "it took too long"))
    return found + [ConnectionCheck(step, None) for step in rest[len(found) :]]


def _protocol(error: Exception | None, *, reached: bool) -> list[ConnectionCheck]:
    steps: list[ConnectionStep] = ["http", "authorization", "version", "initialize"]
    if not reached:
        return [ConnectionCheck(step, None) for step in steps]
    failed = _step_of(error)
    at = steps.index(failed)
    detail = str(error) if isinstance(error, MCPError) else ""
    return [
        ConnectionCheck(step, True if place < at else False if place == at else None, detail if place == at else "")
        for place, step in enumerate(steps)
    ]


def _step_of(error: Exception | None) -> ConnectionStep:
    if isinstance(error, AuthorizationError) or (isinstance(error, HTTPStatusError) and error.status in (401, 403)):
        return "authorization"
    if isinstance(error, PeerError):
        return "version" if "version" in str(error).lower() or "revision" in str(error).lower() else "initialize"
    if isinstance(error, RequestTimeout):
        return "initialize"
    return "http"
