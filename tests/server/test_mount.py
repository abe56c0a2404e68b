"""A mounted server does over the outer one what it does alone: tasks, skills, questions, changes, cancellation."""

import asyncio
import contextlib
import sys

import pytest

from carrel import Client, Server
from carrel.client.handlers import Handlers
from carrel.errors import PeerError, TaskCancelled
from carrel.wire.completion import PromptReference, ResourceTemplateReference
from support.forking import forked
from support.http_server import over_http
from support.servers import SERVERS
from support.servers.mounted import SKILLS, build, make_inner

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("frequent_polls")]

OLD, TASKS, NEWEST = "2025-06-18", "2025-11-25", "2026-07-28"
OVER = pytest.mark.parametrize(("transport", "depth"), [("stdio", 1), ("http", 2)])
#: Both transports at the newest revision: an older revision changes messages, not the transport that carries them.
CONNECTIONS = [("stdio", 1, NEWEST), ("http", 2, NEWEST), ("http", 2, TASKS), ("stdio", 1, OLD)]
EVERY = pytest.mark.parametrize(("transport", "depth", "revision"), CONNECTIONS)
WITH_TASKS = pytest.mark.parametrize(("transport", "depth", "revision"), CONNECTIONS[:3])


class Mount:
    """A client of a server with another one mounted in it; what the inner server was given is found under new names."""

    def __init__(self, client, depth, logged):
        self.client = client
        self.names = "in_" if depth == 1 else "mid_in_"
        self.uris = "in+" if depth == 1 else "mid+in+"
        self.logged = logged

    def call(self, name, arguments=None, **options):
        return self.client.call_tool(self.names + name, arguments, **options)

    async def text(self, name, arguments=None, **options):
        return (await self.call(name, arguments, **options)).content[0].text


@contextlib.asynccontextmanager
async def mounted(transport, revision, depth=1):
    """Give a client of the server over a transport, whose user fills in every form."""

    async def fill(form):
        kinds = {"string": "Ada", "integer": 3, "boolean": True}
        return {name: kinds[field["type"]] for name, field in form.fields.items()}

    async def sample(sampling):
        return "Something."

    handlers = Handlers(elicit_form=fill, sample=sample, roots=["file:///work/books"])
    logged = asyncio.Queue()
    options = {"revision": revision, "handlers": handlers, "log": logged.put_nowait, "log_level": "info"}
    with contextlib.ExitStack() as stack:
        if transport == "http":
            target = stack.enter_context(over_http(build(depth))) + "/mcp"
        else:
            target = forked(sys.executable, str(SERVERS / "mounted.py"), str(depth))
        async with asyncio.timeout(60), Client(target, **options) as client:
            yield Mount(client, depth, logged)


@WITH_TASKS
async def test_tools_of_a_mounted_server_become_tasks(transport, depth, revision):
    async with mounted(transport, revision, depth) as mount:
        tasks, names = mount.client.tasks, mount.names
        await mount.client.list_tools()
        task = await tasks.start_tool(f"{names}slow")
        assert task.id is not None
        assert (await task.result()).content[0].text == "slow"
        assert await mount.text("curious") == "hello Ada"
        asked = await tasks.start_tool(f"{names}curious")
        assert (await asked.result()).content[0].text == "hello Ada"
        endless = await tasks.start_tool(f"{names}endless")
        again = await tasks.get_task(endless.id)
        assert again.status == "working"
        await endless.cancel()
        with pytest.raises((TaskCancelled, PeerError)):
            await endless.result()
        if revision == TASKS:
            assert {task.id, endless.id} <= {listed.id for listed in await tasks.list_tasks()}


@OVER
async def test_skills_of_a_mounted_server_are_listed_and_verified(transport, depth):
    async with mounted(transport, NEWEST, depth) as mount:
        skills = {skill.name: skill async for skill in mount.client.skills.list_skills()}
        assert {"greeting", "sorting", "reverse"} <= skills.keys()
        greeting = skills["greeting"]
        assert greeting.uri == ("skill://in/" if depth == 1 else "skill://mid/in/") + "greeting/SKILL.md"
        got = await mount.client.skills.get_skill(greeting.uri)
        assert (got.uri, got.name, got.fingerprint) == (greeting.uri, "greeting", greeting.fingerprint)
        assert await greeting.instructions()
        assert (await greeting.read("letters/formal.md")).text
        inside = {resource.uri for resource in await greeting.directory()}
        assert greeting.uri in inside
        assert greeting.problem is None


