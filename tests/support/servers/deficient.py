"""Server on stdio of 2025-06-18 with mistakes: the content of the tool "sum" is a number, unless "right" is true.

Written without Carrel, as somebody would who begins.
"""

import json
import sys

TOOLS = [
    {
        "name": "sum",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}, "right": {"type": "boolean"}},
        },
        "annotations": {"readOnlyHint": True},
    }
]


def answer(method, params):
    if method == "initialize":
        info = {"name": "deficient", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params.get("name") == "sum":
        given = params.get("arguments", {})
        total = given.get("a", 0) + given.get("b", 0)
        return {"content": [{"type": "text", "text": str(total)}] if given.get("right") else total}
    return {} if method == "ping" else None


if __name__ == "__main__":
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" in request:
            result = answer(request["method"], request.get("params") or {})
            outcome = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}) + "\n")
            sys.stdout.flush()
