"""Client that writes JSON-RPC messages itself: it sees every field of what a server answers.

``probe`` starts a command and returns the answers: discovery, lists, and, if wanted, each tool called with made-up
arguments and without any, each resource read, each prompt rendered. ``seconds`` is the CPU time until the lists.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compat.made_up import arguments, example

__all__ = ["LEGACY", "LISTS", "MODERN", "NoAnswer", "Probed", "probe"]

LEGACY, MODERN = "2025-11-25", "2026-07-28"
LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
CLIENT = {"name": "probe", "version": "1"}
CAPABILITIES = {
    "elicitation": {"form": {}, "url": {}},
    "roots": {"listChanged": True},
    "sampling": {"context": {}, "tools": {}},
    "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}},
}
META = "io.modelcontextprotocol/"
MAX_PAGES, MAX_ROUNDS = 20, 5
#: How long a server may take to answer the first requests.
START_SECONDS = 60


class NoAnswer(Exception):
    """The server ended, or did not answer in time. ``errors`` is its standard error."""

    def __init__(self, reason: str, errors: str) -> None:
        super().__init__(reason)
        self.errors = errors


class Probed(dict[str, Any]):
    """Answers by request. ``seconds`` is the server's CPU time from its start to the end of the lists."""

    seconds: float = 0.0


