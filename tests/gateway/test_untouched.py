"""What a gateway passes on as it came: unknown members, keys of ``_meta``, capabilities, log levels, errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from carrel import Client, Server
from carrel.catalog.transforms.changed_uris import change_uris
from carrel.client.cache import Cache
from carrel.errors import INTERNAL_ERROR, ProtocolError
from carrel.host.remote import RemoteProvider
from carrel.protocol.passed_results import private
from carrel.protocol.revisions import REVISIONS
from carrel.transports.memory import MemoryPeer, connect
from gateway import echo
from support.scripted_server import LATEST, Partner, on_http, required

SESSION = "2025-11-25"
TOOL: dict[str, Any] = {
    "name": "find",
    "inputSchema": {"type": "object", "x-order": ["a"]},
    "securitySchemes": [{"type": "oauth2", "scopes": ["find"]}],
    "annotations": {"readOnlyHint": True, "costHint": 3},
    "icons": [{"src": "https://example.com/i.png", "density": 2}],
    "_meta": {"com.example/a": {"b": [1, None]}},
}
RESULT: dict[str, Any] = {
    "content": [
        {"type": "text", "text": "found", "language": "en", "annotations": {"priority": 0.5, "tone": {"warm": True}}},
        {"type": "resource", "resource": {"uri": "a:b", "text": "x", "encoding": "utf-8"}, "pinned": None},
    ],
    "structuredContent": {"found": 1},
    "isError": False,
    "usage": {"tokens": [1, 2]},
    "_meta": {"com.example/c": 1},
}


@asynccontextmanager
async def between(
    partner: Partner, near: str, capabilities: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[MemoryPeer]:
    """Give a client of a gateway to a server that says what a test wants."""
    app = Server("gateway")
    async with on_http(partner) as url:
        app.add_provider(RemoteProvider(url, name="far", revision=partner.revision, **options))
        async with connect(app, near, **(capabilities or {})) as peer:
            yield peer


def typed(revision: str, result: dict[str, Any]) -> dict[str, Any]:
    """Return a result as a server of a revision sends it."""
    return {"resultType": "complete", **result} if revision == LATEST else result


def partner_of(revision: str) -> Partner:
    return Partner(
        revision,
        {
            "tools/list": typed(revision, {"tools": [{"name": "plain", "inputSchema": {"type": "object"}}, TOOL]}),
            "tools/call": typed(revision, RESULT),
            "resources/list": typed(revision, {"resources": [{"uri": "a:b", "name": "b", "checksum": "c"}]}),
            "resources/read": typed(
                revision, {"contents": [{"uri": "a:b", "text": "x", "lines": 1}], "etag": "e", "_meta": {}}
            ),
            "prompts/list": typed(revision, {"prompts": [{"name": "p"}]}),
            "prompts/get": typed(
                revision,
                {"messages": [{"role": "user", "content": {"type": "text", "text": "x", "w": 1}, "at": 1}], "v": 2},
            ),
        },
    )


def without(result: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return a result without what each revision adds of its own."""
    own = {"resultType", "ttlMs", "cacheScope", *names}
    rest = {name: value for name, value in result.items() if name not in own}
    meta = {key: value for key, value in rest.pop("_meta", {}).items() if key != "io.modelcontextprotocol/serverInfo"}
    return {**rest, "_meta": meta} if meta else rest


@pytest.mark.parametrize("near", ["2025-06-18", SESSION, LATEST])
@pytest.mark.parametrize("far", ["2025-06-18", SESSION, LATEST])
async def test_members_that_no_revision_has_come_as_they_were_sent(far: str, near: str) -> None:
    async with between(partner_of(far), near) as peer:
        called = (await peer.request("tools/call", {"name": "find"}))["result"]
        assert without(called) == without(RESULT)
        listed = {tool["name"]: tool for tool in (await peer.request("tools/list"))["result"]["tools"]}
        for name in ("securitySchemes", "annotations", "inputSchema", "_meta"):
            assert listed["find"][name] == TOOL[name]
        assert listed["plain"].keys() <= {"name", "inputSchema", "_meta"}
        resources = (await peer.request("resources/list"))["result"]["resources"]
        assert resources[0]["checksum"] == "c"
        read = (await peer.request("resources/read", {"uri": "a:b"}))["result"]
        assert (read["contents"][0]["lines"], read["etag"]) == (1, "e")
        prompt = without((await peer.request("prompts/get", {"name": "p"}))["result"])
        assert prompt == {
            "messages": [{"role": "user", "content": {"type": "text", "text": "x", "w": 1}, "at": 1}],
            "v": 2,
        }


