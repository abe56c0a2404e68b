"""The baseline of the comparison: the cost of decoding a request, looking up the response and encoding it.

It has no checks, no error handling, no handlers, and only the two result shapes of the revisions. A server that uses
msgspec cannot be much faster for the same requests, so ratios to this server are valid on any machine.
"""

from typing import Any

import content
import msgspec


class Params(msgspec.Struct):
    uri: str = ""
    name: str = ""
    arguments: dict[str, int] = {}
    meta: msgspec.Raw = msgspec.field(default=msgspec.Raw(), name="_meta")


class Request(msgspec.Struct):
    method: str
    id: int | str | None = None
    params: Params = msgspec.field(default_factory=Params)


class Reply(msgspec.Struct):
    id: int | str | None
    result: Any
    jsonrpc: str = "2.0"


class Resource(msgspec.Struct, rename="camel"):
    uri: str
    name: str
    description: str
    mime_type: str = "text/plain"


decode = msgspec.json.Decoder(Request).decode
encode = msgspec.json.Encoder().encode

INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"resources": {"subscribe": True}, "tools": {}},
    "serverInfo": {"name": content.NAME, "version": content.VERSION},
}
DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"resources": {}, "tools": {}},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": content.NAME, "version": content.VERSION}},
}
TOOL = {
    "name": "add",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
}
COMPLETE = {"resultType": "complete"}
CACHEABLE = {**COMPLETE, "ttlMs": 0, "cacheScope": "private"}

listed: list[Resource] = []
contents: dict[str, dict[str, Any]] = {}


def fill(stock: str) -> None:
    """Register the resources of a small or a full server."""
    for entry in content.entries(stock):
        listed.append(Resource(entry.uri, entry.name, entry.description, entry.mime_type))
        key = "text" if isinstance(entry.body, str) else "blob"
        contents[entry.uri] = {"uri": entry.uri, "mimeType": entry.mime_type, key: entry.body}


def read(uri: str) -> dict[str, Any]:
    """The contents of one resource: a registered one, or else a book."""
    if (found := contents.get(uri)) is not None:
        return {"contents": [found]}
    author, _, title = uri.removeprefix("book://").partition("/")
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": content.book(author, title)}]}


def answer(request: Request) -> bytes:
    """The encoded answer to one request."""
    params = request.params
    match request.method:
        case "resources/read":
            result = read(params.uri)
        case "tools/call":
            total = sum(params.arguments.values())
            result = {"content": [{"type": "text", "text": str(total)}], "structuredContent": {"result": total}}
        case "resources/list":
            result = {"resources": listed}
        case "tools/list":
            result = {"tools": [TOOL]}
        case "initialize":
            result = INITIALIZED
        case "server/discover":
            result = DISCOVERED
        case _:
            result = {}
    if len(params.meta):
        result = {**result, **(COMPLETE if request.method == "tools/call" else CACHEABLE)}
    return encode(Reply(request.id, result))