class Connection:
    """Connection to a server process over its standard streams."""

    def __init__(self, process: subprocess.Popen[bytes], revision: str, limit: float) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.revision = revision
        self.limit = limit
        self.messages: list[Any] = []
        self._input = process.stdin
        self._output = process.stdout.fileno()
        self._buffer = b""
        self._id = 0
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._output, selectors.EVENT_READ)

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a message.

        Raises:
            NoAnswer: the server has ended.
        """
        try:
            self._input.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._input.flush()
        except OSError:
            raise NoAnswer("the server ended", "") from None

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the response of a request, after answering the requests of the server.

        Raises:
            NoAnswer: the server ended, or takes longer than the limit.
        """
        given = dict(params or {})
        for _ in range(MAX_ROUNDS):
            response = self._exchange(method, given)
            result = response.get("result", {})
            if not isinstance(result, dict) or result.get("resultType") != "input_required":
                return response
            self.messages.append(result)
            asked = result.get("inputRequests") or {}
            given["inputResponses"] = {key: reply(one["method"], one.get("params", {})) for key, one in asked.items()}
            if "requestState" in result:
                given["requestState"] = result["requestState"]
        return response

    def _exchange(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._id += 1
        meta: dict[str, Any] = {"progressToken": self._id}
        if self.revision == MODERN:
            meta |= {
                f"{META}protocolVersion": MODERN,
                f"{META}clientInfo": CLIENT,
                f"{META}clientCapabilities": CAPABILITIES,
                f"{META}logLevel": "debug",
            }
        with_meta = {**params, "_meta": meta} if method != "initialize" else params
        self.send({"id": self._id, "method": method, "params": with_meta})
        deadline = time.monotonic() + self.limit
        while True:
            message = self._read(deadline)
            if "method" in message and "id" in message:
                self.messages.append({"method": message["method"], "params": message.get("params")})
                self.send({"id": message["id"], "result": reply(message["method"], message.get("params") or {})})
            elif "method" in message:
                self.messages.append(message)
            elif message.get("id") == self._id:
                return {key: value for key, value in message.items() if key in ("result", "error")}

    def _read(self, deadline: float) -> dict[str, Any]:
        while True:
            line, found, rest = self._buffer.partition(b"\n")
            if found:
                self._buffer = rest
                try:
                    message = json.loads(line)
                except ValueError:
                    continue  # something that the server printed
                if isinstance(message, dict):
                    return message
            elif not self._selector.select(max(0.0, deadline - time.monotonic())):
                raise NoAnswer(f"no answer within {self.limit:g} s", "")
            else:
                piece = os.read(self._output, 1 << 16)
                if not piece:
                    raise NoAnswer("the server ended", "")
                self._buffer += piece


def reply(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client's result for a request of a server."""
    if method == "sampling/createMessage":
        text = f"an answer to {len(params.get('messages', []))}, at most {params.get('maxTokens')}"
        content = {"type": "text", "text": text}
        return {"role": "assistant", "content": content, "model": "none", "stopReason": "endTurn"}
    if method == "elicitation/create":
        schema = params.get("requestedSchema")
        return {"action": "accept", **({"content": example(schema, schema)} if schema else {})}
    return {"roots": [{"uri": "file:///home", "name": "home"}]} if method == "roots/list" else {}


@contextmanager
def connected(
    command: Sequence[str], revision: str, limit: float, cwd: Path | None, env: Mapping[str, str] | None
) -> Iterator[Connection]:
    """Start a server, and end it with all processes that it started."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        try:
            yield Connection(process, revision, limit)
        except NoAnswer as error:
            errors.seek(0)
            raise NoAnswer(str(error), errors.read().decode(errors="replace")) from None
        finally:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Close the standard input of a server, and kill its group if it does not end."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.close()
    except OSError:
        pass  # the server has ended before
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, 9)
    except ProcessLookupError:
        pass
    process.wait()
    process.stdout.close()


def processor_time(pid: int) -> float:
    """Return the CPU time of a process, in seconds."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def probe(
    command: Sequence[str],
    *,
    revision: str = LEGACY,
    calls: bool = True,
    limit: float = 20,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Probed:
    """Use everything that a server offers.

    Raises:
        NoAnswer: the server does not start, or ends too early.
    """
    found = Probed()
    with connected(command, revision, START_SECONDS, cwd, env) as connection:
        if revision == MODERN:
            found["discover"] = connection.request("server/discover")
        else:
            given = {"protocolVersion": revision, "capabilities": CAPABILITIES, "clientInfo": CLIENT}
            found["initialize"] = connection.request("initialize", given)
            connection.send({"method": "notifications/initialized"})
        for method in LISTS:
            found[method] = pages(connection, method)
        found.seconds = processor_time(connection.process.pid)
        connection.limit = limit
        if calls:
            for key, method, params in requests(found):
                try:
                    found[key] = connection.request(method, params)
                except NoAnswer as error:
                    found[key] = {"none": str(error)}
                    break
            found["messages"] = connection.messages
    return found


def pages(connection: Connection, method: str) -> dict[str, Any]:
    """Return the response of a list, with the items of all pages."""
    first = response = connection.request(method)
    for _ in range(MAX_PAGES):
        cursor = response.get("result", {}).get("nextCursor")
        if cursor is None:
            break
        response = connection.request(method, {"cursor": cursor})
        for name, value in response.get("result", {}).items():
            if isinstance(value, list):
                first["result"][name] += value
    first.get("result", {}).pop("nextCursor", None)
    return first


def requests(found: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the requests that a server's lists lead to: key, method and parameters."""
    lists = {method: found[method].get("result", {}) for method in LISTS}
    for tool in lists["tools/list"].get("tools", ()):
        schema = tool.get("inputSchema", {})
        for given in (arguments(schema, schema), {}):
            yield f"call {tool['name']} {json.dumps(given)}", "tools/call", {"name": tool["name"], "arguments": given}
    yield "call no such tool", "tools/call", {"name": "no such tool", "arguments": {}}
    uris = [resource["uri"] for resource in lists["resources/list"].get("resources", ())]
    templates = [each["uriTemplate"] for each in lists["resources/templates/list"].get("resourceTemplates", ())]
    for uri in [*uris, *(expanded(template) for template in templates), "none://such"]:
        yield f"read {uri}", "resources/read", {"uri": uri}
    for prompt in lists["prompts/list"].get("prompts", ()):
        names = [each["name"] for each in prompt.get("arguments", ())]
        for given in (dict.fromkeys(names, "text"), {}):
            key = f"prompt {prompt['name']} {json.dumps(given)}"
            yield key, "prompts/get", {"name": prompt["name"], "arguments": given}
        for name in names[:1]:
            reference = {"type": "ref/prompt", "name": prompt["name"]}
            params = {"ref": reference, "argument": {"name": name, "value": "p"}}
            yield f"complete {prompt['name']} {name}", "completion/complete", params
    yield "prompt no such prompt", "prompts/get", {"name": "no such prompt"}


def expanded(template: str) -> str:
    """Return a URI of a template, with the same text in each variable."""
    parts = template.split("{")
    return parts[0] + "".join("text" * (part[:1] not in "?&") + part.partition("}")[2] for part in parts[1:])