@pytest.mark.parametrize("near", REVISIONS)
@pytest.mark.parametrize("far", [SESSION, LATEST])
async def test_parameters_and_keys_of_meta_that_no_revision_has_reach_the_server(far: str, near: str) -> None:
    partner = partner_of(far)
    async with between(partner, near) as peer:
        params = {
            "name": "find",
            "arguments": {"a": {"b": None}},
            "hint": {"fast": [True]},
            "_meta": {"com.example/t": 7},
        }
        await peer.request("tools/call", params)
    sent = partner.sent_of("tools/call")[0]["params"]
    assert (sent["arguments"], sent["hint"], sent["_meta"]["com.example/t"]) == (
        {"a": {"b": None}},
        {"fast": [True]},
        7,
    )
    own = {key for key in sent["_meta"] if not key.startswith("io.modelcontextprotocol/")}
    assert own == {"com.example/t"}


async def test_the_name_of_the_server_in_a_result_is_that_of_the_gateway() -> None:
    partner = partner_of(LATEST)
    partner.answers["tools/call"] = typed(
        LATEST, {**RESULT, "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "inner", "version": "1"}}}
    )
    async with between(partner, LATEST) as peer:
        called = (await peer.request("tools/call", {"name": "find"}))["result"]
    assert called["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "gateway"


@pytest.mark.parametrize("kind", ["input_required", "task", "complete", "?"])
async def test_a_server_of_an_older_revision_says_nothing_about_the_type_of_a_result(kind: str) -> None:
    partner = partner_of(SESSION)
    question = {"method": "elicitation/create", "params": {"message": "Password?", "requestedSchema": {}}}
    forged = {"resultType": kind, "inputRequests": {"a": question}, "requestState": "forged", "taskId": "other"}
    partner.answers["tools/call"] = {**RESULT, **forged}
    async with between(partner, LATEST) as peer:
        assert (await peer.request("tools/call", {"name": "find"}))["result"]["resultType"] == "complete"
    async with between(partner, SESSION) as peer:
        assert "resultType" not in (await peer.request("tools/call", {"name": "find"}))["result"]


async def test_a_server_without_sessions_is_told_the_capabilities_and_the_level_of_the_client() -> None:
    partner = partner_of(LATEST)
    extensions = {"com.example/search": {"depth": 2}, "io.modelcontextprotocol/tasks": {}}
    async with between(partner, LATEST) as peer:
        peer.capabilities = {"sampling": {"tools": {}}, "extensions": extensions, "experimental": {"x": {}}}
        await peer.request("tools/call", {"name": "find", "_meta": {"io.modelcontextprotocol/logLevel": "debug"}})
        await peer.request("tools/call", {"name": "find"})
    first, second = (sent["params"]["_meta"] for sent in partner.sent_of("tools/call"))
    declared = first["io.modelcontextprotocol/clientCapabilities"]
    assert declared == {
        "sampling": {"tools": {}},
        "experimental": {"x": {}},
        "extensions": {"com.example/search": {"depth": 2}},
    }
    assert first["io.modelcontextprotocol/logLevel"] == "debug"
    assert "io.modelcontextprotocol/logLevel" not in second


async def test_a_server_with_sessions_sends_the_lowest_level_that_a_client_wants() -> None:
    partner = partner_of(SESSION)
    async with between(partner, LATEST) as peer:
        for level in ("warning", "debug", "error"):
            await peer.request("tools/call", {"name": "find", "_meta": {"io.modelcontextprotocol/logLevel": level}})
    assert [sent["params"]["level"] for sent in partner.sent_of("logging/setLevel")] == ["warning", "debug"]


@pytest.mark.parametrize("far", [SESSION, LATEST])
async def test_an_error_keeps_its_code_its_message_and_its_data(far: str) -> None:
    partner = partner_of(far)
    error = {"code": -31123, "message": "No", "data": {"why": [{"deep": None}]}}
    partner.answers |= {method: {"error": error} for method in ("tools/call", "resources/read", "prompts/get")}
    async with between(partner, SESSION) as peer:
        for method, params in (
            ("tools/call", {"name": "find"}),
            ("resources/read", {"uri": "a:b"}),
            ("prompts/get", {"name": "p"}),
        ):
            assert (await peer.request(method, params))["error"] == error


@pytest.mark.parametrize("change", [lambda tool: tool.pop("_meta"), lambda tool: tool.update(_meta={"a/b": 1})])
async def test_an_entry_gets_no_meta_that_it_did_not_have(change: Callable[[dict[str, Any]], Any]) -> None:
    partner = partner_of(SESSION)
    tool = dict(TOOL)
    change(tool)
    partner.answers["tools/list"] = {"tools": [tool]}
    async with between(partner, SESSION) as peer:
        assert (await peer.request("tools/list"))["result"]["tools"] == [tool]


BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "a", "w": 1},
    {"type": "video", "data": "AAAA", "mimeType": "video/mp4", "_meta": {"com.example/v": 1}},
    {"type": "text", "text": "b"},
]


