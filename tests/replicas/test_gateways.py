"""Replicas of ``carrel gateway`` behind HAProxy: a call that waits for its client stays at one, and continues there.

The server behind them is written with the official Python SDK 1.x, and asks over stdio.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from carrel import Client
from carrel.client.handlers import Handlers, URLElicitation
from carrel.security.client import Bearer
from carrel.transports.client.options import HTTPOptions
from gateway.test_grants import Team
from support.http_process import free_port, reachable
from support.openid_provider import Provider, provider
from support.parties import python
from support.redis_servers import RedisServer, redis_server
from support.worker_processes import running

from .group import Group, Member, replicated
from .web import Lost, Stream, Web

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PATIENCE = 60.0
SHOP = Path(__file__).with_name("shop.py")


@pytest.fixture(scope="module")
def store() -> Iterator[RedisServer]:
    with redis_server() as running:
        yield running


def configure(folder: Path) -> Path:
    """Write the configuration of a gateway to the shop."""
    command, arguments = json.dumps(python("1")), json.dumps([str(SHOP), str(folder / "journal")])
    path = folder / "carrel.toml"
    path.write_text(f"[servers.shop]\ncommand = {command}\nargs = {arguments}\n")
    return path


@asynccontextmanager
async def shop_over_http(folder: Path) -> AsyncIterator[None]:
    """Run the shop, and write the configuration of a gateway to it. Its requests over HTTP name their calls."""
    port = free_port()
    (folder / "carrel.toml").write_text(f'[servers.shop]\nurl = "http://127.0.0.1:{port}/mcp"\n')
    command = [python("1"), str(SHOP), str(folder / "journal"), str(port)]
    with open(folder / "shop.log", "wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            await reachable(port)
            yield
        finally:
            process.kill()


@asynccontextmanager
async def gateways(store: RedisServer, folder: Path) -> AsyncIterator[Group]:
    """Run two replicas of a gateway to the shop, which writes a journal."""
    configure(folder)
    async with replicated("gateway", store, folder, replicas=2) as group:
        yield group


@asynccontextmanager
async def webs(*members: Member) -> AsyncIterator[list[Web]]:
    found = [Web(f"http://127.0.0.1:{member.port}/mcp") for member in members]
    try:
        yield found
    finally:
        for web in found:
            await web.close()


def effects(group: Group) -> list[str]:
    return [effect for effect, _, _ in group.journal()]


def answer(asked: Any, **content: Any) -> dict[str, Any]:
    """Return the parameters with the answer to the one request of a result."""
    ((key, _),) = asked["inputRequests"].items()
    given = {key: {"action": "accept", "content": content}}
    return {"inputResponses": given, "requestState": asked["requestState"]}


async def call(web: Web, tool: str, **more: Any) -> Any:
    return await web.ask("tools/call", name=tool, arguments={"id": "1"}, **more)


async def test_a_call_continues_at_any_replica_and_runs_once(store: RedisServer, tmp_path: Path) -> None:
    async with gateways(store, tmp_path) as group, webs(*group.members) as (one, other):
        for first, second, third in ((one, other, other), (other, one, other), (one, other, one)):
            (tmp_path / "journal").write_text("")
            asked = (await call(first, "order"))["result"]
            ((_, question),) = asked["inputRequests"].items()
            assert question["params"]["message"] == "Which size? ü"
            asked = (await call(second, "order", **answer(asked, size=3)))["result"]
            ((_, question),) = asked["inputRequests"].items()
            assert question["params"]["message"] == "For whom?"
            done = (await call(third, "order", **answer(asked, name="Zoë")))["result"]
            assert done["content"][0]["text"] == "3 for Zoë"
            assert effects(group) == ["reserve", "send"]


async def test_a_call_continues_behind_a_balancer_that_changes_replicas(store: RedisServer, tmp_path: Path) -> None:
    async with gateways(store, tmp_path) as group:
        web = Web(group.url)
        for _ in range(4):
            asked = (await call(web, "order"))["result"]
            asked = (await call(web, "order", **answer(asked, size=3)))["result"]
            done = (await call(web, "order", **answer(asked, name="Zoë")))["result"]
            assert done["content"][0]["text"] == "3 for Zoë"
        await web.close()
        assert effects(group) == 4 * ["reserve", "send"]


async def test_an_answer_that_does_not_fit_is_asked_for_again_at_the_other_replica(
    store: RedisServer, tmp_path: Path
) -> None:
    async with gateways(store, tmp_path) as group, webs(*group.members) as (one, other):
        asked = (await call(one, "order"))["result"]
        again = (await call(other, "order", **answer(asked, size="large")))["result"]
        assert again["inputRequests"] == asked["inputRequests"]
        asked = (await call(one, "order", **answer(again, size=3)))["result"]
        done = (await call(other, "order", **answer(asked, name="Zoë")))["result"]
        assert done["content"][0]["text"] == "3 for Zoë"
        assert effects(group) == ["reserve", "send"]


async def test_the_state_of_another_call_is_refused(store: RedisServer, tmp_path: Path) -> None:
    async with gateways(store, tmp_path) as group, webs(*group.members) as (one, other):
        asked = (await call(one, "order"))["result"]
        more = answer(asked, size=3)
        error = (await other.ask("tools/call", name="order", arguments={"id": "2"}, **more))["error"]
        assert error["code"] == -32602
        assert effects(group) == ["reserve"]


@pytest.mark.parametrize("size", [40_000, 3_000_000])
async def test_results_of_any_size_and_progress_come_from_the_other_replica(
    size: int, store: RedisServer, tmp_path: Path
) -> None:
    async with gateways(store, tmp_path) as group, webs(*group.members) as (one, other):
        meta = {"progressToken": "p"}
        asked = (await call(one, "print_label", _meta=meta))["result"]
        headers, message = Web.stateless(
            "tools/call", name="print_label", arguments={"id": "1"}, _meta=meta, **answer(asked, size=size)
        )
        async with other.request("POST", headers, message) as response, aclosing(Stream(response).events()) as events:
            seen = [event async for event in events if event is not None]
        assert seen[0]["params"] == {"progressToken": "p", "progress": 1, "total": 2, "message": "half"}
        assert seen[-1]["result"]["content"][0]["text"] == size * "ü"
        assert effects(group) == ["label"]


async def test_a_client_that_leaves_the_other_replica_cancels_the_call(store: RedisServer, tmp_path: Path) -> None:
    async with gateways(store, tmp_path) as group, webs(*group.members) as (one, other), asyncio.timeout(PATIENCE):
        asked = (await call(one, "bake"))["result"]
        waiting = asyncio.ensure_future(call(other, "bake", **answer(asked, size=1)))
        while effects(group) != ["knead", "bake"]:
            await asyncio.sleep(0.02)
        waiting.cancel()
        while effects(group) != ["knead", "bake", "stop"]:
            await asyncio.sleep(0.02)


async def test_a_replica_that_stops_finishes_the_calls_for_clients_of_others(
    store: RedisServer, tmp_path: Path
) -> None:
    async with gateways(store, tmp_path) as group, webs(*group.members) as (one, other), asyncio.timeout(PATIENCE):
        asked = (await call(one, "wrap"))["result"]
        waiting = asyncio.ensure_future(call(other, "wrap", **answer(asked, size=1)))
        while effects(group) != ["wrap"]:
            await asyncio.sleep(0.02)
        await group.members[0].end(signal.SIGTERM)
        assert (await waiting)["result"]["content"][0]["text"] == "wrapped"


@pytest.mark.parametrize("runs", [False, True])
async def test_a_call_whose_replica_was_killed_may_have_run(runs: bool, store: RedisServer, tmp_path: Path) -> None:
    """Killed between question and answer, or while the answered call runs."""
    async with gateways(store, tmp_path) as group, webs(*group.members) as (one, other), asyncio.timeout(PATIENCE):
        asked = (await call(one, "bake"))["result"]
        if not runs:
            await group.members[0].end()
            error = (await call(other, "bake", **answer(asked, size=1)))["error"]
            assert "bake" not in effects(group)
        else:
            waiting = asyncio.ensure_future(call(other, "bake", **answer(asked, size=1)))
            while "bake" not in effects(group):
                await asyncio.sleep(0.02)
            await group.members[0].end()
            error = (await waiting)["error"]
        assert error["code"] == -32603
        assert "may have done some of its work" in error["message"]
        assert effects(group).count("knead") == 1


async def test_a_call_continues_at_any_worker_of_one_command(tmp_path: Path) -> None:
    async with running("gateway", str(configure(tmp_path)), "--http", "0", "--workers", "2") as workers:
        here, there = [await workers.connect(pid) for pid in await workers.pids()]

        async def ask(client: Any, tool: str, **more: Any) -> Any:
            headers, message = Web.stateless("tools/call", name=tool, arguments={"id": "1"}, **more)
            return (await (await workers.site.post(message, headers, client)).result())["result"]

        for first, second in ((here, there), (there, here)):
            asked = await ask(first, "order")
            asked = await ask(second, "order", **answer(asked, size=3))
            done = await ask(first, "order", **answer(asked, name="Zoë"))
            assert done["content"][0]["text"] == "3 for Zoë"
            asked = await ask(first, "print_label")
            done = await ask(second, "print_label", **answer(asked, size=1_000_000))
            assert done["content"][0]["text"] == 1_000_000 * "ü"
        lines = [line.split()[0] for line in (tmp_path / "journal").read_text().splitlines()]
        assert lines == 2 * ["reserve", "send", "label"]
        assert await workers.end() == 0
        assert workers.errors.count("SERVER") == 1
        assert "Traceback" not in workers.errors


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(2, 12))])
async def test_no_call_runs_twice_while_replicas_are_killed(seed: int, store: RedisServer, tmp_path: Path) -> None:
    chosen, over, done, lost = random.Random(seed), asyncio.Event(), set[str](), list[str]()

    async def order(web: Web, id: str) -> None:
        more: dict[str, Any] = {}
        for content in ({"size": 3}, {"name": "Zoë"}, None):
            arguments = {"name": "order", "arguments": {"id": id}}
            try:
                reply = await web.ask("tools/call", **arguments, **more)
            except Lost:
                if not more:
                    return
                reply = await web.ask("tools/call", **arguments, **more)  # as a client may do
            if "error" in reply:
                lost.append(reply["error"]["message"])
                return
            if content is not None:
                more = answer(reply["result"], **content)
            await asyncio.sleep(chosen.uniform(0, 0.3))
        assert reply["result"]["content"][0]["text"] == "3 for Zoë"
        done.add(id)

    async def work(web: Web, number: int) -> None:
        count = 0
        while not over.is_set():
            with suppress(Lost):
                await order(web, f"{number}.{count}")
            count += 1
            await asyncio.sleep(chosen.uniform(0, 0.3))

    async with shop_over_http(tmp_path), replicated("gateway", store, tmp_path, replicas=3) as group:
        web = Web(group.url)
        working = [asyncio.create_task(work(web, number)) for number in range(4)]
        for _ in range(3):
            await asyncio.sleep(chosen.uniform(0.5, 2))
            member = chosen.choice(group.members)
            await member.end()
            await asyncio.sleep(chosen.uniform(0, 1))
            await member.start()
        over.set()
        await asyncio.wait_for(asyncio.gather(*working), 2 * PATIENCE)
        await web.close()
        effects = [(effect, id) for effect, id, _ in group.journal()]
    assert len(effects) == len(set(effects)), "nothing has happened twice"
    assert {(effect, id) for effect in ("reserve", "send") for id in done} <= set(effects)
    assert done
    told = ("may have done some of its work", "has been used already", "not available")
    assert all(any(part in text for part in told) for text in lost), lost


async def test_while_redis_is_away_a_retry_is_refused_and_a_later_one_succeeds(tmp_path: Path) -> None:
    with redis_server("redis-server", "--appendonly", "yes") as store:
        async with gateways(store, tmp_path) as group, webs(*group.members) as (one, other), asyncio.timeout(PATIENCE):
            asked = (await call(one, "order"))["result"]
            await asyncio.to_thread(store.stop)
            with pytest.raises(Lost, match="503"):
                await call(other, "order", **answer(asked, size=3))
            await asyncio.to_thread(store.start)
            while True:
                try:
                    asked = (await call(other, "order", **answer(asked, size=3)))["result"]
                    break
                except Lost:
                    await asyncio.sleep(0.1)
            done = (await call(one, "order", **answer(asked, name="Zoë")))["result"]
            assert done["content"][0]["text"] == "3 for Zoë"
            assert effects(group) == ["reserve", "send"]


LOGIN = """
[auth]
issuer = "{issuer}"
resource = "{url}/mcp"

