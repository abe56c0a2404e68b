"""Sessions with upstreams: kept apart between clients and principals, limited in number, closed when idle."""

import asyncio
import os
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from carrel import Client, Context, Server
from carrel.catalog.provider import Request
from carrel.errors import ConfigError, InvalidCursor, PeerError
from carrel.gateway.isolation import IsolatedProvider
from carrel.gateway.sessions import SessionLimits, key_of
from carrel.protocol.channel import ConnectedClient
from carrel.security import StaticTokens
from carrel.security.client import Bearer
from carrel.security.server.static_tokens import make_token
from carrel.transports.client.options import HTTPOptions, ProcessOptions
from support.http_server import over_http

SESSION, NEWEST = "2025-11-25", "2026-07-28"


def stateful() -> Server:
    """Return a server that keeps notes per session, and says which session it is."""
    app = Server("notes", page_size=2)
    app.sessions_seen = []

    @app.tool
    async def note(text: str, context: Context) -> str:
        session = context.session
        assert session is not None
        kept = await session.get("notes", [])
        if not kept:
            app.sessions_seen.append(session)
        await session.set("notes", [*kept, text])
        return " ".join([*kept, text])

    @app.tool
    async def hold(context: Context) -> str:
        app.holding.set()
        await app.release.wait()
        return "done"

    @app.resource("notes://all", scope="public", ttl=600)
    async def notes(context: Context) -> str:
        session = context.session
        return "" if session is None else " ".join(await session.get("notes", []))

    for number in range(5):
        app.resources.add(f"note://{number}", f"note {number}")

    app.holding, app.release = asyncio.Event(), asyncio.Event()
    return app


@asynccontextmanager
async def gateway(upstream, isolation="auto", revision=SESSION, **options):
    """Give a running server over one upstream, and its provider."""
    app = Server("gateway")
    provider = IsolatedProvider(upstream, name="notes", isolation=isolation, revision=revision, **options)
    app.add_provider(provider)
    await app.endpoint.start()
    try:
        yield app, provider
    finally:
        await app.endpoint.stop()


async def text(client, tool, **arguments):
    return (await client.call_tool(tool, arguments)).content[0].text


async def read(client, uri):
    return (await client.read_resource(uri)).contents[0].text


@pytest.mark.parametrize("near", [SESSION, NEWEST])
async def test_state_that_a_server_keeps_per_session_is_not_mixed_between_clients(near):
    async with gateway(stateful()) as (app, _), Client(app, revision=near) as one, Client(app, revision=near) as two:
        assert await text(one, "note", text="a") == "a"
        assert await text(two, "note", text="x") == "x"
        assert await text(one, "note", text="b") == "a b"
        assert await text(two, "note", text="y") == "x y"
        assert await read(one, "notes://all") == "a b"
        assert await read(two, "notes://all") == "x y"


async def test_fifty_clients_of_both_eras_have_fifty_sessions_that_end_with_them():
    upstream = stateful()
    async with gateway(upstream) as (app, provider), AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Client(app, revision=(SESSION, NEWEST)[number % 2])) for number in range(50)
        ]
        for step in range(3):
            said = await asyncio.gather(*(text(one, "note", text=f"{n}.{step}") for n, one in enumerate(clients)))
        assert said == [f"{number}.0 {number}.1 {number}.2" for number in range(50)]
        assert len(provider.sessions) == 50
        await stack.aclose()
        await provider.sessions.ended()
        assert len(provider.sessions) == 0
        assert len(list(provider.providers())) == 1


async def test_a_shared_session_is_one_for_all_and_says_so():
    async with gateway(stateful(), "shared") as (app, provider), Client(app) as one, Client(app) as two:
        assert await text(one, "note", text="a") == "a"
        assert await text(two, "note", text="b") == "a b"
        assert len(provider.sessions) == 0


@pytest.mark.parametrize(("isolation", "told"), [("shared", {"one", "two"}), ("client", {"one"})])
async def test_a_list_that_has_changed_for_a_session_is_told_to_the_clients_of_that_session(isolation, told):
    upstream = Server("locked")
    unlocked = set()

    @upstream.tool(when=lambda context: context.session is not None and context.session in unlocked)
    async def secret() -> str:
        return "secret"

    @upstream.tool
    async def unlock(context: Context) -> None:
        unlocked.add(context.session)
        context.list_changed("tools")

    upstream.resources.add("note:old", "for all")
    async with AsyncExitStack() as stack:
        app, _ = await stack.enter_async_context(gateway(upstream, isolation))
        clients, watches = {}, {}
        for name in ("one", "two"):
            client = clients[name] = await stack.enter_async_context(Client(app))
            assert {tool.name for tool in await client.list_tools()} == {"unlock"}
            watches[name] = await stack.enter_async_context(client.watch(lists=["tools", "resources"]))
        await clients["one"].call_tool("unlock")
        async with asyncio.timeout(60):
            for name in told:
                assert (await anext(watches[name])).kind == "tools"
            for name, client in clients.items():
                expected = {"unlock", "secret"} if name in told else {"unlock"}
                assert {tool.name for tool in await client.list_tools()} == expected
            app.resources.add("note:new", "for all")
            for name in clients:
                assert (await anext(watches[name])).kind == "resources", "nobody else was told"


