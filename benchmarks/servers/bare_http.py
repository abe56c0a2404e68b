"""The bare server on HTTP, one uvicorn worker: bare_http.py http (small|full) PORT.

At /events, answers are streams of one event each.
"""

import asyncio
import sys
from typing import Any
from uuid import uuid4

import bare
import content
import uvicorn

JSON = (b"content-type", b"application/json")
EVENTS = (b"content-type", b"text/event-stream")

sessions: set[str] = set()
listeners: list[asyncio.Future[str]] = []


def event(method: str, params: dict[str, Any]) -> bytes:
    return b"data: " + bare.encode({"jsonrpc": "2.0", "method": method, "params": params}) + b"\n\n"


async def stream(request: bare.Request | None, send: Any) -> None:
    """Send notifications forever. Disconnects are not detected."""
    params: dict[str, Any] = {"uri": content.CHANGING_URI}
    opening = b": open\n\n"
    if request is not None:
        params["_meta"] = {"io.modelcontextprotocol/subscriptionId": request.id}
        honoured = {"resourceSubscriptions": [content.CHANGING_URI]}
        opening = event(
            "notifications/subscriptions/acknowledged", {"notifications": honoured, "_meta": params["_meta"]}
        )
    loop = asyncio.get_running_loop()
    await send({"type": "http.response.start", "status": 200, "headers": [EVENTS]})
    await send({"type": "http.response.body", "body": opening, "more_body": True})
    while True:
        change = loop.create_future()
        listeners.append(change)
        await send({"type": "http.response.body", "body": event(await change, params), "more_body": True})


async def serve(scope: Any, receive: Any, send: Any) -> None:
    if scope["method"] == "GET":
        await stream(None, send)
        return
    if scope["method"] == "DELETE":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})
        return
    message = await receive()
    body = message["body"]
    while message["more_body"]:
        message = await receive()
        body += message["body"]
    request = bare.decode(body)
    if request.method == "subscriptions/listen":
        await stream(request, send)
        return
    if request.id is None:
        await send({"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})
        return
    if request.params.name == "touch":
        for listener in listeners:
            listener.set_result("notifications/resources/updated")
        listeners.clear()
    answer = bare.answer(request)
    kind = JSON
    if scope["path"] == "/events":
        kind, answer = EVENTS, b"event: message\ndata: " + answer + b"\n\n"
    headers = [kind, (b"content-length", str(len(answer)).encode())]
    if request.method == "initialize":
        session = uuid4().hex
        sessions.add(session)
        headers.append((b"mcp-session-id", session.encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


if __name__ == "__main__":
    bare.fill(sys.argv[2])
    uvicorn.run(
        serve, host="127.0.0.1", port=int(sys.argv[3]), loop="uvloop", http="httptools", lifespan="off",
        log_level="warning",
    )  # fmt: skip
