"""How the tests of the protocol speak: messages to bytes, replies to dicts, and connections that are ready."""

from __future__ import annotations

import json
from typing import Any

from carrel.protocol.description import Description
from carrel.protocol.server import Call, ErrorResponse, ServerProtocol
from carrel.wire.base import Implementation
from carrel.wire.lifecycle import ServerCapabilities

OLDEST, MARCH, JUNE, NOVEMBER, LATEST = "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
HANDSHAKES = (OLDEST, MARCH, JUNE, NOVEMBER)
ALL = (*HANDSHAKES, LATEST)
PREFIX = "io.modelcontextprotocol/"
META = {f"{PREFIX}protocolVersion": LATEST, f"{PREFIX}clientCapabilities": {}}
CLIENT = {"name": "tester", "version": "1"}

DESCRIPTION = Description(Implementation("server", "1.0"), ServerCapabilities)


def request(method: str, params: Any = None, id: Any = 1, revision: str | None = None) -> dict[str, Any]:
    """Make a request; of a stateless revision with the ``_meta`` that belongs there."""
    if revision == LATEST:
        params = {**(params or {}), "_meta": {**META, **(params or {}).get("_meta", {})}}
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


def initialize(revision: str, id: Any = 0) -> dict[str, Any]:
    """Make an initialize request."""
    return request("initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT}, id)


def pack(message: Any) -> bytes:
    """Encode a message, if it is not bytes already."""
    return message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()


def connected(revision: str | None = None) -> ServerProtocol:
    """Return a connection; after the handshake, if ``revision`` has one."""
    connection = ServerProtocol(DESCRIPTION)
    if revision in HANDSHAKES:
        call = connection.receive(pack(initialize(revision)))
        assert isinstance(call, Call)
        connection.reply(call, connection.initialize(call))
    return connection


def called(connection: ServerProtocol, message: Any) -> Call:
    """Send what must be accepted as a request."""
    event = connection.receive(pack(message))
    assert isinstance(event, Call), event
    return event


def refused(connection: ServerProtocol, message: Any) -> dict[str, Any]:
    """Send what must be refused, and return the reply."""
    event = connection.receive(pack(message))
    assert isinstance(event, ErrorResponse), event
    return json.loads(event.reply)


def error_of(connection: ServerProtocol, message: Any) -> dict[str, Any]:
    """Send what must be refused, and return the error."""
    return refused(connection, message)["error"]
