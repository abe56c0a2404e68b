"""What a client's transport hands on, recorded; and the messages that it is given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from carrel.errors import MCPError
from carrel.protocol.client import ClientProtocol, OutgoingMessage
from carrel.protocol.methods import CALL_TOOL
from carrel.protocol.revisions import LATEST, REVISIONS
from carrel.wire.base import ClientCapabilities, Implementation
from carrel.wire.tools import CallToolParams
from support.client_connection import notice_of, row_of

#: Seconds that anything may take.
PATIENCE = 60.0


class Recorder:
    """A ``Receiver`` that records. ``messages`` are parsed, ``failures`` by the id of their request."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.raw: list[bytes] = []
        self.failures: dict[Any, MCPError] = {}
        self.interruptions = 0
        self.ends: list[MCPError] = []
        self._changed = asyncio.Event()

    def receive(self, data: bytes, about: object = None) -> None:
        assert type(data) is bytes
        self.raw.append(data)
        try:
            self.messages.append(json.loads(data))
        except (ValueError, RecursionError):
            self.messages.append(None)
        self._changed.set()

    def awaits(self, id: Any) -> bool:
        return self.answer(id) is None

    def fail(self, id: Any, error: MCPError) -> None:
        assert isinstance(error, MCPError)
        assert id not in self.failures
        self.failures[id] = error
        self._changed.set()

    def broken(self) -> None: ...

    def interrupted(self) -> None:
        self.interruptions += 1
        self._changed.set()

    def closed(self, error: MCPError) -> None:
        assert isinstance(error, MCPError)
        self.ends.append(error)
        self._changed.set()

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until a condition holds, and return what it returned."""
        async with asyncio.timeout(PATIENCE):
            while not (held := condition()):
                self._changed.clear()
                await self._changed.wait()
        return held

    def answer(self, id: Any) -> Any:
        """Return the answer to a request, so far as it is there."""
        for message in self.messages:
            for each in message if isinstance(message, list) else [message]:
                if isinstance(each, dict) and each.get("id") == id and "method" not in each:
                    if each.get("jsonrpc") != "2.0":
                        continue
                    return each
        return None

    def notices(self, method: str) -> list[Any]:
        return [each for each in self.messages if each and each.get("method") == method]

    async def outcome(self, id: Any) -> Any:
        """Wait for the answer to a request, or its failure."""
        await self.until(lambda: id in self.failures or self.answer(id) is not None)
        return self.failures.get(id) or self.answer(id)

    async def failure(self, id: Any) -> MCPError:
        """Wait for a request to fail."""
        outcome = await self.outcome(id)
        assert isinstance(outcome, MCPError), outcome
        return outcome

    async def result(self, id: Any) -> Any:
        """Wait for the result of a request."""
        outcome = await self.outcome(id)
        if isinstance(outcome, MCPError):
            raise outcome
        assert "error" not in outcome, outcome
        return outcome["result"]


def call_of(tool: str, arguments: Any) -> CallToolParams:
    return CallToolParams(name=tool, arguments=Raw(json.dumps(arguments).encode()))


class Asker:
    """A client as far as a transport needs one: it sends what a ``ClientProtocol`` writes."""

    def __init__(self, transport: Any, revision: str = LATEST.name, **capabilities: Any) -> None:
        self.transport = transport
        self.recorder = Recorder()
        self.revision = REVISIONS[revision]
        self.connection = ClientProtocol(Implementation("asker", "1"), ClientCapabilities(**capabilities))

    async def __aenter__(self) -> Asker:
        await self.transport.open(self.recorder)
        if self.revision.stateless:
            self.connection.speak(self.revision)
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.transport.close()

    async def shake_hands(self) -> Any:
        """Open a session."""
        message = self.connection.initialize(self.revision)
        self.transport.send(message)
        result = await self.recorder.result(message.id)
        self.connection.speak(REVISIONS[result["protocolVersion"]])
        self.tell("initialized")
        self.transport.settle(self.connection.revision)
        return result

    def start(self, operation: str, params: Any, **options: Any) -> Any:
        """Send a request, and return its id."""
        message = self.connection.request(row_of(operation), params, **options)
        self.transport.send(message)
        return message.id

    def start_tool(self, tool: str, headers: Any = None, **arguments: Any) -> Any:
        message = self.connection.request(CALL_TOOL, call_of(tool, arguments), progress=True)
        if headers:
            message.headers = headers
        self.transport.send(message)
        return message.id

    async def ask(self, operation: str, params: Any, **options: Any) -> Any:
        """Send a request, and return its result."""
        return await self.recorder.result(self.start(operation, params, **options))

    async def call(self, tool: str, **arguments: Any) -> Any:
        return await self.recorder.result(self.start_tool(tool, **arguments))

    def tell(self, operation: str, *params: Any) -> Any:
        return self.transport.send(self.connection.notify(notice_of(operation), *params))

    def answer(self, id: Any, result: Any) -> Any:
        """Answer a question of the server."""
        data = json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()
        return self.transport.send(OutgoingMessage(data, revision=self.connection.revision))
