"""A client in memory that answers what the server asks: requests within a session, or rounds where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from carrel import Server
from carrel.transports import memory
from carrel.transports.memory import MemoryPeer
from support.memory_client import LATEST

__all__ = ["CAPABLE", "ELICIT", "ROOTS", "SAMPLE", "Respondent", "accepted", "answering", "said", "state_of"]

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
#: Everything that a client can be asked.
CAPABLE: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}
#: The most rounds that a request may take.
ROUNDS = 20

Answer = Callable[[str, dict[str, Any]], Any]


def accepted(**content: Any) -> dict[str, Any]:
    """Return the answer of a user who fills in a form."""
    return {"action": "accept", "content": content}


def said(text: str) -> dict[str, Any]:
    """Return the answer of a model."""
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m", "stopReason": "endTurn"}


class Respondent:
    """A client. ``answer`` gets the method and the parameters of a question, and returns the result.

    ``asked`` are the questions in their order; ``rounds`` the replies to each request that was sent for the last one.
    """

    def __init__(self, peer: MemoryPeer, answer: Answer | dict[str, Any]) -> None:
        self.peer = peer
        self.answer: Answer = answer if callable(answer) else lambda method, params: answer[method]
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.rounds: list[dict[str, Any]] = []

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request, answer what is asked meanwhile, and return the reply."""
        self.rounds = []
        if self.peer.revision == LATEST:
            return await self._request_in_rounds(method, params)
        reply = self.peer.start(method, params)
        while True:
            question = asyncio.ensure_future(self.peer.notification())
            await asyncio.wait((reply, question), return_when=asyncio.FIRST_COMPLETED, timeout=60)
            if reply.done():
                question.cancel()
                return reply.result()
            self.respond(question.result())

    async def _request_in_rounds(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        for _ in range(ROUNDS):
            reply = await self.peer.request(method, params)
            self.rounds.append(reply)
            asked = reply.get("result", {})
            if asked.get("resultType") != "input_required":
                return reply
            given = {
                key: self._answer(question["method"], question["params"])
                for key, question in asked["inputRequests"].items()
            }
            params = {**params, "inputResponses": given, "requestState": asked["requestState"]}
        raise AssertionError(f"there was no end of questions: {self.asked}")

    def _answer(self, method: str, params: dict[str, Any]) -> Any:
        self.asked.append((method, params))
        return self.answer(method, params)

    def respond(self, message: dict[str, Any]) -> None:
        """Answer a question that came as a request; notifications are no questions."""
        if "id" in message:
            self.reply(message["id"], self._answer(message["method"], message["params"]))

    def reply(self, id: Any, result: Any) -> None:
        """Send a response: a result, or an error if it has a code."""
        kind = "error" if isinstance(result, dict) and "code" in result else "result"
        self.peer.feed(msgspec.json.encode({"jsonrpc": "2.0", "id": id, kind: result}))

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool, answer what it asks, and return the result."""
        reply = await self.request("tools/call", name=name, arguments=arguments)
        assert "result" in reply, reply
        result: dict[str, Any] = reply["result"]
        return result

    async def text(self, name: str, /, **arguments: Any) -> str:
        """Call a tool, answer what it asks, and return the text of its result."""
        result = await self.call(name, **arguments)
        assert not result.get("isError"), result
        text: str = result["content"][0]["text"]
        return text


@asynccontextmanager
async def answering(app: Server, revision: str, answer: Answer | dict[str, Any], **capabilities: Any) -> Any:
    """Connect a client that answers. It can be asked everything, unless ``capabilities`` say what it can be asked."""
    async with memory.connect(app, revision, **(capabilities or CAPABLE)) as peer:
        yield Respondent(peer, answer)


def state_of(reply: dict[str, Any]) -> str:
    """Return the state that a client keeps for a server."""
    state: str = reply["result"]["requestState"]
    return state
