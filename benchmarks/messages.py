"""Requests to a server, and validation of the responses.

Requests are encoded once, with a gap for the id. A response is decoded and validated when its bytes are seen for the
first time. Responses that differ from a valid response only in the id are accepted without decoding, so that the load
generator is cheaper than any server it measures.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .servers import content

HANDSHAKE = "2025-11-25"
STATELESS = "2026-07-28"
CLIENT = {"name": "carrel-benchmarks", "version": "1"}
FIRST_ID = 1_000_000
"""Ids have seven digits, so that every answer to a question has the same length."""


class WrongAnswer(Exception):
    """A server returned an error, or a response that does not match the request."""


def compact(value: object) -> bytes:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(slots=True)
class Shape:
    """The bytes around the id in an answer that has been judged right."""

    prefix: bytes
    suffix: bytes


@dataclass(slots=True)
class Question:
    """One request of one revision, without its id.

    `judge` validates the `result` of a response, and returns a description of the problem or None.
    """

    method: str
    params: dict[str, Any]
    judge: Callable[[dict[str, Any]], str | None]
    revision: str = HANDSHAKE
    head: bytes = field(init=False)
    tail: bytes = field(init=False)
    shapes: list[Shape] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        params = self.params
        if self.revision == STATELESS:
            params = {
                **params,
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": STATELESS,
                    "io.modelcontextprotocol/clientInfo": CLIENT,
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            }
        self.head = b'{"jsonrpc":"2.0","id":'
        self.tail = b',"method":' + compact(self.method) + b',"params":' + compact(params) + b"}"

    def body(self, id: int) -> bytes:
        """The request with an id."""
        return self.head + b"%d" % id + self.tail

    def headers(self) -> bytes:
        """The header lines that mirror the request on HTTP."""
        if self.revision != STATELESS:
            return b"MCP-Protocol-Version: " + self.revision.encode() + b"\r\n"
        lines = [f"MCP-Protocol-Version: {self.revision}", f"Mcp-Method: {self.method}"]
        name = self.params.get("name") or self.params.get("uri")
        if name:
            lines.append(f"Mcp-Name: {name}")
        return "".join(line + "\r\n" for line in lines).encode()

    def check(self, answer: bytes) -> None:
        """Accept the answer, or raise `WrongAnswer`."""
        for shape in self.shapes:
            if answer.startswith(shape.prefix) and answer.endswith(shape.suffix):
                return
        message = json.loads(answer)
        if "error" in message:
            raise WrongAnswer(f"{self.method}: {json.dumps(message['error'])[:300]}")
        if "result" not in message:
            raise WrongAnswer(f"{self.method}: no result in {answer[:300]!r}")
        if complaint := self.judge(message["result"]):
            raise WrongAnswer(f"{self.method}: {complaint}")
        prefix, found, suffix = answer.partition(b"%d" % message["id"])
        if found and len(self.shapes) < 4:
            self.shapes.append(Shape(prefix, suffix))


def id_of(answer: bytes) -> int | None:
    """The id of an answer; None for a notification."""
    start = answer.find(b'"id":') + 5
    digits = answer[start : start + 7]
    if start > 4 and digits.isdigit():
        return int(digits)
    id = json.loads(answer).get("id")
    return id if isinstance(id, int) else None


def initialize() -> Question:
    """The opening of a session in the handshake revisions."""
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT}
    return Question(
        "initialize",
        params,
        lambda result: None if result.get("protocolVersion") == HANDSHAKE else f"negotiated {result}",
    )


INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def small_read(revision: str) -> list[Question]:
    """Reads of the small text."""
    return [read(content.SMALL_URI, content.SMALL_TEXT, revision)]


def template_read(revision: str) -> list[Question]:
    """Reads through the template, of eight different books."""
    books = [(author, title) for author in ("lem", "dick", "lao", "eco") for title in ("solaris", "ubik")]
    return [read(f"book://{author}/{title}", content.book(author, title), revision) for author, title in books]


def tool_call(revision: str, name: str = "add") -> list[Question]:
    """Calls of `add` with eight different pairs of numbers."""

    def question(a: int, b: int) -> Question:
        def judge(result: dict[str, Any]) -> str | None:
            if result.get("isError") or result["content"][0].get("text") != str(a + b):
                return f"{a} + {b} is not {result}"
            return None

        return Question("tools/call", {"name": name, "arguments": {"a": a, "b": b}}, judge, revision)

    return [question(a, 10 * a) for a in range(1, 9)]


def waiting_call(revision: str) -> list[Question]:
    """Calls of `add_later`, which waits for one turn of the event loop before it adds."""
    return tool_call(revision, "add_later")


def list_resources(revision: str) -> list[Question]:
    """The list of all thousand resources in one answer."""

    def judge(result: dict[str, Any]) -> str | None:
        uris = {resource["uri"] for resource in result["resources"]}
        if len(uris) != content.RESOURCES or result.get("nextCursor"):
            return f"{len(uris)} of {content.RESOURCES} resources in one answer"
        return None

    return [Question("resources/list", {}, judge, revision)]


def large_text(revision: str) -> list[Question]:
    """Reads of the 1 MiB text."""
    return [read(content.TEXT_URI, content.large_text(), revision)]


def large_blob(revision: str) -> list[Question]:
    """Reads of the 1 MiB of bytes."""
    encoded = base64.b64encode(content.large_blob()).decode()
    return [read(content.BLOB_URI, encoded, revision, key="blob")]


def touch(revision: str) -> Question:
    """The call that announces a change of the changing resource."""
    return Question("tools/call", {"name": "touch", "arguments": {}}, refuse_error, revision)


def subscribe() -> Question:
    """The subscription to the changing resource, for sessions."""
    return Question("resources/subscribe", {"uri": content.CHANGING_URI}, lambda result: None)


def listen() -> Question:
    """The stream of changes of the changing resource, for stateless clients."""
    params = {"notifications": {"resourceSubscriptions": [content.CHANGING_URI]}}
    return Question("subscriptions/listen", params, lambda result: "the stream ended", STATELESS)


def read(uri: str, expected: str, revision: str, key: str = "text") -> Question:
    """A read of one resource whose contents are known."""

    def judge(result: dict[str, Any]) -> str | None:
        contents = result["contents"]
        if len(contents) == 1 and contents[0]["uri"] == uri and contents[0].get(key) == expected:
            return None
        return f"{uri} is not {json.dumps(result)[:200]}"

    return Question("resources/read", {"uri": uri}, judge, revision)


def refuse_error(result: dict[str, Any]) -> str | None:
    """Judge a tool call by its `isError` alone."""
    return f"tool failed: {json.dumps(result)[:200]}" if result.get("isError") else None