async def test_a_stateless_server_is_shared_by_default():
    upstream = stateful()
    async with gateway(upstream, revision=NEWEST) as (app, provider), Client(app) as one, Client(app) as two:
        assert await read(one, "notes://all") == await read(two, "notes://all") == ""
        assert provider.mode == "shared"
        assert len(provider.sessions) == 0


async def test_the_first_client_gets_the_session_in_which_the_server_was_asked_what_it_has():
    async with gateway(stateful()) as (app, provider):
        async with Client(app, revision=SESSION) as one:
            await text(one, "note", text="secret")
            assert list(provider.providers()) == [provider.default]
        async with Client(app, revision=SESSION) as two:
            assert await text(two, "note", text="x") == "x"  # not "secret x"
            assert len(list(provider.providers())) == 2


async def test_an_answer_that_an_upstream_calls_public_is_private_to_its_caller():
    async with (
        gateway(stateful(), "client") as (app, _),
        Client(app, revision=NEWEST) as one,
        Client(app, revision=NEWEST) as two,
    ):
        await text(one, "note", text="mine")
        assert (await one.read_resource("notes://all")).cache_scope == "private"
        assert (await two.read_resource("notes://all")).contents[0].text == ""


async def test_a_cursor_is_of_no_use_to_another_client():
    async with gateway(stateful(), "client") as (app, provider), Client(app) as one, Client(app) as two:
        await text(one, "note", text="a")
        await text(two, "note", text="b")
        first, second = provider.sessions
        page = await provider.list_resources(request_of(first))
        assert page.scope == "private"
        assert page.next_cursor is not None
        with pytest.raises(InvalidCursor):
            await provider.list_resources(request_of(second, page.next_cursor))
        rest = await provider.list_resources(request_of(first, page.next_cursor))
        assert not {one.uri for one in rest.items} & {one.uri for one in page.items}


def request_of(session, cursor=None):
    """Return a list request of the client of a session."""

    class Of:
        principal = None
        client, connection = session.key.client, session.key.connection

    return Request(Of(), None, cursor=cursor, limit=2)


async def test_only_the_client_whose_session_has_changed_is_notified():
    upstream = stateful()
    hub = upstream.endpoint.runtime.hub

    @upstream.tool
    async def touch(context: Context) -> str:
        """Notify the session of this client alone, as a server with state per session does."""
        entry = hub.sessions[context._call.connection]
        hub.catch_up(entry, ["note://1"], {"tools_list_changed": None})
        return "touched"

    async with gateway(upstream, "client") as (app, _), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(app, revision=near)) for near in (SESSION, NEWEST, SESSION)]
        watches = [client.watch("note://1", lists=["tools"]) for client in clients]
        for watch in watches:
            await watch.start()
        async with asyncio.timeout(60):
            while sum("note://1" in (entry.uris or ()) for entry in hub.sessions.values()) < 3:
                await asyncio.sleep(0.005)
        for number, client in enumerate(clients):
            await text(client, "touch")
            async with asyncio.timeout(60):
                await heard(watches[number], "tools")
            for other in {0, 1, 2} - {number}:
                await text(clients[other], "note", text="x")  # what was sent to it before has come by now
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await heard(watches[other], "tools")


async def heard(watch, kind):
    """Wait for a change of a kind."""
    async for change in watch:
        if change.kind == kind:
            return


async def test_a_session_that_is_idle_is_closed_and_the_next_request_opens_another():
    limits = SessionLimits(idle_seconds=0.02)
    async with gateway(stateful(), "client", limits=limits) as (app, provider), Client(app, revision=SESSION) as one:
        await text(one, "note", text="first")
        async with asyncio.timeout(60):
            while len(provider.sessions):
                await asyncio.sleep(0.005)
        assert await text(one, "note", text="second") == "second"


