"""The access gate: what it denies is answered for as what does not exist, on every transport."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from carrel import Server
from carrel.catalog.access import View
from carrel.catalog.rules import READING, Rule, Rules
from carrel.errors import ConfigError
from carrel.protocol.extension import Extension
from carrel.protocol.methods import ItemKind, RequestType, Verb
from carrel.protocol.principal import Principal
from carrel.security import StaticTokens
from carrel.security.server.static_tokens import make_token
from carrel.transports.memory import connect
from carrel.wire.base import Result
from carrel.wire.resources import ReadResourceParams
from carrel.wire.tools import CallToolParams
from support.http_requests import ask as ask_http
from support.http_requests import initialize, request
from support.http_server import over_http
from support.memory_client import ALL, HANDSHAKES, LATEST, listed, result
from support.protected_folder import guarded_app
from support.servers.gated import Gate, build
from support.stdio_process import running, stateless

DENIED: dict[str, tuple[str, dict[str, Any]]] = {
    "resource": ("resources/read", {"uri": "memo://secret/1"}),
    "resource in another spelling": ("resources/read", {"uri": "memo://s%65cret/1"}),
    "template": ("resources/read", {"uri": "note://secret/x"}),
    "mounted resource": ("resources/read", {"uri": "lib+memo://secret/1"}),
    "tool": ("tools/call", {"name": "secret_tool", "arguments": {}}),
    "mounted tool": ("tools/call", {"name": "lib_secret_tool", "arguments": {}}),
    "prompt": ("prompts/get", {"name": "secret_prompt", "arguments": {}}),
    "mounted prompt": ("prompts/get", {"name": "lib_secret_prompt", "arguments": {}}),
    "nested read": ("tools/call", {"name": "open_it", "arguments": {"uri": "memo://secret/1"}}),
    "nested read in a mounted server": ("tools/call", {"name": "lib_open_it", "arguments": {"uri": "memo://secret/1"}}),
    "tool over resources": ("tools/call", {"name": "read_resource", "arguments": {"uri": "memo://secret/1"}}),
    "directory": ("tools/call", {"name": "list_resources", "arguments": {"directory": "memo://secret/1"}}),
    "completion of a prompt": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "secret_prompt"}, "argument": {"name": "topic", "value": ""}},
    ),
    "completion of a template": (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "note://secret/{name}"}, "argument": {"name": "name", "value": ""}},
    ),
}
LISTS = ("resources", "resources/templates", "tools", "prompts")
Ask = Callable[..., dict[str, Any]]


def renamed(value: Any) -> Any:
    """Return a value with names of what does not exist instead of names of what is denied."""
    return json.loads(json.dumps(value).replace("secret", "absent").replace("s%65cret", "abs%65nt"))


@contextmanager
def over_stdio() -> Iterator[Ask]:
    with running(server="gated.py") as child:
        yield lambda method, **params: child.ask(stateless(1, method, **params))


@contextmanager
def single() -> Iterator[Ask]:
    with over_http(build()) as origin:
        yield lambda method, **params: ask_http(f"{origin}/mcp", method, **params).body


@contextmanager
def stream() -> Iterator[Ask]:
    with over_http(build()) as origin:
        events = {"accept": "text/event-stream"}
        yield lambda method, **params: ask_http(f"{origin}/mcp", method, headers=events, **params).body


@contextmanager
def batch() -> Iterator[Ask]:
    with over_http(build()) as origin:
        url = f"{origin}/mcp"
        session = {"mcp-session-id": initialize(url, revision="2025-03-26")}

        def ask(method: str, **params: Any) -> dict[str, Any]:
            body = [{"jsonrpc": "2.0", "id": id, "method": method, "params": params} for id in (1, 2)]
            [first, second] = request(url, body, session).body
            assert {**first, "id": 0} == {**second, "id": 0}
            return {**first, "id": 1}

        yield ask


@pytest.mark.slow
@pytest.mark.parametrize("transport", [over_stdio, single, stream, batch])
def test_what_is_denied_is_answered_for_as_what_does_not_exist(transport: Any) -> None:
    with transport() as ask:
        for name, (method, params) in DENIED.items():
            denied = ask(method, **params)
            assert "error" in denied or denied["result"]["isError"], (name, denied)
            assert renamed(denied) == ask(method, **renamed(params)), name
        for kind in LISTS:
            page = json.dumps(ask(f"{kind}/list"))
            assert "open" in page, kind
            assert "secret" not in page, kind
        for tool, arguments in (("list_resources", {}), ("search_resources", {"query": "memo"})):
            found = json.dumps(ask("tools/call", name=tool, arguments=arguments))
            assert "memo://open/1" in found
            assert "secret" not in found


@pytest.mark.parametrize("revision", ALL)
async def test_every_revision_is_answered_alike_in_memory(revision: str) -> None:
    async with connect(build(), revision) as peer:
        for name, (method, params) in DENIED.items():
            denied, missing = await peer.request(method, params), await peer.request(method, renamed(params))
            assert {**renamed(denied), "id": 0} == {**missing, "id": 0}, name
        assert [entry["uri"] for entry in await listed(peer)] == ["memo://open/1", "lib+memo://open/1"]


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_what_is_denied_cannot_be_subscribed_to(revision: str) -> None:
    async with connect(build(), revision) as peer:
        for method in ("resources/subscribe", "resources/unsubscribe"):
            denied = await peer.request(method, {"uri": "memo://secret/1"})
            missing = await peer.request(method, {"uri": "memo://absent/1"})
            assert {**renamed(denied), "id": 0} == {**missing, "id": 0}
            await result(peer, method, uri="memo://open/1")


async def test_what_is_denied_is_left_out_of_what_a_client_listens_to_if_what_is_absent_is() -> None:
    async with connect(build(), LATEST) as peer:
        uris = ["memo://secret/1", "memo://open/1", "lib+memo://secret/1", "note://secret/x", "note://absent/x"]
        peer.start("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
        acknowledged = await peer.notification()
        assert acknowledged["params"]["notifications"] == {"resourceSubscriptions": ["memo://open/1"]}


async def test_lists_that_depend_on_the_caller_are_private_to_caches() -> None:
    async with connect(build(), LATEST) as peer:
        for kind in LISTS:
            assert (await result(peer, f"{kind}/list"))["cacheScope"] == "private"
        assert (await result(peer, "resources/read", uri="memo://open/1"))["cacheScope"] == "private"


@pytest.mark.slow
def test_callers_with_one_view_share_pages_and_are_given_no_others(tmp_path: Path) -> None:
    tokens, lines = zip(*(make_token(name, []) for name in ("alice", "bob", "carol")), strict=True)
    (tmp_path / "tokens").write_text("\n".join(lines) + "\n")
    app = Server("gated", gate=Gate())
    for area in ("open", "secret"):
        app.tool(area)(lambda: "done")
    with over_http(app, authorization=StaticTokens(tmp_path / "tokens")) as origin:
        for _ in range(2):
            pages = [ask_http(f"{origin}/mcp", "tools/list", token).result["tools"] for token in tokens]
            names = [[tool["name"] for tool in page] for page in pages]
            assert names == [["open", "secret"], ["open"], ["open"]]
        assert ask_http(f"{origin}/mcp", "tools/call", tokens[0], name="secret").status == 200
        assert ask_http(f"{origin}/mcp", "tools/call", tokens[1], name="secret").body["error"]["code"] == -32602
    assert len(app.tools.entries.pages) == 2


async def test_reading_may_be_allowed_without_listing() -> None:
    class Unlisted(View):
        key = "unlisted"

        def allows(self, verb: Verb, target: str) -> bool:
            return verb == "read"

    class Unlisting:
        def view(self, principal: Principal | None) -> View:
            return Unlisted()

    app = Server("unlisted", gate=Unlisting())
    app.resources.add("memo://1", "one")
    async with connect(app, LATEST) as peer:
        assert await listed(peer) == []
        assert (await result(peer, "resources/read", uri="memo://1"))["contents"][0]["text"] == "one"


class Looking(View):
    key = "looking"

    def allows(self, verb: Verb, target: str) -> bool:
        return verb != "read" or target == "memo://open"


class LookGate:
    def view(self, principal: Principal | None) -> View:
        return Looking()


async def test_requests_of_extensions_about_resources_are_checked_too() -> None:
    app = Server("extended", gate=LookGate())
    row = RequestType("com.example/look", "look", ReadResourceParams, Result)
    app.extend(Extension(name="com.example/look", requests={row.method: row}), {"look": lambda call, channel: Result()})
    async with connect(app, LATEST) as peer:
        await result(peer, "com.example/look", uri="memo://open")
        denied = await peer.request("com.example/look", {"uri": "memo://secret"})
        assert "not found" in denied["error"]["message"].lower()


async def test_requests_of_extensions_about_tools_and_prompts_are_checked_too() -> None:
    class Usable(View):
        key = "some"

        def allows(self, verb: Verb, target: str) -> bool:
            return (verb, target) in {("call", "open"), ("get", "open")}

    class SomeGate:
        def view(self, principal: Principal | None) -> View:
            return Usable()

    app = Server("extended", gate=SomeGate())
    kinds: tuple[ItemKind, ...] = ("tool", "prompt")
    for kind in kinds:
        row = RequestType(f"com.example/{kind}", kind, CallToolParams, Result, name_field="name", item=kind)
        app.extend(Extension(name=f"com.example/{kind}", requests={row.method: row}), {kind: lambda *_: Result()})
    async with connect(app, LATEST) as peer:
        for kind in kinds:
            await result(peer, f"com.example/{kind}", name="open")
            denied = await peer.request(f"com.example/{kind}", {"name": "secret"})
            assert f"unknown {kind}: secret" in denied["error"]["message"]


async def test_a_gate_that_fails_lets_nothing_through() -> None:
    class Broken:
        def view(self, principal: Principal | None) -> View | None:
            raise ValueError("the policy cannot be read")

    app = Server("broken", gate=Broken())
    app.resources.add("memo://1", "one")
    async with connect(app, LATEST) as peer:
        assert (await peer.request("resources/read", {"uri": "memo://1"}))["error"]["code"] == -32603


@pytest.mark.parametrize("nothing", [None, {}, "", True])
async def test_a_gate_that_returns_no_view_lets_nothing_through(nothing: Any) -> None:
    class Forgetful:
        def view(self, principal: Principal | None) -> View:
            return nothing  # type: ignore[no-any-return]

    app = Server("forgetful", gate=Forgetful())
    app.resources.add("memo://1", "one")
    app.tool(name="work")(lambda: "done")
    async with connect(app, LATEST) as peer:
        for method, params in (
            ("resources/read", {"uri": "memo://1"}),
            ("resources/list", {}),
            ("tools/list", {}),
            ("tools/call", {"name": "work", "arguments": {}}),
        ):
            assert (await peer.request(method, params))["error"]["code"] == -32603


def test_a_server_with_a_gate_cannot_be_mounted() -> None:
    with pytest.raises(ConfigError, match="gate"):
        Server("outer").add_provider(Server("inner", gate=Gate()))


def test_rules_for_methods_hold_for_tools_over_resources() -> None:
    app = Server("tools")
    app.resources.add("memo://1", "one")
    app.add_resource_tools()
    rules = {"resources/list": "list", "resources/read": "read"}
    calls: dict[str, tuple[str, dict[str, str]]] = {
        "list_resources": ("list", {}),
        "search_resources": ("list", {"query": "memo"}),
        "read_resource": ("read", {"uri": "memo://1"}),
    }
    with guarded_app(app, rules) as server:
        for tool, (scope, arguments) in calls.items():
            refused = server.ask(server.principal(), "tools/call", name=tool, arguments=arguments)["result"]
            assert refused["isError"]
            assert "requires a scope" in refused["content"][0]["text"]
            granted = server.ask(server.principal(scope), "tools/call", name=tool, arguments=arguments)["result"]
            assert "isError" not in granted


@pytest.mark.slow
@pytest.mark.parametrize(
    "uri",
    [
        "x://pub/../secret/a",
        "x://pub/%2e%2E/secret/a",
        "x://pub%2f..%2Fsecret/a",
        "x://pub/./../secret",
        "x://pub/a/..",
        "x://pub/a/..?query",
        "x://pub%5C..%5csecret/a",
    ],
)
def test_a_path_that_a_handler_may_follow_to_another_place_does_not_exist_where_something_is_hidden(uri: str) -> None:
    def ask(rules: Rules) -> dict[str, Any]:
        class Given:
            def view(self, principal: Principal | None) -> View:
                return rules.view()

        app = Server("x", gate=Given())

        @app.resource("x://{+path}")
        def read(path: str) -> str:
            return path

        with over_http(app) as origin:
            for plain in ("x://pub/a", "x://pub/a..b/.c/d.", "x://pub/...", "x://pub/a?q=/../b"):
                assert "result" in ask_http(f"{origin}/mcp", "resources/read", uri=plain).body, plain
            return ask_http(f"{origin}/mcp", "resources/read", uri=uri).body

    assert "error" in ask(Rules([Rule("x://pub**", READING)]))
    assert "error" in ask(Rules([Rule("x://**", READING), Rule("x://secret/**", READING, allow=False)]))
    assert "result" in ask(Rules([Rule("**", READING)]))
