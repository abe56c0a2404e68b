"""Endpoint that speaks the wire formats of Anthropic, OpenAI and Gemini, with a model that adds two numbers by a tool.

The model calls the tool ``add`` and says what it returned. It keeps the requests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

NUMBERS = {"a": 19, "b": 23}


class VendorEndpoint:
    """Endpoint on a free port of this machine. ``requests`` are the bodies of the requests, by the end of the path."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: dict[str, list[dict[str, Any]]] = {}

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[VendorEndpoint]:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        kind = request.path.replace(":", "/").rpartition("/")[2]
        self.requests.setdefault(kind, []).append(body)
        answers = {
            "messages": anthropic,
            "responses": responses,
            "completions": completions,
            "generateContent": gemini,
        }
        return web.json_response(answers[kind](body))


def anthropic(body: dict[str, Any]) -> dict[str, Any]:
    last = body["messages"][-1]["content"]
    content: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "add", "input": NUMBERS}
    if not isinstance(last, str) and last[0]["type"] == "tool_result":
        content = {"type": "text", "text": last[0]["content"][0]["text"]}
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [content],
        "stop_reason": "tool_use" if content["type"] == "tool_use" else "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def responses(body: dict[str, Any]) -> dict[str, Any]:
    asked = body["input"]
    item: dict[str, Any] = {
        "type": "function_call",
        "id": "f",
        "call_id": "c1",
        "name": "add",
        "arguments": '{"a": 19, "b": 23}',
    }
    if not isinstance(asked, str):
        part = {"type": "output_text", "text": asked[-1]["output"], "annotations": []}
        item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}
    return {"id": "r", "object": "response", "model": body["model"], "output": [item], "created_at": 0}


def completions(body: dict[str, Any]) -> dict[str, Any]:
    last = body["messages"][-1]
    message: dict[str, Any] = {"role": "assistant", "content": last["content"]}
    if last["role"] != "tool":
        function = {"name": "add", "arguments": '{"a": 19, "b": 23}'}
        message = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]}


def gemini(body: dict[str, Any]) -> dict[str, Any]:
    part = body["contents"][-1]["parts"][0]
    answer: dict[str, Any] = {"functionCall": {"name": "add", "args": NUMBERS}, "thoughtSignature": "c2lnbmF0dXJl"}
    if "functionResponse" in part:
        answer = {"text": part["functionResponse"]["response"]["output"]}
    return {"candidates": [{"content": {"role": "model", "parts": [answer]}, "finishReason": "STOP"}]}
