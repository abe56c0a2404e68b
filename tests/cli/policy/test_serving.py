"""Policies as users start them: ``serve``, ``run`` and ``gateway``, on stdio and over HTTP, and changes of the file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from carrel import Client
from carrel.cli import main
from carrel.errors import MCPError
from carrel.transports.client.options import HTTPOptions, ProcessOptions
from carrel.uri.parse import file_uri
from support.carrel_process import command, serving

SERVER = """
from carrel import Server

app = Server("shop")


@app.tool
def search_books() -> str:
    return "found"


@app.tool
def delete_books() -> str:
    return "deleted"
"""
SOURCE = '[server]\ntools = false\n[[sources]]\npath = "notes"\n'
RULES = """
[access.roles]
ann = {{ token = "ann" }}
local = {{ local = true }}

[[access.rules]]
role = "{role}"
allow = "all"
tools = "search_*"
resources = "{notes}/blue/**"
"""


def servers(**files: str) -> str:
    """Return the configuration of servers, each with its file."""
    text = ""
    for name, file in files.items():
        program, *arguments = command("run", file)
        text += f"[servers.{name}]\ncommand = {json.dumps(program)}\nargs = {json.dumps(arguments)}\n"
    return text


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    for name in ("blue/a.md", "green/b.md"):
        (tmp_path / "notes" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "notes" / name).write_text("text")
    (tmp_path / "server.py").write_text(SERVER)
    return file_uri(tmp_path / "notes")


def write(text: str, notes: str, role: str = "local") -> None:
    Path("carrel.toml").write_text(text + RULES.format(role=role, notes=notes))


async def names(client: Client) -> list[str]:
    listed = [each.uri.rpartition("/")[2] for each in await client.list_resources()]
    return [*listed, *(tool.name for tool in await client.list_tools())]


@pytest.mark.parametrize("program", ["serve", "run"])
async def test_a_program_on_stdio_is_local(notes: str, program: str) -> None:
    write(SOURCE if program == "serve" else '[[sources]]\npath = "notes"\n[app]\nfile = "server.py"\n', notes)
    async with Client(command(program, "--config", "carrel.toml")) as client:
        assert await names(client) == (["a.md"] if program == "serve" else ["a.md", "search_books"])
        with pytest.raises(MCPError, match="not found"):
            await client.read_resource(f"{notes}/green/b.md")


async def test_over_http_the_roles_come_from_the_token_and_nobody_is_local(
    notes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = {}
    for name in ("ann", "bob"):
        assert main(["token", "add", name, "--file", "tokens.txt"]) == 0
        tokens[name] = HTTPOptions(headers={"Authorization": f"Bearer {capsys.readouterr().out.strip()}"})
    write(SOURCE + '[auth]\ntokens = "tokens.txt"\n', notes, "ann")
    with serving("serve", "--config", "carrel.toml", cwd=str(Path.cwd())) as (url, _):
        async with Client(url, http=tokens["ann"]) as ann, Client(url, http=tokens["bob"]) as bob:
            assert [await names(ann), await names(bob)] == [["a.md"], []]
    write(SOURCE, notes, "local")
    with serving("serve", "--config", "carrel.toml", cwd=str(Path.cwd())) as (url, _):
        async with Client(url) as client:
            assert await names(client) == []


async def test_a_gateway_decides_about_the_names_that_clients_see(notes: str) -> None:
    rules = """
[access.roles]
local = { local = true }
[[access.rules]]
role = "local"
allow = "use"
[[access.rules]]
role = "*"
deny = "use"
tools = "*_delete_books"
[[access.rules]]
role = "*"
deny = "all"
server = "two"
"""
    Path("carrel.toml").write_text(servers(one="server.py", two="server.py") + rules)
    async with Client(command("gateway", "--config", "carrel.toml")) as client:
        assert [tool.name for tool in await client.list_tools()] == ["one_search_books"]
        with pytest.raises(MCPError):
            await client.call_tool("two_search_books")
        assert not (await client.call_tool("one_search_books")).is_error
    assert await asyncio.to_thread(main, ["policy", "check"]) == 0


TWO_SERVERS = servers(shop="shop.py", files="files.py")
DENY = """
[access.roles]
local = { local = true }
[[access.rules]]
role = "local"
allow = "all"
[[access.rules]]
role = "*"
deny = "use"
tools = "delete_*"
[[access.rules]]
role = "*"
deny = "read"
resources = ["note://1", "note://x/**"]
"""
NOTES = """
from carrel import Server

