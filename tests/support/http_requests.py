"""A client of the barest kind: requests with and without tokens, and what came of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx2

from carrel import Context, Limits, Server

__all__ = ["Reply", "ask", "build", "challenge_of", "initialize", "request"]

STATELESS = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
NAMES = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
CHALLENGE = re.compile(r'([a-z_]+)="([^"]*)"')


class Reply(NamedTuple):
    """What a request led to. ``challenge`` are the parameters of WWW-Authenticate."""

    status: int
    body: Any
    challenge: dict[str, str]
    headers: Mapping[str, str]

    @property
    def result(self) -> Any:
        assert self.status == 200, self
        return self.body["result"]


def challenge_of(response: httpx2.Response) -> dict[str, str]:
    """Read the parameters of WWW-Authenticate."""
    header = response.headers.get("www-authenticate")
    if header is None:
        return {}
    assert header.startswith("Bearer "), header
    return dict(CHALLENGE.findall(header))


def request(url: str, body: Any, headers: Mapping[str, str], token: str | None = None, method: str = "POST") -> Reply:
    """Send a request as it is."""
    given = {**ACCEPT, **headers, **({} if token is None else {"authorization": f"Bearer {token}"})}
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    with httpx2.Client(timeout=60) as client:
        response = client.request(method, url, content=content, headers=given)
    text = response.text
    if response.headers.get("content-type") == "text/event-stream":
        text = [line for line in text.splitlines() if line.startswith("data: {")][-1].removeprefix("data: ")
    return Reply(response.status_code, json.loads(text) if text else None, challenge_of(response), response.headers)


def ask(url: str, method: str, token: str | None = None, headers: Mapping[str, str] = {}, **params: Any) -> Reply:
    """Send a stateless request."""
    given = {"mcp-protocol-version": STATELESS, "mcp-method": method, **headers}
    if method in NAMES:
        given["mcp-name"] = params[NAMES[method]]
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    return request(url, body, given, token)


def initialize(url: str, token: str | None = None, revision: str = "2025-11-25") -> str:
    """Open a session, and return its id."""
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    reply = request(url, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, {}, token)
    assert reply.status == 200, reply
    return reply.headers["mcp-session-id"]


def build(limits: Limits | None = None) -> Server:
    """Return a server that says who calls it."""
    app = Server("guarded", limits=limits)

    @app.resource("memo://open")
    async def open_memo(context: Context) -> str:
        return context.principal.subject if context.principal else "nobody"

    @app.resource("secret://{name}")
    async def secret(name: str) -> str:
        return f"the secret {name}"

    @secret.complete("name")
    async def names(prefix: str, context: dict[str, str]) -> list[str]:
        return ["plan"]

    @app.tool()
    async def whoami(context: Context) -> dict[str, Any]:
        caller = context.principal
        if caller is None:
            return {"subject": None}
        return {
            "subject": caller.subject,
            "client": caller.client,
            "scopes": sorted(caller.scopes),
            "issuer": caller.issuer,
            "claims": sorted(caller.claims),
            "everything": repr((caller, context._call.headers)),
        }

    @app.tool()
    async def delete_book(title: str) -> str:
        return f"{title} is gone"

    app.add_resource_tools()
    return app
