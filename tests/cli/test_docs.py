"""The documentation: complete, and true."""

import asyncio
import re
import types
from pathlib import Path
from urllib.parse import unquote

import pytest

from carrel import Client
from carrel.cli import COMMANDS, module_of
from carrel.cli.source_flags import SourceFlags
from carrel.client.watch import Watch
from carrel.transports import memory

ROOT = Path(__file__).parent.parent.parent
PARSERS = {name: module_of(name).parser() for name in COMMANDS}
#: The page of each command that has none of its own name.
PAGE_OF = dict.fromkeys(set(PARSERS) - {"serve", "install", "gateway", "chat", "studio"}, "commands")
PAGE_OF |= dict.fromkeys(("config", "init"), "configuration") | {"import": "host"}
PAGES = sorted(
    path.relative_to(ROOT)
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/README.md"))
)
PAGES_OF_COMMANDS = ("README.md", "SECURITY.md", "docs/index.md", "docs/tutorial.md", "examples/library/README.md")
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def page_of(command: str) -> str:
    return f"docs/{PAGE_OF.get(command, command)}.md"


def options(command: str) -> set[str]:
    return {
        option.partition("=")[0]
        for action in PARSERS[command]._actions
        for option in action.option_strings
        if option.startswith("--") and option != "--help"
    }


def written_options(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", text))


def load(name: str, code: str) -> types.ModuleType:
    module = types.ModuleType(name)
    exec(compile(code, name, "exec"), module.__dict__)
    return module


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_page_and_is_on_the_map(command):
    assert f"`carrel {command}`" in page(page_of(command)) + page("docs/index.md")
    assert f"({PAGE_OF.get(command, command)}.md)" in page("docs/index.md")
    assert f"carrel {command}" in page("README.md")
    assert set(PARSERS) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_documented(command):
    text = page(page_of(command))
    if command == "install":  # passes the flags of sources on
        text += page(page_of("serve"))
    assert options(command) - written_options(text) == set()
    for action in PARSERS[command]._actions:
        if not action.option_strings:
            assert f"`{action.metavar}" in text


def test_no_option_is_documented_that_does_not_exist():
    known = set().union(*map(options, COMMANDS)) | {"--help", "--version", "--debug", "--no-cache", "--from", "--with"}
    known |= {"--author", "--title"}  # variables of a template
    for name in (*PAGES_OF_COMMANDS, *map(page_of, COMMANDS)):
        assert written_options(page(name)) - known == set(), name


def test_the_options_of_sources_are_documented_as_their_structs_have_them():
    assert f"\n{SourceFlags().table()}\n" in page("docs/serve.md")


def test_every_page_is_on_the_map():
    for name in PAGES:
        if name.parts[0] == "docs" and name.name != "index.md":
            assert f"({name.relative_to('docs').as_posix()})" in page("docs/index.md")


@pytest.mark.parametrize("name", PAGES, ids=str)
def test_links_lead_somewhere(name):
    text = re.sub(r"```.*?```", "", page(name), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (ROOT / name.parent / unquote(target.partition("#")[0])).exists(), target


async def test_the_server_of_the_readme_works():
    server, _ = PYTHON.findall(page("README.md"))
    async with memory.connect(load("readme", server).app) as peer:
        reply = await peer.request("resources/read", {"uri": "book://lem/solaris"})
    assert reply["result"]["contents"][0]["text"] == "solaris by lem"


async def test_the_client_of_the_readme_works(monkeypatch):
    server, client = PYTHON.findall(page("README.md"))
    app = load("readme", server).app
    app.resources.add("memo://1", "one", name="first")
    module = load("client", client)
    connected = Client(app)
    printed, listens = asyncio.Queue(), asyncio.Event()
    enter = Watch.__aenter__

    async def enter_and_tell(watch):
        await enter(watch)
        listens.set()
        return watch

    monkeypatch.setattr(module, "Client", lambda url: connected)
    monkeypatch.setattr(module, "print", lambda *words: printed.put_nowait(" ".join(words)), raising=False)
    monkeypatch.setattr(Watch, "__aenter__", enter_and_tell)
    running = asyncio.create_task(module.main())
    async with asyncio.timeout(60):
        assert await printed.get() == "memo://1 first"
        await listens.wait()
        app.resources.add("memo://2", "two", name="second")
        assert await printed.get() == "changed: resources"
        await connected.close()
        await running


async def test_the_tutorial_does_what_it_says():
    *steps, _ = PYTHON.findall(page("docs/tutorial.md"))
    shelf = load("shelf", "\n".join(steps))

    async with memory.connect(shelf.app) as peer:

        async def ask(method, **params):
            reply = await peer.request(method, params)
            assert "result" in reply, reply
            return reply["result"]

        overview = await ask("resources/read", uri="shelf://all")
        assert "solaris by lem" in overview["contents"][0]["text"]

        missing = await peer.request("resources/read", {"uri": "book://lem/unknown"})
        assert missing["error"]["data"] == {"uri": "book://lem/unknown"}

        template = {"type": "ref/resource", "uri": "book://{author}/{title}"}
        authors = await ask("completion/complete", ref=template, argument={"name": "author", "value": "le"})
        assert authors["completion"]["values"] == ["le-guin", "lem"]
        titles = await ask(
            "completion/complete",
            ref=template,
            argument={"name": "title", "value": ""},
            context={"arguments": {"author": "lem"}},
        )
        assert titles["completion"]["values"] == ["solaris", "fiasco"]

        found = await ask("tools/call", name="find", arguments={"words": "Ocean thinks"})
        assert "book://lem/solaris" in found["content"][0]["text"]

        prompt = await ask("prompts/get", name="recommend", arguments={"mood": "curious"})
        assert "curious" in prompt["messages"][0]["content"]["text"]

        added = {"author": "dick", "title": "ubik", "description": "Nobody is sure who is dead."}
        await ask("tools/call", name="add", arguments=added)
        assert "ubik by dick" in (await ask("resources/read", uri="shelf://all"))["contents"][0]["text"]
