"""Outages through replicas in processes of their own: Redis away or full, a paused replica, a wrong clock."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
import redis

from support.redis_servers import RedisServer, redis_server
from support.stdio_process import request

from .group import replicated
from .program import URIS
from .web import Stream, Web

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PATIENCE = 60.0
ADD = {"name": "add", "arguments": {"id": "a"}}


INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


async def begin_outage(kind: str, store: RedisServer) -> None:
    if kind == "away":
        await asyncio.to_thread(store.stop)
    else:
        set_memory(store, 1)


async def end_outage(kind: str, store: RedisServer) -> None:
    if kind == "away":
        await asyncio.to_thread(store.start)
    else:
        set_memory(store, 0)


def set_memory(store: RedisServer, size: int) -> None:
    with redis.Redis(unix_socket_path=str(store.socket)) as client:
        client.config_set("maxmemory", size)


@pytest.mark.parametrize("outage", [pytest.param("away", marks=pytest.mark.exhaustive), "full"])
async def test_without_redis_stateless_requests_are_answered_and_others_refused(outage: str, tmp_path: Path) -> None:
    with redis_server() as store:
        async with replicated("journal", store, tmp_path, replicas=2, lease=15.0) as group:
            web = Web(group.url)
            session = await web.open()
            listening = web.stateless("subscriptions/listen", notifications={"resourceSubscriptions": URIS})
            async with web.request("POST", *listening) as response:
                heard = Stream(response).events()
                assert (await anext(heard))["method"] == "notifications/subscriptions/acknowledged"
                await begin_outage(outage, store)
                for _ in range(2 * len(group.members)):
                    assert "result" in await web.ask("tools/call", **ADD)
                    assert "retry-after" in await web.refused(request(1, "initialize", INITIALIZE))
                await web.ask("tools/call", name="change", arguments={"uri": URIS[0]})  # nobody can be told now
                await end_outage(outage, store)
                again = await asyncio.wait_for(web.open(), PATIENCE)
                assert "result" in await again.ask("tools/call", **ADD)
                seen = set[str]()
                async with asyncio.timeout(PATIENCE):
                    while seen != set(URIS):
                        message = await anext(heard)
                        seen.add(message["params"]["uri"])
            if outage == "full":
                assert "result" in await session.ask("tools/call", **ADD), "the session has survived"
            await web.close()
            for member in group.members:
                errors = [line for line in member.log.read_text().splitlines() if "cannot be reached" in line]
                refusals = [line for line in member.log.read_text().splitlines() if "refuses to store" in line]
                assert (len(errors), len(refusals)) == ((1, 0) if outage == "away" else (0, 1)), member.log.read_text()


async def test_in_a_batch_only_the_requests_that_need_redis_fail_while_it_is_away(tmp_path: Path) -> None:
    with redis_server() as store:
        async with replicated("journal", store, tmp_path, replicas=1, lease=60.0) as group:
            web = Web(group.url)
            session = await web.open("2025-03-26")
            tools = ("add", "count", "change", "add")
            arguments = ({"id": "a"}, {}, {"uri": URIS[0]}, {"id": "b"})
            batch = [
                request(number, "tools/call", {"name": name, "arguments": given})
                for number, (name, given) in enumerate(zip(tools, arguments, strict=True))
            ]
            before = {reply["id"]: reply for reply in await session.post(batch)}
            assert {number for number, reply in before.items() if "result" in reply} == {0, 1, 2, 3}
            await begin_outage("away", store)
            replies = {reply["id"]: reply for reply in await session.post(batch)}
            assert {number for number, reply in replies.items() if "result" in reply} == {0, 2, 3}
            assert "not available now" in replies[1]["error"]["message"]
            await end_outage("away", store)
            await web.close()


async def test_after_flushall_replicas_take_new_slots_long_before_the_next_renewal(tmp_path: Path) -> None:
    with redis_server("valkey-server") as store:
        async with replicated("journal", store, tmp_path, replicas=2, lease=3600.0) as group:
            web = Web(group.url)
            session = await web.open()
            listening = web.stateless("subscriptions/listen", notifications={"resourceSubscriptions": URIS})
            async with web.request("POST", *listening) as response:
                heard = Stream(response).events()
                assert (await anext(heard))["method"] == "notifications/subscriptions/acknowledged"
                with redis.Redis(unix_socket_path=str(store.socket)) as client:
                    client.flushall()
                async with asyncio.timeout(PATIENCE):
                    seen = {(await anext(heard))["params"]["uri"] for _ in URIS}
                    while {name for effect, _, name in group.journal() if effect == "fenced"} != {"0.1", "1.1"}:
                        await asyncio.sleep(0.05)
            assert seen == set(URIS), "the client that listens is notified of everything"
            again = await asyncio.wait_for(web.open(), PATIENCE)
            assert "result" in await again.ask("tools/call", **ADD)
            for _ in group.members:
                await session.check_ended()
            await web.close()


async def test_a_paused_replica_fences_itself_and_goes_on_in_another_slot(tmp_path: Path) -> None:
    with redis_server() as store:
        async with replicated("journal", store, tmp_path, replicas=2, lease=3.0) as group:
            web, paused = Web(group.url), group.members[0]
            direct = Web(f"http://127.0.0.1:{paused.port}/mcp")
            task = (await direct.ask("tools/call", name="job", arguments={"id": "j", "seconds": 600}))["result"]
            assert paused.process is not None
            paused.process.send_signal(signal.SIGSTOP)
            other = Web(f"http://127.0.0.1:{group.members[1].port}/mcp")
            async with asyncio.timeout(PATIENCE):
                while (found := (await other.ask("tasks/get", taskId=task["taskId"]))["result"])["status"] == "working":
                    await asyncio.sleep(0.1)
            assert found["status"] == "failed"
            assert "may have done some of its work" in found["error"]["message"]
            paused.process.send_signal(signal.SIGCONT)
            async with asyncio.timeout(PATIENCE):
                while ("fenced", "-", paused.name) not in group.journal():
                    await asyncio.sleep(0.05)
            session = await asyncio.wait_for(direct.open(), PATIENCE)
            assert "result" in await session.ask("tools/call", **ADD)
            assert ("job", "j", paused.name) not in group.journal()
            again = (await direct.ask("tasks/get", taskId=task["taskId"]))["result"]
            assert again["status"] == "failed", "the first final status stays"
            for each in (web, direct, other):
                await each.close()


async def test_a_clock_that_is_ahead_does_not_matter(tmp_path: Path) -> None:
    with redis_server() as store:
        async with replicated("journal", store, tmp_path, replicas=2, lease=15.0, ahead=600) as group:
            webs = [Web(f"http://127.0.0.1:{member.port}/mcp") for member in group.members]
            for here, there in (webs, webs[::-1]):
                moved = (await here.open()).on(there)
                assert "result" in await moved.ask("tools/call", **ADD)
                params = {"name": "greet", "arguments": {"id": "g"}}
                asked = (await here.ask("tools/call", **params))["result"]
                ((key, question),) = asked["inputRequests"].items()
                (name,) = question["params"]["requestedSchema"]["properties"]
                given = {key: {"action": "accept", "content": {name: "Ann"}}}
                state = asked["requestState"]
                reply = await there.ask("tools/call", **params, inputResponses=given, requestState=state)
                assert "result" in reply, reply
                assert reply["result"]["content"][0]["text"] == "Hello Ann"
                job = {"id": "j", "seconds": 0.1}
                task = (await here.ask("tools/call", name="job", arguments=job))["result"]["taskId"]
                async with asyncio.timeout(PATIENCE):
                    while (found := (await there.ask("tasks/get", taskId=task))["result"])["status"] == "working":
                        await asyncio.sleep(0.05)
                assert found["status"] == "completed"
            for web in webs:
                await web.close()
