"""What a client writes, message by message, whatever the server does: over pipes and over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from carrel.client.client import Client
from carrel.client.extensions import ClientExtension
from carrel.client.handlers import Handlers
from carrel.errors import ConfigError, InvalidMessage, PeerError, ResourceNotFound
from support.scripted_server import Partner, connected, in_turn, required, silence
from support.server_connection import ALL, HANDSHAKES, JUNE, LATEST, MARCH, NOVEMBER

pytestmark = [pytest.mark.requirement, pytest.mark.slow]


PREFIX = "io.modelcontextprotocol/"
#: A key of _meta: dotted labels and a slash, then a name.
KEY = re.compile(
    r"((?:[a-zA-Z](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)(?:\.[a-zA-Z](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*/)?"
    r"[a-zA-Z0-9](?:[a-zA-Z0-9._-]*[a-zA-Z0-9])?"
)


async def agree(_: Any) -> Any:
    return {}


async def everything(client: Client, partner: Partner) -> None:
    """Use all that a client can do."""
    _ = await client.list_tools()
    _ = await client.list_resources()
    _ = await client.list_resource_templates()
    _ = await client.list_prompts()
    await client.read_resource("a:b")
    await client.call_tool("t", {"text": "two\nlines \u2028 \u00e9"}, progress=lambda *_: None)
    await client.get_prompt("p", {"a": "b"})
    await client.ping()
    async with client.watch("a:b", lists=["tools"]):
        pass
    await cancelled(client, partner, "slow", 2)
    await client.ping()  # by whose answer the end of the watch has been answered, too


async def cancelled(client: Client, partner: Partner, name: str, count: int = 1) -> Any:
    """Call a tool, the partner's call number ``count``, and cancel that once the partner has it; return its id."""
    calling = asyncio.create_task(client.call_tool(name))
    request = await partner.until("tools/call", count)
    calling.cancel()
    await asyncio.wait([calling])
    return request["id"]


def slowly(message: dict[str, Any]) -> Any:
    return None if message["params"]["name"] == "slow" else {"content": []}


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("revision", ALL)
async def test_everything_that_is_written_is_one_message_of_json_rpc(revision: str, transport: str) -> None:
    partner = Partner(revision, {"tools/call": slowly})
    async with connected(
        partner, transport, handlers=Handlers(elicit_form=agree, sample=agree, roots=["/srv"])
    ) as client:
        await everything(client, partner)
        if revision != LATEST and transport == "stdio":
            for number, method in enumerate(("ping", "roots/list", "elicitation/create", "nothing/here"), 1):
                partner.ask(method, {}, number)
                await partner.until(None, number)
    bodies = (
        partner.written.splitlines()
        if transport == "stdio"
        else [exchange.body for exchange in partner.exchanges if exchange.method == "POST"]
    )
    assert len(bodies) == len(partner.sent) > 10
    for body in bodies:
        message = json.loads(body.decode("utf-8"))
        assert isinstance(message, dict), "one message, and no batch"
        assert message["jsonrpc"] == "2.0"
        if "method" in message:
            assert set(message) <= {"jsonrpc", "id", "method", "params"}
            assert isinstance(message.get("params", {}), dict)
        else:
            assert set(message) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
        if "id" in message:
            assert type(message["id"]) in (int, str)
            assert "notifications/" not in message.get("method", "")
        else:
            assert message["method"].startswith("notifications/")
    ids = [message["id"] for message in partner.sent if "id" in message and "method" in message]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_every_stateless_request_says_version_capabilities_and_who_asks(transport: str) -> None:
    partner = Partner(answers={"tools/call": slowly})
    async with connected(partner, transport, handlers=Handlers(elicit_form=agree)) as client:
        await everything(client, partner)
    for message in partner.sent:
        if "id" not in message:
            continue
        meta = message["params"]["_meta"]
        assert meta[f"{PREFIX}protocolVersion"] == LATEST
        assert meta[f"{PREFIX}clientCapabilities"]["elicitation"] == {"form": {}}
        assert set(meta[f"{PREFIX}clientInfo"]) >= {"name", "version"}


@pytest.mark.parametrize("revision", ALL)
async def test_names_that_are_written_into_meta_and_of_extensions_follow_the_grammar(revision: str) -> None:
    partner = Partner(revision, {"tools/call": slowly})
    async with connected(partner, log=lambda _: None, handlers=Handlers(elicit_form=agree)) as client:
        await everything(client, partner)

    def keys(value: Any) -> list[str]:
        if not isinstance(value, dict):
            return []
        own = list(value["_meta"]) if "_meta" in value else []
        return own + list(value.get("extensions", ())) + [key for item in value.values() for key in keys(item)]

    found = {key for message in partner.sent for key in keys(message)}
    assert found
    assert all(KEY.fullmatch(key) for key in found)


