"""The start of watching: what a client is promised from the first moment of a server on."""

import asyncio
import json
import logging
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from carrel import Server
from carrel.catalog.provider import Change, Page, Provider
from carrel.server import watching
from carrel.sources.folder.sandbox import SandboxRoot
from carrel.sources.folder.selection import FileSelection
from carrel.sources.folder.snapshot import PathChanges, Snapshot
from carrel.sources.folder.tree import Tree
from carrel.transports.memory import MemoryPeer
from carrel.wire.resources import ReadResourceResult, Resource, TextResourceContents
from support.carrel_process import COMMAND, command

#: Starts for each of three ways to be promised something, in forks; of two ways, one start imports modules meanwhile.
STARTS = 3
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
OPEN = [
    {
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
]


def is_acknowledged(message):
    return message.get("id") == 1 or message.get("method") == "notifications/subscriptions/acknowledged"


@pytest.mark.parametrize("way", ["subscribe", "listen", "list"])
def test_nothing_is_lost_right_after_the_first_acknowledgement_of_a_new_process(way, tmp_path):
    def start(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "a.txt").write_text("before")
        uri = (folder / "a.txt").as_uri()
        wanted = {"resourceSubscriptions": [uri]}
        requests = {
            "subscribe": [*OPEN, {"id": 1, "method": "resources/subscribe", "params": {"uri": uri}}],
            "listen": [
                {"id": 1, "method": "subscriptions/listen", "params": {"_meta": META, "notifications": wanted}},
            ],
            "list": [*OPEN, {"id": 1, "method": "resources/list"}],
        }[way]
        serve = ["serve", str(folder)]
        process = subprocess.Popen(
            [*COMMAND, *serve] if number == 0 and way != "list" else command(*serve),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        alarm = threading.Timer(20, process.kill)  # then the lines end
        alarm.start()
        with process:
            for request in requests:
                process.stdin.write(json.dumps({"jsonrpc": "2.0", **request}) + "\n")
            process.stdin.flush()
            told = None
            for line in process.stdout:
                message = json.loads(line)
                assert "error" not in message
                if is_acknowledged(message):
                    path = folder / ("new.txt" if way == "list" else "a.txt")
                    path.write_text("after")
                elif message.get("method", "").endswith(("resources/updated", "resources/list_changed")):
                    told = message
                    break
            alarm.cancel()
            process.stdin.close()
            process.stdout.read()
        return told is not None

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(start, range(STARTS))) == [True] * STARTS


class Slow(Provider):
    """A provider that listens when it is told to."""

    name = "slow"
    prefixes = ("slow:",)

    def __init__(self):
        self.go = asyncio.Event()
        self.heard = asyncio.Queue()

    async def list_resources(self, request):
        return Page([Resource("slow:1", "1")])

    async def read_resource(self, uri, request):
        return ReadResourceResult(contents=[TextResourceContents(uri, "text")])

    async def watch(self, interest):
        await self.go.wait()
        yield ()
        while True:
            yield await self.heard.get()


@pytest.fixture
async def slow():
    return Slow()


@pytest.fixture
async def app(slow):
    app = Server("s")
    app.add_provider(slow)
    app.resources.add("memo:1", "text")
    await app.endpoint.start()
    yield app
    await app.endpoint.stop()


async def session(app):
    peer = MemoryPeer(app, "2025-11-25")
    who = {"name": "c", "version": "1"}
    await peer.request("initialize", {"protocolVersion": peer.revision, "capabilities": {}, "clientInfo": who})
    return peer


def listen(peer, **wanted):
    return peer.start("subscriptions/listen", {"notifications": wanted})


async def test_a_subscription_is_answered_when_its_source_listens(app, slow):
    peer = await session(app)
    answer = peer.start("resources/subscribe", {"uri": "slow:1"})
    assert "result" in await peer.request("resources/subscribe", {"uri": "memo:1"})  # which no source has
    assert not answer.done()
    slow.go.set()
    assert "result" in await answer
    slow.heard.put_nowait([Change("changed", "slow:1")])
    assert (await peer.notification())["params"]["uri"] == "slow:1"
    assert not app.endpoint.watches.forming
    assert "result" in await peer.request("resources/subscribe", {"uri": "slow:2"})


@pytest.mark.parametrize("wanted", [{"resourceSubscriptions": ["slow:1"]}, {"resourcesListChanged": True}])
async def test_a_listener_is_acknowledged_when_its_sources_listen(app, slow, wanted):
    peer = MemoryPeer(app, "2026-07-28")
    listen(peer, **wanted)
    await peer.request("resources/list")  # what is stateless waits for nothing
    with pytest.raises(asyncio.QueueEmpty):
        peer._notifications.get_nowait()
    slow.go.set()
    assert (await peer.notification())["method"] == "notifications/subscriptions/acknowledged"
    slow.heard.put_nowait([Change("created", "slow:2"), Change("changed", "slow:1")])
    assert (await peer.notification())["params"]["_meta"]


async def test_a_listener_that_wants_nothing_of_a_source_does_not_wait(app):
    peer = MemoryPeer(app, "2026-07-28")
    listen(peer, resourceSubscriptions=["memo:1"], toolsListChanged=True)
    assert (await peer.notification())["method"] == "notifications/subscriptions/acknowledged"


async def test_requests_that_wait_for_a_watch_are_answered_when_the_server_stops(slow):
    app = Server("s")
    app.add_provider(slow)
    await app.endpoint.start()
    old, new = await session(app), MemoryPeer(app, "2026-07-28")
    answers = [old.start("resources/subscribe", {"uri": "slow:1"}), listen(new, resourceSubscriptions=["slow:1"])]
    await app.endpoint.stop()
    assert all("result" in answer for answer in await asyncio.wait_for(asyncio.gather(*answers), 60))


async def test_a_listener_that_goes_away_meanwhile_is_forgotten(app, slow):
    peer, old = MemoryPeer(app, "2026-07-28"), await session(app)
    listen(peer, resourceSubscriptions=["slow:1"])
    waiting = old.start("resources/subscribe", {"uri": "slow:1"})
    await asyncio.sleep(0)
    await peer.dispatcher.close()
    await old.dispatcher.close()
    slow.go.set()
    while app.endpoint.watches.forming:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (len(app.endpoint.runtime.hub), list(app.endpoint.runtime.hub.uris)) == (0, [])
    waiting.cancel()


async def test_a_source_that_takes_too_long_is_not_waited_for_and_its_changes_are_told_when_it_listens(
    app, slow, monkeypatch, caplog
):
    monkeypatch.setattr(watching, "PATIENCE", 0.01)
    monkeypatch.setattr(watching, "LIST_PATIENCE", 0.01)
    peer, new = await session(app), MemoryPeer(app, "2026-07-28")
    assert len((await peer.request("resources/list"))["result"]["resources"]) == 2
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        assert "result" in await peer.request("resources/subscribe", {"uri": "slow:1"})
    assert "slow is not watched after 0.01 s" in caplog.text
    listen(new, resourceSubscriptions=["slow:1"])
    assert (await new.notification())["method"] == "notifications/subscriptions/acknowledged"
    slow.go.set()
    told = {(await peer.notification())["method"] for _ in range(2)}
    assert told == {"notifications/resources/updated", "notifications/resources/list_changed"}
    assert (await new.notification())["params"]["uri"] == "slow:1"


async def test_a_source_that_cannot_listen_is_not_waited_for(caplog):
    class Deaf(Slow):
        async def watch(self, interest):
            raise OSError("no more watches")
            yield ()

    app = Server("s")
    app.add_provider(Deaf())
    await app.endpoint.start()
    peer = await session(app)
    with caplog.at_level(logging.ERROR):
        assert "result" in await peer.request("resources/subscribe", {"uri": "slow:1"})
    assert "watching slow has ended" in caplog.text
    await app.endpoint.stop()


def test_the_first_look_at_a_tree_ends_when_the_watch_is_stopped(tmp_path):
    for name in "abc":
        (tmp_path / name).mkdir()
    looks = []
    tree = Tree(SandboxRoot(str(tmp_path), follow_links=False), FileSelection((), (), hidden=False, gitignore=True))
    snapshot = Snapshot(tree, lambda: looks.append(0) or len(looks) > 2)
    snapshot.look((), PathChanges())
    assert len(snapshot.known) == 2
