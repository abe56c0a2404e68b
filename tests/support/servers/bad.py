"""Server on stdio of 2025-06-18 that breaks nearly every rule there is, or those of a mode: "odd", "mute", "slow".

Written without Carrel.
"""

import json
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
READS = {"readOnlyHint": True}
CAPABILITIES = {"resources": {"subscribe": True}, "tools": {}, "prompts": {}}
LONG = [{"name": f"p{number}", "description": "x"} for number in range(1001)]
PROMPTS = [*LONG, {"name": "p0", "arguments": [{"name": "a", "required": True}]}]
TOOLS = [
    {"name": "no good name!", "inputSchema": SCHEMA},
    {"name": "broken", "description": "x", "inputSchema": {"type": "object", "properties": {"a": {"type": "text"}}}},
    {
        "name": "empty",
        "description": "x",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"},
        "annotations": READS,
    },
    {
        "name": "wrong",
        "description": "x",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "required": ["n"]},
        "annotations": READS,
    },
    {"name": "write", "description": "x", "inputSchema": {"type": "object"}},
]
resources = [{"uri": "a:1", "name": "one"}, {"uri": "not a uri", "name": "two"}]


def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(method, params):
    if method == "initialize":
        info = {"name": "bad", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": CAPABILITIES, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS, "nextCursor": "1"}
    if method == "prompts/list":
        return {"prompts": PROMPTS}
    if method == "resources/list":
        resources.reverse()
        send(method="notifications/resources/list_changed")
        return {"resources": resources}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"name": "x", "uriTemplate": "f:///{path}"}]} if MODE else None
    if method == "resources/read" and "etc/passwd" in params.get("uri", ""):
        return {"contents": [{"uri": "file:///etc/passwd", "text": "root:x:0:0"}]}
    if method == "tools/call":
        print("called", params.get("name"))
        return {"content": "text", "structuredContent": {}} if params.get("name") == "wrong" else {"content": []}
    if method == "ping" and MODE == "slow":
        time.sleep(0.3)
    if method in ("ping", "prompts/get"):
        return None if MODE == "mute" else {}
    return None


if __name__ == "__main__":
    for number in range(300):
        print("log", number, file=sys.stderr)
    for line in sys.stdin.buffer:
        request = json.loads(line)  # dies of what is not JSON
        if "id" in request and (MODE != "mute" or request["method"] != "tools/list"):
            id = request["id"]
            result = answer(request["method"], request.get("params") or {})
            if result is None:
                send(id=id, error={"code": -32000, "message": "no"})
            else:
                send(id=id[:100] if isinstance(id, str) else id, result=result)