@pytest.mark.parametrize("near", REVISIONS)
@pytest.mark.parametrize("far", [SESSION, LATEST])
async def test_content_blocks_of_types_that_no_revision_has_come_as_they_were_sent(far: str, near: str) -> None:
    partner = partner_of(far)
    partner.answers["tools/call"] = typed(far, {"content": BLOCKS, "usage": 3})
    message = {"role": "user", "content": BLOCKS[1]}
    partner.answers["prompts/get"] = typed(far, {"messages": [message]})
    async with between(partner, near) as peer:
        called = (await peer.request("tools/call", {"name": "find"}))["result"]
        assert (called["content"], called["usage"]) == (BLOCKS, 3)
        assert (await peer.request("prompts/get", {"name": "p"}))["result"]["messages"] == [message]


@pytest.mark.parametrize("near", [SESSION, LATEST])
@pytest.mark.parametrize("options", [{"fetch_web": True}, {}])
async def test_a_client_with_a_cache_or_the_web_keeps_unknown_members(near: str, options: dict[str, Any]) -> None:
    partner, app = partner_of(SESSION), Server("gateway")
    async with on_http(partner) as url, Cache(default_ttl_ms=60_000) as cache:
        client = Client(url, revision=SESSION, **(options or {"cache": cache}))
        app.add_provider(RemoteProvider(client, name="far"))
        async with connect(app, near) as peer:
            for _ in range(2):
                read = (await peer.request("resources/read", {"uri": "a:b"}))["result"]
                assert (read["contents"][0]["lines"], read["etag"]) == (1, "e")
            assert not (await client.read_resource("a:b")).meta
    assert len(partner.sent_of("resources/read")) == (3 if options else 1)


async def test_a_result_that_is_wrong_besides_its_content_blocks_is_an_error() -> None:
    partner = partner_of(SESSION)
    partner.answers["tools/call"] = {"content": BLOCKS, "isError": "perhaps"}
    async with between(partner, SESSION) as peer:
        assert "error" in await peer.request("tools/call", {"name": "find"})


#: Requests of a server to its client: the parameters, and what the client answers.
ASKED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "elicitation/create": (
        {
            "message": "Who?",
            "requestedSchema": {
                "type": "object",
                "properties": {"n": {"type": "string", "x-rows": 3}},
                "x-order": ["n"],
            },
        },
        {"action": "accept", "content": {"n": "Ada", "more": "kept"}},
    ),
    "sampling/createMessage": (
        {
            "messages": [{"role": "user", "content": {"type": "text", "text": "?", "lang": "en"}, "at": 1}],
            "maxTokens": 5,
            "modelPreferences": {"hints": [{"name": "m", "vendor": "v"}]},
        },
        {"role": "assistant", "content": {"type": "text", "text": "!", "tone": 1}, "model": "m", "usage": {"in": 1}},
    ),
    "roots/list": ({}, {"roots": [{"uri": "https://no.example"}, {"uri": "file:///a", "branch": "main"}]}),
}
#: What is left of the answer to a question for roots: those that are files.
ROOTS = {"roots": ASKED["roots/list"][1]["roots"][1:]}
EXTRA: dict[str, Any] = {"urgent": [None], "_meta": {"com.example/trace": "t"}}