async def test_a_session_with_a_request_in_progress_is_not_idle():
    limits = SessionLimits(idle_seconds=0.02, max_sessions=1)
    upstream = stateful()
    async with (
        gateway(upstream, "client", limits=limits) as (app, provider),
        Client(app, revision=SESSION) as one,
        Client(app, revision=SESSION) as two,
    ):
        held = asyncio.create_task(text(one, "hold"))
        await upstream.holding.wait()
        with pytest.raises(PeerError, match="1 sessions, all of them in use"):
            await text(two, "note", text="x")
        upstream.release.set()
        assert await held == "done"
        assert await text(two, "note", text="x") == "x"  # the idle one has made room
        assert len(provider.sessions) <= 1  # and may be closed by now, as it is idle


async def test_the_session_that_is_idle_for_longest_makes_room():
    limits = SessionLimits(max_sessions=2)
    async with gateway(stateful(), "client", limits=limits) as (app, provider), AsyncExitStack() as stack:
        one, two, three = [await stack.enter_async_context(Client(app, revision=SESSION)) for _ in range(3)]
        await text(one, "note", text="a")
        await text(two, "note", text="b")
        await text(one, "note", text="a")
        await text(three, "note", text="c")
        assert len(provider.sessions) == 2
        assert await text(one, "note", text="a") == "a a a"
        assert await text(two, "note", text="b") == "b"


def test_the_owner_of_a_session_is_the_principal_and_the_client():
    class Principal:
        def __init__(self, id):
            self.id = id

    session, request, other = ConnectedClient(channel=object()), ConnectedClient(), ConnectedClient()
    ann, ben = Principal("ann"), Principal("ben")
    assert key_of("client", ann, session) != key_of("client", ben, session)
    assert key_of("client", ann, session) != key_of("client", ann, request)
    assert key_of("client", ann, request) == key_of("client", ann, other)
    assert key_of("client", ann, request) != key_of("client", ben, request)
    assert key_of("principal", ann, session) == key_of("principal", ann, request)
    assert key_of("principal", ann, session) != key_of("principal", None, session)


def test_a_server_with_credentials_of_its_callers_is_not_shared():
    with pytest.raises(ConfigError, match="cannot share a session"):
        IsolatedProvider(stateful(), isolation="shared", separate_credentials=True)


@pytest.fixture
def tokens(tmp_path):
    """Tokens of two people, and the file with their hashes."""
    made = [make_token(name) for name in ("ann", "ben")]
    path = tmp_path / "tokens"
    path.write_text("\n".join(line for _, line in made))
    return path, [token for token, _ in made]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("isolation", "near", "said"),
    [
        ("principal", SESSION, ["0", "0 1", "2"]),
        ("principal", NEWEST, ["0", "0 1", "2"]),
        ("client", NEWEST, ["0", "0 1", "2"]),  # stateless clients over HTTP have no session but their principal's
        ("client", SESSION, ["0", "1", "2"]),
    ],
)
def test_two_clients_of_one_principal_and_one_of_another_over_http(tokens, isolation, near, said):
    path, (ann, ben) = tokens
    app = Server("gateway")
    provider = IsolatedProvider(stateful(), name="notes", isolation=isolation, revision=SESSION)
    app.add_provider(provider)
    opened = len(set(said)) if isolation == "client" and near == SESSION else 2

    async def talk(url):
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(Client(url, revision=near, http=HTTPOptions(auth=Bearer(token))))
                for token in (ann, ann, ben)
            ]
            assert [await text(client, "note", text=str(number)) for number, client in enumerate(clients)] == said
            kept = [await read(client, "notes://all") for client in clients]
            assert kept == (said if opened == 3 else ["0 1", "0 1", "2"])
            assert len(provider.sessions) == opened
        async with asyncio.timeout(60):
            while opened == 3 and len(provider.sessions):  # the sessions of the clients have ended
                await asyncio.sleep(0.01)

    with over_http(app, authorization=StaticTokens(path)) as origin:
        asyncio.run(talk(f"{origin}/mcp"))


SCRIPT = """
import os
from carrel import Context, Server
app = Server("counter")

@app.tool
def pid() -> str:
    return str(os.getpid())

app.run()
"""


@pytest.mark.slow
async def test_each_client_has_a_process_of_its_own_and_none_is_left(tmp_path):
    script = Path(tmp_path, "counter.py")
    script.write_text(SCRIPT)
    command = [sys.executable, str(script)]
    options = {"process": ProcessOptions(env={"PYTHONPATH": os.pathsep.join(sys.path)})}
    limits = SessionLimits(max_sessions=2)
    pids = set()
    async with gateway(command, "client", limits=limits, **options) as (app, provider), AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(app, revision=SESSION)) for _ in range(3)]
        for client in clients:
            pids.add(int(await text(client, "pid")))
        assert len(pids) == 3
        await provider.sessions.ended()
        assert sum(map(runs, pids)) <= 3
        pids.add(int(await text(clients[0], "pid")))
    assert not any(map(runs, pids))


def runs(pid):
    """Return whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
