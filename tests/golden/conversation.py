"""Golden conversations: what they look like and how a message is compared with what was expected.

A conversation is a file of JSON lines, ``REVISION/name.jsonl``. It is played twice, on stdio and over HTTP.

    # the first line says what the conversation pins; more comments may follow anywhere
    {"only": "http"}                        this conversation is for one transport ("http" or "stdio")
    {"app": "asking"}                       it is one with the application in that module ("app" if it does not say so)
    {"capabilities": {…}}                   the client declares these capabilities (none if it does not say so)
    {"client": {…}}                         the client sends this message (or batch)
    {"client": {…}, "bare": true}           … exactly as it is written: 2026-07-28: no `_meta`, no headers of 2026-07-28
    {"client": {…}, "headers": {…}}         … with these HTTP headers besides the usual ones; null takes one away
    {"raw": "{"}                            the client sends this text
    {"server": {…}}                         the server sends this message, and it is exactly this one
    {"server": {…}, "status": 400}          … with this HTTP status (200 unless it says otherwise)
    {"server": {…}, "headers": {…}}         … with these HTTP headers among the others
    {"server": null, "status": 202}         over HTTP the answer has no message in it
    {"status": 404}                         over HTTP the answer has this status, and whatever is in it does not matter
    {"get": {…}}                            the client sends a GET with these headers besides the usual ones (HTTP only)
    {"hangup": 2}                           the client cancels request 2 as 2026-07-28 has it: over HTTP by closing the
                                            stream of the answer, on stdio with a notification

Revisions with a handshake begin with one that is not written down, unless the conversation sends `initialize` itself.

Server lines that follow each other may come in any order if they travel on different HTTP streams; on one stream
the order is the one in the file. At the end nothing may be left over.

A string `<name>` in a server line stands for any string, and for the same one wherever `<name>` comes again, in client
lines too. `<any>` stands for anything, `<any text>` for any string, `<contains cursor>` for one with "cursor" in it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["HERE", "META", "Conversation", "Line", "compare", "conversations", "request_headers", "substitute"]

HERE = Path(__file__).parent
STATELESS = "2026-07-28"
#: Revisions whose clients say over HTTP which revision they speak.
VERSION_HEADER_SINCE = "2025-06-18"
WILDCARD = re.compile(r"<([^<>]+)>")
CLIENT = {"name": "golden-client", "version": "1.0"}
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
KINDS = ("client", "server", "raw", "get", "hangup")
SETTINGS = {"only", "app", "capabilities"}
#: Which parameter the Mcp-Name header repeats.
NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}


@dataclass
class Line:
    """One line: ``kind`` is the key that says what it is ("status" if it has no other), ``value`` what it holds."""

    number: int
    kind: str
    value: Any
    bare: bool = False
    status: int | None = None
    headers: dict[str, str | None] = field(default_factory=dict)


@dataclass
class Conversation:
    path: Path
    revision: str
    about: str
    only: str | None
    lines: list[Line]
    app: str = "app"
    capabilities: dict[str, Any] = field(default_factory=dict)

    @property
    def handshake(self) -> list[Line]:
        """The lines that come before the first one, unless they are written down."""
        if self.revision == STATELESS or any(
            line.kind == "client" and isinstance(line.value, dict) and line.value.get("method") == "initialize"
            for line in self.lines
        ):
            return []
        params = {"protocolVersion": self.revision, "capabilities": self.capabilities, "clientInfo": CLIENT}
        return [
            Line(0, "client", {"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params}),
            Line(0, "server", {"jsonrpc": "2.0", "id": "open", "result": "<any>"}),
            Line(0, "client", {"jsonrpc": "2.0", "method": "notifications/initialized"}),
        ]


def conversations() -> Iterator[Conversation]:
    """Read every conversation there is."""
    for path in sorted(HERE.glob("*/*.jsonl")):
        yield read(path)


def read(path: Path) -> Conversation:
    lines: list[Line] = []
    about, settings = "", dict[str, Any]()
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if text.startswith("#"):
            about = about or text.lstrip("# ")
        elif text.strip():
            if not about:
                raise ValueError(f"{path}:{number}: the first line has to say what the conversation pins")
            try:
                entry = json.loads(text)
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error
            if entry.keys() & SETTINGS:
                settings |= entry
                continue
            kind = next((kind for kind in KINDS if kind in entry), "status")
            value = entry.pop(kind) if kind in KINDS else None
            lines.append(Line(number, kind, value, **entry))
    return Conversation(path, path.parent.name, about, settings.pop("only", None), lines, **settings)


def opened(message: Any, conversation: Conversation) -> Any:
    """Return a client's message with what every request of the revision has."""
    if conversation.revision != STATELESS or not isinstance(message, dict) or "id" not in message:
        return message
    params = message.get("params", {})
    meta = {**META, "io.modelcontextprotocol/clientCapabilities": conversation.capabilities}
    return {**message, "params": {**params, "_meta": {**meta, **params.get("_meta", {})}}}