@pytest.mark.parametrize("method", ASKED)
@pytest.mark.parametrize("near", [SESSION, LATEST])
@pytest.mark.parametrize("far", [SESSION, LATEST])
async def test_questions_and_their_answers_come_as_they_were_sent(far: str, near: str, method: str) -> None:
    params, answer = ({**part, **EXTRA} for part in ASKED[method])
    partner, answers = partner_of(far), list[Any]()

    async def call(message: dict[str, Any]) -> Any:
        if far == LATEST:
            given = message["params"].get("inputResponses")
            if given is None:
                return required({"who": {"method": method, "params": params}}, state="s")
            answers.append(given["who"])
        else:
            partner.ask(method, params, via=message["id"])
            answers.append((await partner.until(None))["result"])
        return typed(far, RESULT)

    partner.answers["tools/call"] = call
    partner.stream = True
    async with between(partner, near, {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}) as peer:
        if near == LATEST:
            asked = (await peer.request("tools/call", {"name": "find"}))["result"]
            ((key, question),) = asked["inputRequests"].items()
            more = {"requestState": asked["requestState"], "inputResponses": {key: answer}}
            done = await peer.request("tools/call", {"name": "find", **more})
        else:
            calling = peer.start("tools/call", {"name": "find"})
            question = await peer.notification()
            peer.feed(msgspec.json.encode({"jsonrpc": "2.0", "id": question["id"], "result": answer}))
            done = await calling
    assert question["params"] == params
    assert answers == [{**answer, **(ROOTS if method == "roots/list" else {})}]
    assert done["result"]["usage"] == RESULT["usage"]


async def test_a_question_keeps_no_keys_of_another_connection() -> None:
    partner = partner_of(SESSION)
    meta = {"progressToken": 7, "com.example/trace": "t"}

    async def call(message: dict[str, Any]) -> dict[str, Any]:
        partner.ask("roots/list", {"_meta": meta}, via=message["id"])
        await partner.until(None)
        return RESULT

    partner.answers["tools/call"] = call
    partner.stream = True
    async with between(partner, SESSION, {"roots": {}}) as peer:
        calling = peer.start("tools/call", {"name": "find"})
        question = await peer.notification()
        peer.feed(msgspec.json.encode({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}}))
        await calling
    assert question["params"]["_meta"] == {"com.example/trace": "t"}


@pytest.mark.parametrize("changes", [False, True])
async def test_middleware_that_leaves_a_result_alone_does_not_drop_its_unknown_members(changes: bool) -> None:
    partner = partner_of(SESSION)
    partner.answers["tools/call"] = {"content": [{"type": "video", "url": "a"}, {"type": "text", "text": "x"}], "v": 1}
    app = Server("gateway")

    @app.middleware
    async def look(call: Any, next: Any) -> Any:
        result = await next(call)
        if changes and call.method == "tools/call":
            result.content[1].text = "y"
        return result

    async with on_http(partner) as url:
        app.add_provider(RemoteProvider(url, name="far", revision=SESSION))
        async with connect(app, SESSION) as peer:
            called = (await peer.request("tools/call", {"name": "find"}))["result"]
    assert called["content"][1]["text"] == ("y" if changes else "x")
    assert changes or called == partner.answers["tools/call"]


async def test_middleware_of_a_mounted_server_and_of_the_outer_one_leave_a_result_as_it_came() -> None:
    partner = partner_of(SESSION)
    partner.answers["tools/call"] = {"content": [{"type": "video", "url": "a"}], "v": 1}
    app, inner = Server("gateway"), Server("inner")

    async def look(call: Any, next: Any) -> Any:
        return await next(call)

    app.middleware(look)
    inner.middleware(look)
    async with on_http(partner) as url:
        inner.add_provider(RemoteProvider(url, name="far", revision=SESSION))
        app.add_provider(inner)
        async with connect(app, SESSION) as peer:
            assert (await peer.request("tools/call", {"name": "find"}))["result"] == partner.answers["tools/call"]


@pytest.mark.parametrize(
    "scope", [b'"cacheScope":"\\u0070ublic"', b'"cache\\u0053cope":"public"', b'"cacheScope":"public"']
)
def test_escaped_letters_do_not_make_a_private_result_public(scope: bytes) -> None:
    result = b'{"contents":[],"ttlMs":1,' + scope + b"}"
    assert msgspec.json.decode(private(result)) == {"contents": [], "ttlMs": 1, "cacheScope": "private"}
    for other in (b'{"contents":[]}', b'{"contents":[{"uri":"a:b","text":"public"}],"cacheScope":"private"}'):
        assert private(other) == other


#: Results with duplicate members, and what clients get: the last one, as the decoder of the gateway.
DUPLICATES = {
    b'{"content":[{"type":"text","text":"a"}],"content":[{"type":"text","text":"b"}]%b}': b'"text":"b"',
    b'{"content":[{"type":"text","text":"a","text":"b"}]%b}': b'"text":"b"',
    b'{"content":[{"type":"text","text":"a","te\\u0078t":"b"}]%b}': b'"text":"b"',
    b'{"content":[{"type":"text","text":"\\u0022\\u0022","text":"b"}]%b}': b'"text":"b"',
    b'{"content":[],"structuredContent":{"n":1e15,"m":1e15,"k":1,"k":"b"}%b}': b'"k":"b"',
    b'{"content":[],"own":{"k":1, "k" : "b"}%b}': b'"k":"b"',
    b'{"content":[],"_meta":{"own/k":1,"own/k":"b"}%b}': b'"own/k":"b"',
    b'{ "own":[{"":1,"":"b"}], "content":[]%b}': b'"":"b"',
}


