"""The ready-made middleware, in memory and over HTTP."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from carrel import Client, Context, Server
from carrel.errors import InvalidParams, PeerError, ResourceNotFound
from carrel.protocol.methods import Verb
from carrel.protocol.principal import Principal, View
from carrel.security import StaticTokens
from carrel.security.server.static_tokens import make_token
from carrel.server.middleware import Caching, ErrorMapping, Logging, RateLimit, Retry, Timing
from carrel.server.middleware.middleware import caller_of
from carrel.transports import memory
from carrel.types import Call, HTTPOptions, Next
from support.http_server import over_http


class Counted:
    """A server whose functions count their calls."""

    def __init__(self, **options: Any) -> None:
        self.app = Server("counted", **options)
        self.calls: list[str] = []
        self.now = 0.0

        @self.app.resource("count://{name}")
        async def count(name: str) -> str:
            self.calls.append(name)
            return f"{name} {len(self.calls)}"

        @self.app.tool
        async def add(a: int, b: int) -> int:
            self.calls.append("add")
            return a + b

        @self.app.tool
        async def fail() -> str:
            self.calls.append("fail")
            raise ValueError("no")

        @self.app.tool
        async def ask(context: Context) -> str:
            self.calls.append("ask")
            return (await context.elicit("Sure?", bool)).action

        @self.app.resource("broken://{name}")
        async def broken(name: str) -> str:
            self.calls.append(name)
            if len(self.calls) < 3 or name == "always":
                raise ConnectionError("gone")
            if name == "key":
                raise KeyError("nothing")
            return "there"

    def clock(self) -> float:
        return self.now


async def read(client: Client, uri: str) -> str:
    return (await client.read_resource(uri)).contents[0].text  # type: ignore[union-attr]


# Timing and logging


async def test_timing_logs_or_reports_every_request_also_one_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    counted, reported = Counted(), list[str]()
    counted.app.middleware(Timing())
    counted.app.middleware(Timing(report=lambda call, seconds: reported.append(call.method) if seconds >= 0 else None))
    counted.app.middleware(Timing(slower_than=10_000, report=lambda call, seconds: reported.append("slow")))
    with caplog.at_level(logging.INFO, "carrel.timing"):
        async with Client(counted.app) as client:
            reported.clear()
            await client.call_tool("add", {"a": 1, "b": 2})
            with pytest.raises(ResourceNotFound):
                await client.read_resource("none://a")
    assert reported[:2] == ["tools/call", "resources/read"]
    assert "slow" not in reported
    assert "tools/call add took " in caplog.text
    assert "resources/read none://a took " in caplog.text


async def test_logging_writes_outcome_target_and_client(caplog: pytest.LogCaptureFixture) -> None:
    counted = Counted()
    counted.app.middleware(Logging("requests", params=True, max_length=20))
    with caplog.at_level(logging.INFO, "requests"):
        async with Client(counted.app) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
            await client.call_tool("fail")
            with pytest.raises(ResourceNotFound):
                await client.read_resource("none://a")
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    lines = [record.getMessage() for record in caplog.records if record.name == "requests"]
    assert "target=add" in next(line for line in lines if "target=add" in line)
    assert "outcome=ok" in next(line for line in lines if "target=add" in line)
    assert "outcome=tool error" in next(line for line in lines if "target=fail" in line)
    missing = next(line for line in lines if "none://a" in line)
    assert "outcome=ResourceNotFound" in missing
    assert missing in warned
    assert all(len(line.partition("params=")[2]) <= 20 for line in lines)


async def test_logging_writes_json_objects_that_parse(caplog: pytest.LogCaptureFixture) -> None:
    counted = Counted()
    counted.app.middleware(Logging("requests", as_json=True, params=True))
    with caplog.at_level(logging.INFO, "requests"):
        async with Client(counted.app) as client:
            await read(client, "count://" + "x" * 3000 + "%0A")
    records = [json.loads(record.getMessage()) for record in caplog.records if record.name == "requests"]
    found = next(record for record in records if record["method"] == "resources/read")
    assert found["outcome"] == "ok"
    assert found["target"].startswith("count://xxx")
    assert found["caller"] == ""


async def test_a_client_cannot_forge_fields_of_a_record(caplog: pytest.LogCaptureFixture) -> None:
    counted = Counted()
    counted.app.middleware(Logging("requests"))
    with caplog.at_level(logging.INFO, "requests"):
        async with Client(counted.app, name='x caller=admin "') as client:
            await client.call_tool("add", {"a": 1, "b": 2})
    lines = [record.getMessage() for record in caplog.records if record.name == "requests"]
    assert next(line for line in lines if "target=add" in line).endswith(r' client="x caller=admin \""')


async def test_json_records_parse_whatever_a_client_sends(caplog: pytest.LogCaptureFixture) -> None:
    counted = Counted()
    counted.app.middleware(Logging("requests", as_json=True, max_length=50))
    with caplog.at_level(logging.INFO, "requests"):
        async with Client(counted.app, name="\U000e0041\x01" + "n" * 100_000) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
    records = [json.loads(record.getMessage()) for record in caplog.records if record.name == "requests"]
    found = next(record for record in records if record["method"] == "tools/call")
    assert found["client"] == "\U000e0041\x01" + "n" * 48


# Caching


async def test_results_are_kept_until_they_expire_and_errors_and_other_tools_are_not() -> None:
    counted = Counted()
    cache = Caching(60, tools=["add", "fail"], clock=counted.clock)
    counted.app.middleware(cache)
    async with Client(counted.app) as client:
        assert [await read(client, "count://a") for _ in range(3)] == ["a 1"] * 3
        assert await read(client, "count://b") == "b 2"
        for _ in range(2):
            await client.call_tool("add", {"a": 1, "b": 2})
            await client.call_tool("fail")
        await client.call_tool("add", {"a": 1, "b": 3})
        assert counted.calls == ["a", "b", "add", "fail", "fail", "add"]
        counted.now = 61
        assert await read(client, "count://a") == "a 7"
        assert cache.hits >= 3
        cache.clear()
        assert await read(client, "count://a") == "a 8"
        first, second = await client.list_tools(), await client.list_tools()
        assert first == second


async def test_a_published_change_drops_what_it_concerns() -> None:
    counted = Counted()
    counted.app.middleware(Caching())
    async with Client(counted.app) as client:
        await read(client, "count://a")
        await read(client, "count://b")
        counted.app.resources.changed("count://a")
        assert await read(client, "count://a") == "a 3"
        assert await read(client, "count://b") == "b 2"
        assert len(await client.list_tools()) == 3

        @counted.app.tool
        async def new() -> str:
            return ""

        assert len(await client.list_tools()) == 4


async def test_the_least_recently_used_result_goes_first_and_bytes_are_counted() -> None:
    counted = Counted()
    counted.app.middleware(Caching(max_entries=2))
    async with Client(counted.app) as client:
        for name in ("a", "b", "a", "c", "a", "b"):
            await read(client, f"count://{name}")
    assert counted.calls == ["a", "b", "c", "b"]
    counted = Counted()
    counted.app.middleware(Caching(max_bytes=10))
    async with Client(counted.app) as client:
        for _ in range(2):
            await read(client, "count://a")
    assert counted.calls == ["a", "a"]


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
async def test_callers_over_http_share_results_only_if_that_is_set(shared: bool, tmp_path: Path) -> None:
    counted = Counted()
    counted.app.middleware(Caching(shared=shared))
    (ann, first), (bob, second) = make_token("ann", []), make_token("bob", [])
    (tmp_path / "tokens").write_text(f"{first}\n{second}\n")
    with over_http(counted.app, authorization=StaticTokens(tmp_path / "tokens")) as origin:
        for token in (ann, ann, bob):
            async with Client(f"{origin}/mcp", http=HTTPOptions(auth=token)) as client:
                await read(client, "count://a")
    assert counted.calls == (["a"] if shared else ["a", "a"])


@pytest.mark.slow
async def test_tokens_of_one_caller_with_other_scopes_have_separate_results(tmp_path: Path) -> None:
    app = Server("scopes")
    app.middleware(Caching())

    @app.resource("scopes://mine")
    async def mine(context: Context) -> str:
        assert context.principal is not None
        return " ".join(sorted(context.principal.scopes))

    (wide, first), (narrow, second) = make_token("ann", ["admin", "read"]), make_token("ann", ["read"])
    (tmp_path / "tokens").write_text(f"{first}\n{second}\n")
    found = []
    with over_http(app, authorization=StaticTokens(tmp_path / "tokens")) as origin:
        for token in (wide, narrow):
            async with Client(f"{origin}/mcp", http=HTTPOptions(auth=token)) as client:
                found.append(await read(client, "scopes://mine"))
    assert found == ["admin read", "read"]


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_clients_in_one_process_have_separate_results(revision: str) -> None:
    counted = Counted()
    counted.app.middleware(Caching())
    async with Client(counted.app, revision=revision) as one, Client(counted.app, revision=revision) as two:
        for client in (one, one, two):
            await read(client, "count://a")
    assert counted.calls == ["a", "a"]


async def test_parameters_that_middleware_has_changed_have_separate_results() -> None:
    app, tenants = Server("tenants"), ["b", "a"]

    @app.middleware
    async def add_tenant(call: Call, next: Next) -> Any:
        if call.method == "tools/call":
            call.params = msgspec.structs.replace(
                call.params, arguments=Raw(b'{"tenant":"%s"}' % tenants.pop().encode())
            )
        return await next(call)

    app.middleware(Caching(tools=["find"]))

    @app.tool
    async def find(tenant: str = "") -> str:
        return tenant

    async with Client(app) as client:
        found = [(await client.call_tool("find")).content[0].text for _ in range(2)]  # type: ignore[union-attr]
    assert found == ["a", "b"]


async def test_requests_with_meta_that_a_handler_may_see_have_separate_results_unless_it_is_of_progress_or_traces() -> (
    None
):
    app, caching = Server("languages"), Caching(tools=["greet"])
    app.middleware(caching)

    @app.tool
    async def greet(context: Context) -> str:
        return str(context.meta.get("com.example/language"))

    async def greeted(**meta: Any) -> str:
        reply = await peer.request("tools/call", {"name": "greet", "_meta": meta})
        return str(reply["result"]["content"][0]["text"])

    async with memory.connect(app) as peer:
        found = [await greeted(**{"com.example/language": language}) for language in ("de", "fr", "de")]
        assert (found, caching.hits) == (["de", "fr", "de"], 1)
        for number in range(3):
            await greeted(progressToken=number, traceparent=f"00-{number:032x}-{1:016x}-01")
        assert caching.hits == 3


async def test_clients_share_results_by_setting_whatever_they_are_called() -> None:
    app, caching = Server("shared"), Caching(tools=["greet"], shared=True)
    app.middleware(caching)

    @app.tool
    async def greet() -> str:
        return "hello"

    async with memory.connect(app) as peer:
        for name in ("one", "two"):
            meta = {"io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"}}
            await peer.request("tools/call", {"name": "greet", "_meta": meta})
    assert caching.hits == 1


# Rate limit


async def test_more_requests_than_the_rate_are_rejected_until_time_has_passed() -> None:
    counted = Counted()
    counted.app.middleware(RateLimit(2, burst=4, key=lambda call: call.method, clock=counted.clock))
    async with Client(counted.app) as client:
        for _ in range(4):
            await read(client, "count://a")
        with pytest.raises(PeerError, match=r"at most 2 per second; retry in 0\.5 s"):
            await read(client, "count://a")
        await client.ping()
        await client.call_tool("add", {"a": 1, "b": 2})  # another key
        counted.now += 0.5
        await read(client, "count://a")
        with pytest.raises(PeerError):
            await read(client, "count://a")
    assert counted.calls.count("a") == 5


async def test_callers_have_separate_limits_and_only_some_are_remembered() -> None:
    counted = Counted()
    counted.app.middleware(
        RateLimit(1, key=lambda call: getattr(call.params, "uri", ""), max_callers=2, clock=counted.clock)
    )
    async with Client(counted.app) as client:
        await read(client, "count://a")
        await read(client, "count://b")
        with pytest.raises(PeerError):
            await read(client, "count://b")
        await read(client, "count://c")
        await read(client, "count://d")
        await read(client, "count://a")  # was forgotten
    with pytest.raises(ValueError, match="above 0"):
        RateLimit(0)


# Retry and errors


async def test_a_temporary_error_is_retried_but_not_forever_and_not_for_tools() -> None:
    counted = Counted()
    counted.app.middleware(Retry(3, delay=0))
    async with Client(counted.app) as client:
        assert await read(client, "broken://sometimes") == "there"
        assert counted.calls == ["sometimes"] * 3
        counted.calls.clear()
        with pytest.raises(PeerError):
            await read(client, "broken://always")
        assert counted.calls == ["always"] * 3
        await client.call_tool("fail")
        assert counted.calls[3:] == ["fail"]
    with pytest.raises(ValueError, match="1 or more"):
        Retry(0)


async def test_exceptions_are_mapped_by_their_nearest_class_and_reported() -> None:
    counted, reported = Counted(), list[Exception]()
    errors = {
        LookupError: lambda error: ResourceNotFound("x:y"),
        OSError: InvalidParams,
    }
    counted.app.middleware(ErrorMapping(errors, report=lambda call, error: reported.append(error)))
    async with Client(counted.app) as client:
        with pytest.raises(PeerError, match="gone") as caught:
            await read(client, "broken://always")
        assert caught.value.code == InvalidParams.code
        counted.calls += ["1", "2"]
        with pytest.raises(ResourceNotFound):
            await read(client, "broken://key")
        with pytest.raises(ResourceNotFound):
            await client.read_resource("none://a")
    assert [type(error) for error in reported] == [ConnectionError, KeyError, ResourceNotFound]


async def test_clients_learn_the_requested_uri_of_a_missing_file_and_not_its_path() -> None:
    app = Server("files")

    @app.resource("report://{year}")
    def report(year: int) -> str:
        return Path(f"/missing/{year}.txt").read_text()

    app.middleware(ErrorMapping({FileNotFoundError: lambda error: ResourceNotFound(error.filename)}))
    async with Client(app) as client:
        with pytest.raises(ResourceNotFound) as caught:
            await client.read_resource("report://2025")
    assert caught.value.uri == "report://2025"


def test_a_user_cannot_evade_the_limit_with_another_oauth_client() -> None:
    one, two, other = (
        caller_of(SimpleNamespace(principal=Principal(subject=subject, client=client)))  # type: ignore[arg-type]
        for subject, client in (("ann", "a"), ("ann", "b"), ("bob", "a"))
    )
    assert one == two != other


@pytest.mark.parametrize("depth", [1, 2])
async def test_a_server_that_is_mounted_twice_has_results_for_each_mount(depth: int) -> None:
    class NotAHidden(View):
        key = "part"

        def allows(self, verb: Verb, target: str) -> bool:
            return target.partition("_")[0] != "a" or "hidden" not in target

    class Parts:
        def view(self, principal: Principal | None) -> View:
            return NotAHidden()

    app, mounted = Server("outer", gate=Parts()), Server("inner")
    mounted.middleware(Caching(shared=True))
    mounted.tools.add(lambda: "", name="shown")
    mounted.tools.add(lambda: "", name="hidden")
    for namespace in ("a", "b"):
        between = mounted if depth == 1 else Server("between")
        if depth == 2:
            between.add_provider(mounted, namespace="in")
        app.add_provider(between, namespace=namespace)
    inner = "" if depth == 1 else "in_"
    async with Client(app) as client:
        listed = {tool.name for tool in await client.list_tools()}
    assert listed == {f"a_{inner}shown", f"b_{inner}shown", f"b_{inner}hidden"}