@pytest.mark.parametrize("name", ["nameless", "x/", "/x", "1.a/x", "a..b/x", "a/ x", ""])
def test_an_extension_without_a_proper_name_is_not_declared(name: str) -> None:
    with pytest.raises(ConfigError):
        Client("http://127.0.0.1/", extensions=[ClientExtension(name)])


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_stateless_server_is_never_answered(transport: str) -> None:
    partner = Partner(stream=True)

    def interrupt(message: dict[str, Any]) -> dict[str, Any]:
        via = message["id"] if transport == "http" else None
        for number, method in enumerate(("ping", "roots/list", "elicitation/create", "sampling/createMessage", "x/y")):
            partner.ask(method, {"message": "?"}, number + 100, via)
        partner.say({"jsonrpc": "2.0", "method": "notifications/made/up"}, via)
        partner.say(b'{"jsonrpc":"2.0","id":7}', via)
        partner.say(b"rubbish", via)
        return {"content": []}

    partner.answers["tools/call"] = interrupt
    async with connected(partner, transport, handlers=Handlers(roots=[], elicit_form=agree, sample=agree)) as client:
        await client.call_tool("t")
        await client.read_resource("a:b")
    assert partner.responses() == []


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_pings_are_answered_at_once_also_while_another_question_waits(revision: str) -> None:
    never = asyncio.Event()

    async def wait(_: Any) -> Any:
        await never.wait()

    partner = Partner(revision)
    async with connected(partner, handlers=Handlers(sample=wait)) as client:
        await client.call_tool("t")
        text = {"role": "user", "content": {"type": "text", "text": "?"}}
        partner.ask("sampling/createMessage", {"messages": [text], "maxTokens": 1}, "slow")
        partner.ask("ping", None, "ping")
        assert await partner.until(None) == {"jsonrpc": "2.0", "id": "ping", "result": {}}


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_a_question_is_answered_under_its_own_id(revision: str) -> None:
    partner = Partner(revision)
    async with connected(partner, handlers=Handlers(roots=[])) as client:
        await client.ping()
        for number, id in enumerate((0, -7, 2**53, "", "q \u00e9"), start=1):
            partner.ask("roots/list", None, id)
            message = await partner.until(None, number)
            assert (message["id"], type(message["id"])) == (id, type(id))
            assert message["result"] == {"roots": []}


@pytest.mark.parametrize("revision", HANDSHAKES)
async def test_codes_of_errors_are_integers_that_the_specification_knows(revision: str) -> None:
    async def fail(_: Any) -> Any:
        raise OSError("secret")

    partner = Partner(revision)
    text = {"role": "user", "content": {"type": "text", "text": "?"}}
    questions: list[tuple[str, Any]] = [
        ("nothing/here", {}),
        ("roots/list", None),
        ("roots/list", {"_meta": 5}),
        ("sampling/createMessage", {}),
        ("sampling/createMessage", {"messages": [text], "maxTokens": 1}),
        ("elicitation/create", {"message": "?", "mode": "url", "url": "https://a/"}),
        ("tasks/get", {"taskId": "t"}),
    ]
    async with connected(partner, handlers=Handlers(sample=fail, elicit_form=fail)) as client:
        await client.ping()
        for number, (method, params) in enumerate(questions, start=1):
            partner.ask(method, params, number)
            error = (await partner.until(None, number))["error"]
            assert error["code"] in (-32601, -32602, -32603)
            assert error["message"]
            assert "secret" not in json.dumps(error)


@pytest.mark.parametrize("code", [*range(-32019, -31999), -32042, -32099, -32050])
async def test_no_meaning_is_read_into_codes_that_have_none(code: int) -> None:
    partner = Partner(
        LATEST, {method: {"error": {"code": code, "message": "?"}} for method in ("resources/read", "tools/call")}
    )
    async with connected(partner) as client:
        with pytest.raises((PeerError, ResourceNotFound)) as caught:
            await client.read_resource("a:b")
        assert isinstance(caught.value, ResourceNotFound) is (code == -32002)
        with pytest.raises(PeerError) as told:
            await client.call_tool("t")
        assert (told.value.code, told.value.message) == (code, "?")
    assert [len(partner.sent_of(method)) for method in ("resources/read", "tools/call")] == [1, 1]


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("kind", ["partial", "", "task", 5, None])
async def test_a_result_of_a_type_that_is_not_known_is_invalid(kind: Any, transport: str) -> None:
    partner = Partner(answers={"tools/call": {"content": [], "resultType": kind}})
    async with connected(partner, transport) as client:
        with pytest.raises(InvalidMessage):
            await client.call_tool("t")
        assert (await client.read_resource("a:b")).contents[0].uri == "a:b"