@pytest.mark.parametrize("near", [SESSION, LATEST])
@pytest.mark.parametrize("far", [SESSION, LATEST])
@pytest.mark.parametrize("result", DUPLICATES)
async def test_of_duplicate_members_the_last_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, result: bytes, far: str, near: str
) -> None:
    monkeypatch.setitem(echo.RESULTS, "tools/call", result)
    async with echo.between(monkeypatch, far, near) as peer:
        passed = await echo.answer(peer, "tools/call")
    once = DUPLICATES[result]
    assert once in passed
    assert passed.count(once.partition(b":")[0] + b":") == 1
    assert passed.count(b'"content":') == 1


@pytest.mark.parametrize(
    "result",
    [
        b'{"isError":false,"content":[{"text":"a","type":"text"}]}',
        b'{ "content": [{"type": "text", "text": "\\n \\"", "own": 1.50}], "own": 123456789012345678901234567890 }',
        b'{"content":[{"type":"text","text":"a","annotations":null}],"structuredContent":{"n":1e2,"resultType":1}}',
    ],
)
async def test_a_result_without_duplicate_members_keeps_its_bytes(
    monkeypatch: pytest.MonkeyPatch, result: bytes
) -> None:
    monkeypatch.setitem(echo.RESULTS, "tools/call", result + b"%b")
    async with echo.between(monkeypatch, SESSION, SESSION) as peer:
        assert await echo.answer(peer, "tools/call") == b'{"jsonrpc":"2.0","id":77,"result":%b}' % result


@pytest.mark.parametrize(("far", "near"), [(SESSION, SESSION), (SESSION, LATEST), (LATEST, SESSION)])
@pytest.mark.parametrize("method", ["tools/call", "resources/read"])
async def test_members_of_stateless_revisions_do_not_pass_to_or_from_older_revisions(
    monkeypatch: pytest.MonkeyPatch, method: str, far: str, near: str
) -> None:
    own = b'"ttlMs":1,"cacheScope":"public",' * (method == "tools/call" or far == SESSION)
    own += b'"resultType":"task",' * (far == SESSION) + b'"requestState":"s","inputRequests":{},"ke\\u0070t":1'
    content = b'"content":[]' if method == "tools/call" else b'"contents":[]'
    monkeypatch.setitem(echo.RESULTS, method, b"{" + own + b"," + content + b"%b}")
    async with echo.between(monkeypatch, far, near) as peer:
        result = msgspec.json.decode(await echo.answer(peer, method))["result"]
    assert result["kept"] == 1
    names = {"requestState", "inputRequests"} | (set() if near == LATEST else {"resultType", "ttlMs", "cacheScope"})
    assert result.keys() & names == set()


@pytest.mark.parametrize("result", [b'{"content":[],"own":"\xff"%b}', b'{"content":[],"own":1e999%b}'])
async def test_a_result_with_an_unreadable_member_is_an_error(monkeypatch: pytest.MonkeyPatch, result: bytes) -> None:
    monkeypatch.setitem(echo.RESULTS, "tools/call", result)
    async with echo.between(monkeypatch, SESSION, SESSION) as peer:
        assert "error" in msgspec.json.decode(await echo.answer(peer, "tools/call"))


def test_a_member_that_is_repeated_hides_no_uri_of_another_server() -> None:
    def change(uri: str) -> str:
        return f"far+{uri}" if uri.startswith("near:") else uri

    link = b'{"content":[{"type":"resource_link","uri":"near:a","uri":"a:b","name":"n"}]}'
    assert b"near:" not in change_uris(link, change)
    content = b'{"content":[{"type":"resource_link","uri":"near:a","name":"n"}],"content":[]}'
    assert change_uris(content, change) == b'{"content":[]}'


def test_uris_of_a_result_with_a_number_out_of_range_are_an_error_of_the_server() -> None:
    with pytest.raises(ProtocolError, match="Number out of range") as raised:
        change_uris(b'{"content":[{"type":"resource_link","uri":"a:b","name":"n"}],"far":1e999}', str)
    assert raised.value.code == INTERNAL_ERROR