app = Server("shop")
app.resources.add("note://1", "secret")


@app.resource("note://x/{id}")
def note(id: str) -> str:
    return "secret"


@app.tool
def delete_books() -> str:
    return "deleted"


@app.tool
def find() -> str:
    return "found"
"""


@pytest.mark.parametrize("same", [False, True])
async def test_a_rule_of_a_gateway_that_denies_holds_for_prefixed_spellings(notes: str, same: bool) -> None:
    Path("shop.py").write_text(NOTES)
    Path("files.py").write_text(NOTES if same else SERVER.replace("delete", "other").replace("search", "look"))
    Path("carrel.toml").write_text(TWO_SERVERS + DENY)
    async with Client(command("gateway", "--config", "carrel.toml")) as client:
        tools = [tool.name for tool in await client.list_tools()]
        assert "find" in tools or "shop_find" in tools
        assert not any("delete" in name for name in tools)
        for name in ("delete_books", "shop_delete_books"):
            with pytest.raises(MCPError):
                await client.call_tool(name)
        assert not (await client.call_tool("shop_find")).is_error
        for uri in ("note://1", "note://x/5", "shop+note://1", "shop+note://x/5", "SHOP+note://x/5"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)


async def test_rules_of_a_server_hide_its_templates_and_leave_the_tools_of_the_gateway(notes: str) -> None:
    Path("shop.py").write_text(NOTES)
    Path("files.py").write_text(SERVER)
    rules = DENY.partition('role = "*"')[0] + 'role = "*"\ndeny = "all"\nserver = "shop"\n'
    Path("carrel.toml").write_text(TWO_SERVERS + rules)
    async with Client(command("gateway", "--config", "carrel.toml", "--search-tools")) as client:
        assert [template.uri_template for template in await client.list_resource_templates()] == []
        assert {tool.name for tool in await client.list_tools()} == {"search_tools", "call_tool"}
        assert "carrel://gateway/servers" in [resource.uri for resource in await client.list_resources()]
        assert (await client.call_tool("call_tool", {"name": "shop_delete_books"})).is_error


async def test_a_tool_of_a_server_that_is_named_like_a_tool_of_gateways_is_a_tool_of_the_server(notes: str) -> None:
    Path("shop.py").write_text(NOTES.replace("def find()", "def call_tool()"))
    Path("files.py").write_text(SERVER)
    rules = DENY.partition('role = "*"')[0] + 'role = "*"\ndeny = "all"\nserver = "shop"\n'
    Path("carrel.toml").write_text(TWO_SERVERS + rules)
    async with Client(command("gateway", "--config", "carrel.toml")) as client:
        assert {tool.name for tool in await client.list_tools()} == {"search_books", "files_delete_books"}
        for name in ("call_tool", "shop_call_tool"):
            with pytest.raises(MCPError):
                await client.call_tool(name)


@pytest.mark.parametrize(
    ("first", "second"), [("2025-03-26", "2026-07-28"), ("2026-07-28", "2025-11-25"), ("2025-11-25", "2025-11-25")]
)
async def test_two_callers_of_a_gateway_see_their_own_tools_in_every_revision(
    notes: str, capsys: pytest.CaptureFixture[str], first: str, second: str
) -> None:
    tokens = []
    for name in ("ann", "bob"):
        assert main(["token", "add", name, "--file", "tokens.txt"]) == 0
        tokens.append(HTTPOptions(headers={"Authorization": f"Bearer {capsys.readouterr().out.strip()}"}))
    Path("carrel.toml").write_text(
        servers(shop="server.py")
        + """