async def test_odd_values_under_reserved_keys_do_no_harm() -> None:
    odd = {f"{PREFIX}{name}": 5 for name in ("serverInfo", "subscriptionId", "protocolVersion", "related-task")}
    discovered = {"supportedVersions": [LATEST], "capabilities": {"tools": {}, "resources": {}}, "_meta": odd}
    partner = Partner(answers={"server/discover": discovered, "tools/call": {"content": [], "_meta": odd}})
    async with connected(partner) as client:
        assert client.server is None
        partner.notify("notifications/resources/updated", {"uri": "a:b", "_meta": odd})
        partner.notify("notifications/message", {"level": "info", "data": 1, "_meta": odd})
        assert (await client.call_tool("t")).meta == odd


async def test_an_extension_that_the_server_does_not_have_changes_nothing() -> None:
    partner = Partner()
    async with connected(partner, extensions=[ClientExtension("com.example/x", {"deep": True})]) as client:
        assert (await client.call_tool("t")).content
        task = await client.tasks.start_tool("t")
        assert task.status == "completed"
        assert (await task.result()).content


async def test_batches_are_read_where_the_revision_has_them() -> None:
    partner = Partner(MARCH, {"tools/call": silence, "tools/list": silence})
    heard: list[Any] = []
    async with connected(partner, log=heard.append) as client, asyncio.TaskGroup() as group:
        call = group.create_task(client.call_tool("t"))
        await partner.until("tools/call")
        reading = group.create_task(client.read_resource("a:b"))
        await reading
        id = partner.sent_of("tools/call")[0]["id"]
        batch = [
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}},
            {"jsonrpc": "2.0", "id": "p", "method": "ping"},
            {"jsonrpc": "2.0", "id": id, "result": {"content": []}},
        ]
        partner.say(json.dumps(batch).encode())
        assert (await call).content == []
        assert (await partner.until(None))["id"] == "p"
    assert [params.data for params in heard] == ["x"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_an_answer_after_a_cancellation_does_no_harm(transport: str) -> None:
    for revision in (NOVEMBER, LATEST):
        partner = Partner(revision, {"tools/call": silence}, stream=True)
        async with connected(partner, transport) as client:
            id = await cancelled(client, partner, "t")
            if transport == "stdio":
                await partner.until("notifications/cancelled")
            via = id if transport == "http" else None
            for _ in range(2):
                partner.answer(id, {"content": []}, via)
            assert (await client.read_resource("a:b")).contents[0].uri == "a:b"


@pytest.mark.parametrize("revision", ALL)
async def test_an_answered_request_is_never_cancelled(revision: str) -> None:
    partner = Partner(revision)
    async with connected(partner) as client:
        await client.call_tool("t")
        task = asyncio.create_task(client.call_tool("t"))
        await task
        task.cancel()
        partner.answers["tools/call"] = {"error": {"code": 1, "message": "no"}}
        with pytest.raises(PeerError):
            await client.call_tool("t")
    assert partner.sent_of("notifications/cancelled") == []


@pytest.mark.parametrize("revision", ALL)
async def test_progress_is_told_under_the_token_of_its_request_while_that_is_in_work(revision: str) -> None:
    told: dict[str, list[float]] = {"one": [], "two": []}

    def work(message: dict[str, Any]) -> dict[str, Any]:
        token = message["params"]["_meta"]["progressToken"]
        assert type(token) in (int, str)
        for token_of, progress in ((token, 1), ("another", 5), (token, 2)):
            partner.notify("notifications/progress", {"progressToken": token_of, "progress": progress})
        partner.answer(message["id"], {"content": []})
        partner.notify("notifications/progress", {"progressToken": token, "progress": 3})
        return None  # type: ignore[return-value]

    partner = Partner(revision, {"tools/call": work})
    async with connected(partner) as client, asyncio.TaskGroup() as group:
        for name, heard in told.items():
            group.create_task(client.call_tool(name, progress=lambda progress, *_, heard=heard: heard.append(progress)))
    assert told == {"one": [1, 2], "two": [1, 2]}
    tokens = [message["params"]["_meta"]["progressToken"] for message in partner.sent_of("tools/call")]
    assert len(set(tokens)) == 2


async def test_state_across_requests_goes_by_what_the_server_gave_out() -> None:
    partner = Partner(answers={"tools/call": in_turn(required(state="handle"), {"content": []})})
    async with connected(partner) as client:
        await client.call_tool("t")
        await client.call_tool("t")
    assert [message["params"].get("requestState") for message in partner.sent_of("tools/call")] == [
        None,
        "handle",
        None,
    ]


async def test_a_server_of_june_may_name_its_errors_as_it_likes() -> None:
    partner = Partner(JUNE, {"resources/read": {"error": {"code": -32002, "message": "gone"}}})
    async with connected(partner) as client:
        with pytest.raises(ResourceNotFound):
            await client.read_resource("a:b")
