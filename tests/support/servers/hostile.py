"""An MCP server on stdio that is hostile, in the way that its first argument names. Standard library only."""

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

CAPABILITIES = {name: {"listChanged": True} for name in ("tools", "prompts", "resources")} | {"logging": {}}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
CROWD = 30_000
CROWD_SCHEMA = {"type": "object", "properties": {name: {"type": "string", "description": name} for name in "abcd"}}
TOOL = {"name": "echo", "inputSchema": {"type": "object"}}
#: What is answered by all of them, unless they say otherwise.
USUAL: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": "hostile", "version": "1"},
    },
    "ping": {},
    "logging/setLevel": {},
    "tools/list": {"tools": [TOOL]},
    "prompts/list": {"prompts": []},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
    "tools/call": {"content": [{"type": "text", "text": "done"}]},
}
lock = threading.Lock()


def write(data: bytes) -> None:
    with lock:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]


def say(*messages: Any) -> None:
    write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))


def requests() -> Iterator[dict[str, Any]]:
    """Yield the requests, and "notifications/initialized"."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "method" in message:
            yield message


def answer(message: dict[str, Any], result: Any = None) -> None:
    if "id" not in message:
        return
    found = USUAL.get(message["method"]) if result is None else result
    if found is None:
        say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
    else:
        say({"jsonrpc": "2.0", "id": message["id"], "result": found})


def flood(*messages: Any) -> None:
    """Write messages without end, with new ids."""
    number = 0
    while True:
        ids = [f"q{number + each}" for each in range(500)]
        number += len(ids)
        say(*({**message, "id": id} if "id" in message else message for id in ids for message in messages))


def complain() -> None:
    """Write to standard error without end."""
    while True:
        os.write(2, b"an error, and another one, and so on\n" * 1000)


def crowd(number: int) -> list[dict[str, Any]]:
    """Return many tools, whose names are others for each number."""
    return [{"name": f"echo{number}-{each}", "inputSchema": CROWD_SCHEMA} for each in range(CROWD)]


def in_thread(work: Callable[..., None], *arguments: Any) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()


def main(how: str) -> None:
    gathered: list[dict[str, Any]] = []
    listed = 0
    for message in requests():
        method = message["method"]
        ready = method == "notifications/initialized"
        called = method == "tools/call"
        match how:
            case "pings" if ready:  # does not read any more
                flood({"jsonrpc": "2.0", "id": 0, "method": "ping"})
            case "unknown" if ready:
                flood({"jsonrpc": "2.0", "id": 0, "method": "no/such/method"})
            case "notes" if ready:  # answers all the same
                note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
                in_thread(flood, note, CHANGED)
            case "strangers" if ready:  # answers to what was never asked
                in_thread(flood, {"jsonrpc": "2.0", "id": 0, "result": {}})
            case "deaf" if ready:
                threading.Event().wait()
            case "mute":
                continue
            case "liar" if method.endswith("/list"):  # every list that is read has changed again
                answer(message)
                say(CHANGED)
            case "endless" if method == "tools/list":
                number = int(message.get("params", {}).get("cursor", 0)) + 1
                tools = [{**TOOL, "name": f"echo{number}-{each}"} for each in range(100)]
                answer(message, {"tools": tools, "nextCursor": str(number)})
            case "crowd" if method == "tools/list":  # has many tools, other ones each time, and says so each time
                listed += 1
                answer(message, {"tools": crowd(listed)})
                say(CHANGED)
            case "restless" if ready:  # its resources change all the time; answers all the same
                in_thread(flood, {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"})
            case "hoards" if method.startswith("resources/") and listed:  # lists its resources once, and is silent then
                continue
            case "hoards" if method == "resources/list":
                listed += 1
                answer(message, {"resources": [{"uri": "memo://tea", "name": "tea"}]})
            case "dying" if ready:  # comes back, and dies again
                threading.Timer(0.2, os._exit, (3,)).start()
            case "stalls" if method == "tools/list":  # says that its list has changed, and answers nothing any more
                answer(message)
                say(CHANGED)
                threading.Event().wait()
            case "gather" if called:  # answers when there are 64 calls to answer
                gathered.append(message)
                if len(gathered) == 64:
                    for each in gathered:
                        answer(each)
            case "half" if called:
                write(b'{"jsonrpc": "2.0", "id": %d, "result": {"content": [' % message["id"])
                os._exit(3)
            case "shut" if called:  # closes its output, and lives on
                os.close(1)
                threading.Event().wait()
            case "nested" if called:
                depth = b"[" * 200_000 + b"]" * 200_000
                write(b'{"jsonrpc": "2.0", "id": %d, "result": {"content": %b}}\n' % (message["id"], depth))
            case "unending" if called:
                while True:
                    write(b"x" * 65536)
            case "errors" if ready:
                in_thread(complain)
            case _:
                answer(message)


if __name__ == "__main__":
    main(sys.argv[1])