[auth]
tokens = "tokens.txt"
[access.roles]
ann = { token = "ann" }
bob = { token = "bob" }
[[access.rules]]
role = "ann"
allow = "use"
tools = "search_*"
[[access.rules]]
role = "bob"
allow = "use"
tools = "delete_*"
"""
    )
    with serving("gateway", "--config", "carrel.toml", cwd=str(Path.cwd())) as (url, _):
        async with (
            Client(url, http=tokens[0], revision=first) as ann,
            Client(url, http=tokens[1], revision=second) as bob,
        ):
            for _ in range(2):  # the second time, lists are cached
                assert [each.name for each in await ann.list_tools()] == ["search_books"]
                assert [each.name for each in await bob.list_tools()] == ["delete_books"]
            for client, own, other in ((ann, "search_books", "delete_books"), (bob, "delete_books", "search_books")):
                assert not (await client.call_tool(own)).is_error
                for name in (other, f"shop_{other}"):
                    with pytest.raises(MCPError) as denied:
                        await client.call_tool(name)
                    with pytest.raises(MCPError) as missing:
                        await client.call_tool("x" * len(name))
                    assert str(denied.value).replace(name, "x" * len(name)) == str(missing.value)


async def test_a_changed_file_holds_from_the_next_message_on_and_an_error_changes_nothing(notes: str) -> None:
    write(SOURCE, notes)
    good = Path("carrel.toml").read_text()
    read_again, failed = asyncio.Event(), asyncio.Event()

    def stderr(line: str) -> None:
        (failed if "the policy is not changed" in line else read_again).set()

    program = command("serve", "--config", "carrel.toml")
    async with (
        Client(program, process=ProcessOptions(stderr=stderr)) as client,
        client.watch(lists=["resources"]) as changes,
    ):
        assert await names(client) == ["a.md"]
        Path("carrel.toml").write_text(good.replace("/blue/", "/green/"))
        await anext(changes)
        assert await names(client) == ["b.md"]
        Path("carrel.toml").write_text(good.replace('"all"', '"al"'))
        await failed.wait()
        assert await names(client) == ["b.md"]


async def test_a_subscription_to_a_folder_does_not_tell_of_hidden_files_in_it(notes: str) -> None:
    rule = f'[[access.rules]]\nrole = "*"\ndeny = "all"\nresources = "{notes}/**/draft-*"\n'
    write(SOURCE, notes)
    with Path("carrel.toml").open("a") as stream:
        stream.write(
            rule.replace("/**/", "/blue/")
            + rule.replace('"*"', '"local"').replace("deny", "allow").replace("/**/draft-*", "/green/**")
        )
    async with (
        Client(command("serve", "--config", "carrel.toml")) as client,
        client.watch(f"{notes}/blue", f"{notes}/green/b.md") as changes,
    ):
        Path("notes/blue/draft-1.md").write_text("hidden")
        Path("notes/green/b.md").write_text("shown")  # looked at after the files of blue
        assert (await anext(changes)).uri == f"{notes}/green/b.md"
        Path("notes/blue/draft-1.md").unlink()
        Path("notes/blue/new.md").write_text("shown")
        assert (await anext(changes)).uri == f"{notes}/blue"


async def test_a_subscription_to_a_denied_file_is_answered_like_one_to_an_absent_file(notes: str) -> None:
    write(SOURCE, notes)
    Path("other.md").write_text("not shared")
    async with Client(command("serve", "--config", "carrel.toml"), revision="2025-11-25") as client:
        async with (
            client.watch(f"{notes}/green/b.md") as denied,  # accepted, as the next one
            client.watch(f"{notes}/blue/none.md"),
            client.watch(f"{notes}/blue/a.md") as shown,
        ):
            Path("notes/green/b.md").write_text("again")
            Path("notes/green/new.md").write_text("new")
            Path("notes/blue/a.md").write_text("again")
            assert (await anext(shown)).uri == f"{notes}/blue/a.md"
        assert [change async for change in denied] == []
        with pytest.raises(MCPError):
            async with client.watch(file_uri(Path("other.md").resolve())):
                pass


def test_the_start_of_a_server_names_no_hidden_file(notes: str) -> None:
    Path("notes/green/b.md").unlink()
    for role, named in (("local", False), ("*", True)):
        write(SOURCE, notes, role)
        with serving("serve", "--config", "carrel.toml", cwd=str(Path.cwd())) as (_, errors):
            errors.wait_for("a.md with curl" if named else "Callers without a role can read no file")
            assert ("a.md" in errors.text) is named


async def test_a_rule_of_a_server_is_for_gateways(notes: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(SOURCE, notes)
    with Path("carrel.toml").open("a") as stream:
        stream.write('[[access.rules]]\nrole = "*"\nallow = "use"\nserver = "x"\n')
    assert main(["serve", "--config", "carrel.toml"]) == 2
    assert "carrel.toml:15: server is for rules of carrel gateway" in capsys.readouterr().err