@EVERY
async def test_a_mounted_server_asks_the_client(transport, depth, revision):
    async with mounted(transport, revision, depth) as mount:
        assert await mount.text("ask_all") == "3 Something. file:///work/books"
        read = await mount.client.read_resource(f"{mount.uris}book://lem")
        assert read.contents[0].text == "lem: True"
        prompt = await mount.client.get_prompt(f"{mount.names}greet", {"name": "Bo"})
        assert prompt.messages[0].content.text == "Ada Bo"


@EVERY
async def test_arguments_of_a_mounted_server_are_completed(transport, depth, revision):
    async with mounted(transport, revision, depth) as mount:
        [template] = [
            each.uri_template
            for each in await mount.client.list_resource_templates()
            if each.uri_template.endswith("book://{title}")
        ]
        assert template == f"{mount.uris}book://{{title}}"
        found = await mount.client.complete(ResourceTemplateReference(template), "title", "le")
        assert found.values == ["lem", "leguin"]
        found = await mount.client.complete(PromptReference(f"{mount.names}greet"), "name", "Al")
        assert found.values == ["Alan"]


@EVERY
async def test_progress_logs_and_cancellation_go_through_the_mount(transport, depth, revision):
    async with mounted(transport, revision, depth) as mount:
        seen = []
        assert await mount.text("steps", progress=lambda *report: seen.append(report[0])) == "done"
        assert seen == [1, 2, 3]
        assert await mount.text("talk") == "said"
        assert (await mount.logged.get()).data == "from inside"
        began = asyncio.Event()
        waiting = asyncio.ensure_future(mount.call("wait", progress=lambda *_: began.set()))
        await began.wait()
        waiting.cancel()
        assert await mount.text("was_cancelled") == "true"
        with pytest.raises(asyncio.CancelledError):
            await waiting


@EVERY
async def test_changes_of_a_mounted_server_reach_subscribers_under_their_new_names(transport, depth, revision):
    async with mounted(transport, revision, depth) as mount:
        uris = [f"{mount.uris}note://1", f"{mount.uris}book://lem"]
        async with mount.client.watch(*uris) as changes:
            await mount.call("touch")
            assert {(await anext(changes)).uri, (await anext(changes)).uri} == set(uris)


@EVERY
async def test_lists_of_a_mounted_server_change_while_it_runs(transport, depth, revision):
    async with mounted(transport, revision, depth) as mount:
        async with mount.client.watch(lists=["tools", "prompts", "resources"]) as changes:
            await mount.call("grow")
            kinds = set()
            while kinds != {"tools", "prompts", "resources"}:
                kinds.add((await anext(changes)).kind)
        assert await mount.text("grown") == "grown"
        assert f"{mount.names}grown" in [prompt.name for prompt in await mount.client.list_prompts()]
        assert f"{mount.uris}note://grown" in [resource.uri for resource in await mount.client.list_resources()]


async def test_what_a_server_declares_after_it_was_mounted_is_declared_too():
    inner, outer = Server("inner"), Server("outer")
    outer.add_provider(inner, namespace="in")
    inner.skills(SKILLS)
    inner.ui("ui://page", "<p>Hello</p>")

    @inner.tool(task="required")
    async def slow() -> str:
        return "slow"

    async with Client(outer, revision=NEWEST) as client:
        assert {"io.modelcontextprotocol/skills", "io.modelcontextprotocol/tasks", "io.modelcontextprotocol/ui"} <= set(
            client.capabilities.extensions
        )
        assert "greeting" in [skill.name async for skill in client.skills.list_skills()]
        task = await client.tasks.start_tool("in_slow")
        assert (await task.result()).content[0].text == "slow"


async def test_a_server_with_tasks_and_skills_can_be_mounted_while_the_other_one_runs():
    inner, outer = make_inner(), Server("outer")
    outer.skills()
    outer.tool("own")(lambda: "own")
    async with Client(outer, revision=NEWEST) as client:
        await outer.add_provider(inner, namespace="in")
        assert "greeting" in [skill.name async for skill in client.skills.list_skills()]
        await client.list_tools()
        task = await client.tasks.start_tool("in_slow")
        assert (await task.result()).content[0].text == "slow"
