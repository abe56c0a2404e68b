"""What is denied is answered over HTTP with the bytes that a server gives which does not have it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import httpx2
import pytest

from carrel import Server
from carrel.catalog.rules import READING, Rule, Rules
from carrel.protocol.methods import Verb
from carrel.protocol.principal import Principal, View
from support.http_requests import ACCEPT, META, NAMES, STATELESS, initialize
from support.http_server import over_http

USING = frozenset[Verb]({"call", "get"})
VIEW = Rules(
    [
        Rule("**", READING),
        Rule("memo://secret/**", READING, allow=False),
        Rule("note://secret/**", READING, allow=False),
        Rule("file://**/secret*/**", READING, allow=False),
        Rule("lib+memo://secret/**", READING, allow=False),
        Rule("lib+note://secret/**", READING, allow=False),
        Rule("*", USING),
        Rule("*secret*", USING, allow=False),
    ]
).view()


class Asked(View):
    """The same rights, without intervals."""

    key = "asked"

    def allows(self, verb: Verb, target: str) -> bool:
        return VIEW.allows(verb, target)


class Gate:
    def __init__(self, view: View) -> None:
        self._view = view

    def view(self, principal: Principal | None) -> View:
        return self._view


def fill(app: Server, areas: list[str]) -> Server:
    for area in areas:
        for number in range(3):
            app.resources.add(f"memo://{area}/{number}", area)
        app.resource(f"note://{area}/{{name}}", name=area)(lambda name: name).complete("name")(lambda typed: ["a", "b"])
        app.tool(f"{area}_tool", task="optional")(done)
        app.prompt(f"{area}_prompt")(lambda topic="": topic)
    return app


async def done() -> str:
    return "done"


def requests_of(folder: str) -> list[tuple[str, dict[str, Any]]]:
    """Return requests about what there is, what is denied, and what there never was."""
    found: list[tuple[str, dict[str, Any]]] = [
        (f"{kind}/list", {}) for kind in ("resources", "resources/templates", "tools", "prompts", "skills")
    ]
    for area in ("secret", "absent"):
        uris = [f"{kind}://{area}/1" for kind in ("memo", "note", "lib+memo")]
        uris += [
            f"{folder}/{area}.txt",
            f"{folder}/{area}",
            f"{folder}/{area}/1.txt",
            f"memo://{area[0]}%{ord(area[1]):x}{area[2:]}/1",
        ]
        for uri in uris:
            found += [("resources/read", {"uri": uri}), ("resources/directory/read", {"uri": uri})]
        for name in (f"{area}_tool", f"lib_{area}_tool"):
            found.append(("tools/call", {"name": name, "arguments": {}}))
        found += [
            ("prompts/get", {"name": f"{area}_prompt"}),
            ("completion/complete", completion({"type": "ref/prompt", "name": f"{area}_prompt"}, "topic")),
            ("completion/complete", completion({"type": "ref/resource", "uri": f"note://{area}/{{name}}"}, "name")),
            ("tasks/get", {"taskId": area}),
        ]
    found += [("resources/directory/read", {"uri": folder}), ("resources/read", {"uri": folder})]
    path = {"type": "ref/resource", "uri": f"{folder}/{{+path}}"}
    return [*found, ("completion/complete", completion(path, "path"))]


def completion(ref: dict[str, str], name: str) -> dict[str, Any]:
    return {"ref": ref, "argument": {"name": name, "value": ""}}


def answers(app: Server, folder: str) -> list[tuple[str, bytes]]:
    """Return the responses to all requests, as they come."""
    found: list[tuple[str, bytes]] = []
    with over_http(app) as origin, httpx2.Client(timeout=60) as client:
        url = f"{origin}/mcp"

        def ask(method: str, params: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            reply = client.post(url, json=body, headers={**ACCEPT, **headers})
            data = reply.content
            if reply.headers.get("content-type") == "text/event-stream":
                data = next(line for line in reversed(data.splitlines()) if line.startswith(b"data: {"))[6:]
            found.append((f"{method} {json.dumps(params)} {reply.status_code}", data))
            return json.loads(data)

        for method, params in requests_of(folder):
            headers = {"mcp-protocol-version": STATELESS, "mcp-method": method}
            if method in NAMES:
                headers["mcp-name"] = params[NAMES[method]]
            reply = ask(method, {**params, "_meta": META}, headers)
            while cursor := reply.get("result", {}).get("nextCursor"):
                reply = ask(method, {**params, "cursor": cursor, "_meta": META}, headers)
        for area in ("secret", "absent"):
            uris = [
                f"memo://{area}/1",
                f"note://{area}/1",
                f"lib+memo://{area}/1",
                f"{folder}/{area}.txt",
                "memo://open/1",
            ]
            wanted = {"resourceSubscriptions": uris, "taskIds": [area], "toolsListChanged": True}
            found.append((f"listen to {area}", acknowledgement(client, url, wanted)))
        session = {"mcp-session-id": initialize(url)}
        for area in ("secret", "absent"):
            for uri in (f"memo://{area}/1", f"note://{area}/1", f"lib+memo://{area}/1", f"{folder}/{area}.txt"):
                ask("resources/subscribe", {"uri": uri}, session)
                ask("resources/unsubscribe", {"uri": uri}, session)
            ask("tools/call", {"name": f"{area}_tool", "task": {}}, session)
    return found


def acknowledgement(client: httpx2.Client, url: str, wanted: dict[str, Any]) -> bytes:
    """Return the first message of a listen stream."""
    meta = json.loads(json.dumps(META))
    meta["io.modelcontextprotocol/clientCapabilities"] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    params = {"notifications": wanted, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    headers = {**ACCEPT, "mcp-protocol-version": STATELESS, "mcp-method": "subscriptions/listen"}
    with client.stream("POST", url, json=body, headers=headers) as reply:
        return next(line for line in reply.iter_lines() if line.startswith("data: {")).encode()


@pytest.mark.slow
@pytest.mark.parametrize("view", [VIEW, Asked()], ids=["intervals", "asked for each"])
def test_what_is_denied_has_the_bytes_of_what_is_not_there(tmp_path: Path, view: View) -> None:
    folder = tmp_path / "docs"
    (folder / "secret").mkdir(parents=True)
    for name in ("a.txt", "secret.txt", "secret/1.txt", "z.txt"):
        (folder / name).write_text(name)
    found = []
    for areas in (["open", "secret", "zone"], ["open", "zone"]):
        app = fill(Server("denied", gate=Gate(view), page_size=2), areas)
        app.add_provider(fill(Server("inner", page_size=2), areas), namespace="lib")
        app.add_provider(str(folder))
        app.skills()
        found.append(answers(app, folder.as_uri()))
        shutil.rmtree(folder / "secret", ignore_errors=True)
        (folder / "secret.txt").unlink(missing_ok=True)
    assert len(found[0]) > 60
    for denied, missing in zip(*found, strict=True):
        assert denied == missing
    assert sum(b"open" in data for _, data in found[0]) > 5
    assert sum(b"acknowledged" in data for _, data in found[0]) == 2
