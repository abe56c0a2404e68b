"""Raw HTTP for the soak: connections from any address of 127.0.0.0/8, requests with nothing checked."""

import asyncio
import json
from typing import Any

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
REVISION = "2025-11-25"


class Target:
    """The server, as one client at one address sees it."""

    def __init__(self, port: int, address: str) -> None:
        self.port = port
        self.address = address

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a new connection."""
        return await asyncio.wait_for(
            asyncio.open_connection("127.0.0.1", self.port, local_addr=(self.address, 0), limit=64 * 1024 * 1024), 10
        )

    async def send(self, request: bytes) -> bytes:
        """Send a request on a new connection, and return all received bytes."""
        reader, writer = await self.open()
        try:
            writer.write(request)
            await writer.drain()
            return await asyncio.wait_for(reader.read(), 30)
        finally:
            writer.transport.abort()


def post(body: bytes, headers: dict[str, str], *, close: bool = True) -> bytes:
    """Return an HTTP request with a JSON body."""
    lines = {
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(body)),
        **({"Connection": "close"} if close else {}),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


def stateless(method: str, *, close: bool = True, meta: dict[str, Any] | None = None, **params: Any) -> bytes:
    """Return a request of the stateless revision."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": {**META, **(meta or {})}, **params}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    name = params.get("uri") or params.get("name")
    if name:
        headers["Mcp-Name"] = name
    return post(json.dumps(message).encode(), headers, close=close)


def initialize() -> bytes:
    """Return a request that opens a session."""
    params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
    return post(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode(), {})


def in_session(session: str, method: str, id: int = 1, *, close: bool = True, **params: Any) -> bytes:
    """Return a request of a session."""
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": REVISION}
    return post(json.dumps(message).encode(), headers, close=close)


def session_of(answer: bytes) -> str:
    """Return the id of the session that an answer opens; an empty one if it opens none."""
    for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"mcp-session-id":
            return value.strip().decode()
    return ""