def request_headers(message: Any, revision: str, session: str | None) -> dict[str, str]:
    """Return the headers that a well-behaved client of the revision sends along."""
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    if session is not None:
        headers["Mcp-Session-Id"] = session
    method = message.get("method") if isinstance(message, dict) else None
    if revision >= VERSION_HEADER_SINCE and method != "initialize":
        headers["MCP-Protocol-Version"] = revision
    if revision == STATELESS and method is not None:
        headers["Mcp-Method"] = method
        name = message.get("params", {}).get(NAMED.get(method))
        if isinstance(name, str):
            headers["Mcp-Name"] = header_value(name)
    return headers


def header_value(text: str) -> str:
    """Encode a header value.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#value-encoding
    """
    if text.isascii() and text.isprintable() and text == text.strip() and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def substitute(value: Any, bound: dict[str, Any]) -> Any:
    """Return a client's message with the strings that the server gave out before."""
    if isinstance(value, dict):
        return {key: substitute(item, bound) for key, item in value.items()}
    if isinstance(value, list):
        return [substitute(item, bound) for item in value]
    if isinstance(value, str) and (wildcard := WILDCARD.fullmatch(value)) is not None:
        return bound.get(wildcard[1], value)
    return value


def compare(expected: Any, actual: Any, bound: dict[str, Any], where: str = "") -> list[str]:
    """Say where two JSON values differ. Wildcards of ``expected`` are bound on the way."""
    where = where or "the message"
    if isinstance(expected, str) and (wildcard := WILDCARD.fullmatch(expected)) is not None:
        return compare_wildcard(wildcard[1], actual, bound, where)
    if isinstance(expected, dict) and isinstance(actual, dict):
        missing = [f"{where} lacks {key!r}" for key in expected if key not in actual]
        extra = [f"{where} has {key!r}: {json.dumps(actual[key])}" for key in actual if key not in expected]
        inside = [
            difference
            for key in expected
            if key in actual
            for difference in compare(expected[key], actual[key], bound, f"{where}.{key}")
        ]
        return missing + extra + inside
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return [f"{where} has {len(actual)} items, not {len(expected)}"]
        return [
            difference
            for index, (one, other) in enumerate(zip(expected, actual, strict=True))
            for difference in compare(one, other, bound, f"{where}[{index}]")
        ]
    if isinstance(expected, bool) is not isinstance(actual, bool) or expected != actual:
        return [f"{where} is {json.dumps(actual)}, not {json.dumps(expected)}"]
    return []


def compare_wildcard(name: str, actual: Any, bound: dict[str, Any], where: str) -> list[str]:
    if name == "any":
        return []
    if not isinstance(actual, str):
        return [f"{where} is {json.dumps(actual)}, not a string"]
    if name == "any text":
        return []
    if name.startswith("contains "):
        wanted = name.removeprefix("contains ")
        return [] if wanted in actual else [f"{where} is {actual!r}, which does not contain {wanted!r}"]
    if bound.setdefault(name, actual) != actual:
        return [f"{where} is {actual!r}, but <{name}> was {bound[name]!r} before"]
    return []
