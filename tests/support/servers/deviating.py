"""A server on stdio that does one thing in its own way, and writes down the methods that it is sent.

python deviating.py WAY LOG
"""

import json
import sys
import time

way, path = sys.argv[1:]
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"


def send(id, **answer):
    print(json.dumps({"jsonrpc": "2.0", "id": id, **answer}), flush=True)


def describe(versions):
    return {
        "supportedVersions": versions,
        "capabilities": {},
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "public",
    }


for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    with open(path, "a") as log:
        log.write(f"{method}\n")
    if method == "initialize":
        if way == "stateless only":
            send(id, error={"code": -32601, "message": "Method not found"})
        elif way == "older":
            result = {
                "protocolVersion": "2025-03-26",
                "capabilities": {},
                "serverInfo": {"name": "odd", "version": "1"},
            }
            send(id, result=result)
        elif way == "unheard of":
            result = {
                "protocolVersion": "1999-01-01",
                "capabilities": {},
                "serverInfo": {"name": "odd", "version": "1"},
            }
            send(id, result=result)
        else:
            result = {"protocolVersion": HANDSHAKE, "capabilities": {}, "serverInfo": {"name": "odd", "version": "1"}}
            send(id, result=result)
    elif method == "server/discover":
        if way == "crash":
            sys.exit(1)
        if way == "silent":
            continue
        if way == "slow" or way == "stateless only":
            time.sleep(0.3)
            send(id, result=describe([STATELESS]))
        elif way == "names older":
            send(id, error={"code": -32022, "message": "no", "data": {"supported": [HANDSHAKE, "2025-06-18"]}})
        elif way == "names none of ours":
            send(id, error={"code": -32022, "message": "no", "data": {"supported": ["2099-01-01"]}})
        elif way == "discovers older":
            send(id, result=describe(["2099-01-01", HANDSHAKE]))
        elif way == "wants more":
            send(id, error={"code": -32021, "message": "sampling!", "data": {"requiredCapabilities": {"sampling": {}}}})
        elif way == "garbage":
            print("Traceback (most recent call last): oh no", flush=True)
            send(id, error={"code": -32602, "message": "before initialize"})
        elif way == "nonsense":
            send(id, result={"supportedVersions": "all of them"})
        else:
            send(id, error={"code": -32601, "message": "Method not found"})
    elif method == "ping":
        send(id, result={})