[gateway]
public_url = "{url}"

[servers.team]
url = "{team}"
"""


@pytest.fixture(scope="module")
def auth() -> Iterator[Provider]:
    with provider() as running:
        yield running


@pytest.fixture
def team(auth: Provider) -> Iterator[Team]:
    with Team(auth).serve() as running:
        yield running


def log_in(auth: Provider, page: str, user: str) -> httpx2.Response:
    """Open a page of the gateway, log in there and at the server behind it, and return the last page."""
    with httpx2.Client() as browser:
        shown = browser.get(page)
        if shown.status_code == 303:  # to the login at the gateway
            back = browser.get(auth.browse(shown.headers["location"], user))
            assert back.status_code == 303, back.text
            shown = browser.get(back.headers["location"])
        if shown.status_code != 200:
            return shown
        sent = browser.post(page.partition("?")[0], data={"ticket": page.partition("ticket=")[2]})
        assert sent.status_code == 303, sent.text
        return browser.get(auth.browse(sent.headers["location"], user))


async def test_a_user_logs_in_through_any_replica_and_is_logged_in_at_all(
    auth: Provider, team: Team, store: RedisServer, tmp_path: Path
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    (tmp_path / "carrel.toml").write_text(LOGIN.format(issuer=auth.issuer, url=url, team=team.url))
    auth.protect(f"{url}/mcp", "mcp")
    token = auth.person("ann", f"{url}/mcp", "mcp")["access_token"]
    pages = []

    async def visit(page: URLElicitation) -> bool:
        pages.append(page.url)
        refused = await asyncio.to_thread(log_in, auth, page.url, "eve")
        assert refused.status_code == 403
        shown = await asyncio.to_thread(log_in, auth, page.url, "ann")
        assert shown.status_code == 200, shown.text
        assert "is connected" in shown.text
        return True

    async with replicated("gateway", store, tmp_path, replicas=2, port=port) as group:
        for target in (f"{url}/mcp", *(f"http://127.0.0.1:{member.port}/mcp" for member in group.members)):
            http = HTTPOptions(auth=Bearer(token))
            async with Client(target, revision="2026-07-28", http=http, handlers=Handlers(elicit_url=visit)) as client:
                result = await client.call_tool("team_login", {}) if not pages else None
                assert result is None or not result.is_error, result
                assert (await client.call_tool("whoami", {})).text == "ann"
        assert len(pages) == 1
        gone = f"{url}/gateway/authorize?ticket=1-gone"
        assert [(await asyncio.to_thread(httpx2.get, gone)).status_code for _ in range(2)] == [404, 404]
