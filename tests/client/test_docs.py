"""The pages for those who write clients: complete, and all of their code runs."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import carrel.client.connection
import carrel.client.input_required
import carrel.client.results
import carrel.client.session
import carrel.client.watch
from carrel import Client, Context, Server, errors
from carrel.client.handlers import Form, Handlers, URLElicitation
from carrel.client.retry import PASSING, Retries
from carrel.transports.client.http_session import MAX_REDIRECTS
from carrel.transports.client.options import HTTPOptions
from carrel.transports.client.stdio import INHERITED, MAX_MESSAGE
from support.http_server import over_http
from support.servers.demo import LATEST, NOVEMBER, OLDEST

pytestmark = pytest.mark.slow


DOCS = Path(__file__).parent.parent.parent / "docs"
URL = "http://127.0.0.1:8000/mcp"
SCRIPT = """
from carrel import Server
app = Server("script")
app.resources.add("script://hello", "hello")
app.run()
"""


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(name: str) -> Iterator[tuple[str, str]]:
    """The code of a page, each with the heading it is under and its number there."""
    heading, number = "", 0
    for found in re.finditer(r"^#+ ([^\n]*)$|```python\n(.*?)```", read(name), re.DOTALL | re.MULTILINE):
        if found[1] is not None:
            heading, number = found[1], 0
        else:
            number += 1
            yield f"{heading} {number}", found[2]


async def run(code: str, names: dict[str, Any]) -> None:
    """Run code that awaits outside of functions, as it would within one; a whole program in a thread of its own."""
    compiled = compile(code, "docs", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if compiled.co_flags & inspect.CO_COROUTINE:
        await eval(compiled, names)
    else:
        await asyncio.to_thread(exec, compiled, names)


def make_library() -> Server:
    """The server that the page about clients talks to."""
    app = Server("library", version="1.0", instructions="Ask for a book.")
    app.resources.add("book://lem/solaris", "An ocean that thinks.", name="solaris", mime_type="text/plain")
    app.resources.add("book://lem/cover", b"\x89PNG", name="cover", mime_type="image/png")

    @app.resource("book://{author}/{title}")
    async def book(author: str, title: str) -> None:
        return None

    @book.complete("author")
    async def authors(prefix: str) -> list[str]:
        return [name for name in ("butler", "lem") if name.startswith(prefix)]

    @book.complete("title")
    async def titles(prefix: str, context: dict[str, str]) -> list[str]:
        return ["solaris"] if context.get("author", "lem") == "lem" else []

    @app.tool()
    def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    @app.tool()
    async def index(folder: str, context: Context) -> str:
        await context.log("info", "began")
        await context.log("error", "a file was left out")
        await context.report_progress(1, 2, "half of it")
        return folder

    @app.tool()
    async def search(words: str) -> str:
        return await asyncio.Future()

    @app.tool(task="optional")
    async def bake(loaves: int) -> str:
        return f"{loaves} loaves"

    @app.prompt()
    def review(code: str) -> str:
        return f"Review {code}"

    return app


#: What the samples of the page print, in each of two revisions; {origin} is where the server is.
PRINTED: dict[str, str | dict[str, str]] = {
    "Writing a client 1": "book://lem/cover cover\nbook://lem/solaris solaris\nAn ocean that thinks.\n",
    "Connecting 1": "",
    "State of the connection 1": "connected None\n",
    "Server name, instructions and capabilities 1": {
        LATEST: f"{LATEST}\nlibrary\nAsk for a book.\n['add', 'bake', 'index', 'search']\n",
        NOVEMBER: f"{NOVEMBER}\nlibrary\nAsk for a book.\n['add', 'bake', 'index', 'search']\n",
    },
    "Resources 1": "book://lem/cover image/png 4\nbook://lem/solaris text/plain 21\n",
    "Resources 2": "image/png 4 bytes\n",
    "Templates 1": "book://lem/solaris\n",
    "Tools 1": "{\"sum\":3} {'sum': 3}\n",
    "Tools 2": "1.0 of 2.0 half of it\n",
    "Tools 3": "",
    "Tasks 1": "working \ncompleted \n",
    "Tasks 2": "1 loaves\n",
    "Prompts 1": "review ['code']\nuser Review x = 1\n",
    "Log messages 1": "error  a file was left out\n",
    "Errors 1": "no such resource: book://lem/unknown\n",
    "Retries 1": "",
    "Concurrent calls, several servers 1": "",
    "Concurrent calls, several servers 2": "library 4 tools\nlibrary 4 tools\n",
    "HTTP 1": "",
    "Extensions 1": "None\n",
    "Extensions 2": "",
    "Programs 1": "",
}


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_the_code_about_clients_runs_and_prints_what_it_should(
    revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("carrel.server.tasks.formats.POLL_INTERVAL", 50)
    (tmp_path / "server.py").write_text(SCRIPT)
    names: dict[str, Any] = {"asyncio": asyncio, "Client": Client, "app": make_library()}
    printed: dict[str, str] = {}
    with over_http(make_library()) as origin:
        async with Client(f"{origin}/mcp", revision=revision) as client:
            names["client"] = client
            for title, code in blocks("client.md"):
                if title.startswith("Watching"):
                    continue
                await run(code.replace(URL, f"{origin}/mcp"), names if "asyncio.run(" not in code else dict(names))
                printed[title] = capsys.readouterr().out
            with pytest.raises(asyncio.CancelledError):
                await names["call"]
    assert printed == {
        title: expected if isinstance(expected, str) else expected[revision] for title, expected in PRINTED.items()
    }
    assert [result.structured_content["sum"] for result in names["results"]] == list(range(1, 101))
    assert names["result"].structured_content == {"sum": 3}


@pytest.mark.parametrize("revision", [OLDEST, NOVEMBER, LATEST])
async def test_the_code_about_watching_hears_of_everything(revision: str) -> None:
    [code] = [code for title, code in blocks("client.md") if title.startswith("Watching")]
    app = make_library()
    heard: asyncio.Queue[str] = asyncio.Queue()
    async with Client(app, revision=revision) as client:
        names = {"client": client, "print": lambda *what: heard.put_nowait(str(what[0]))}
        watching = asyncio.create_task(run(code, names))
        async with asyncio.timeout(60):
            while not any(watch._ready is not None and watch._ready.done() for watch in client.session.watches):
                await asyncio.sleep(0)
            app.resources.changed("book://lem/solaris")
            assert "An ocean that thinks." in await heard.get()
            app.resources.add("book://lem/eden", "New.", name="eden")
            assert "book://lem/eden" in await heard.get()
            client.session.interrupted()
            assert "read it all again" in await heard.get()
            await client.close()
            await watching


def kitchen(asked: list[Any]) -> Server:
    """The server that the page about being asked talks to."""
    app = Server("kitchen")

    @dataclass
    class Reservation:
        name: str
        guests: int = 2

    @app.tool()
    async def reserve(evening: str, context: Context) -> str:
        wish = await context.elicit(f"A table on {evening}:", Reservation)
        paid = await context.elicit_url("Please pay", "https://example.org/pay")
        asked.append((wish.data, paid.action))
        return "Reserved."

    @app.tool()
    async def think(context: Context) -> str:
        answer = await context.sample("Hello?", 100)
        return f"{answer.model}: {answer.text}"

    @app.tool()
    async def where(context: Context) -> str:
        return " ".join(root.uri for root in await context.list_roots())

    return app


@pytest.mark.parametrize("revision", [NOVEMBER, LATEST])
async def test_the_code_about_being_asked_answers(
    revision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked: list[Any] = []
    app = kitchen(asked)
    handlers, calls, models, roots = (code for _, code in blocks("client-elicitation.md"))
    typed = {"name (string): ": "Ada", "guests (integer): ": 3, "Do you want to? (yes/no) ": "yes"}
    names: dict[str, Any] = {"input": typed.__getitem__, "app": app, "Client": Client}
    with over_http(app) as origin:
        await run(handlers.replace(URL, f"{origin}/mcp"), names)
        await names["main"]()
    out = capsys.readouterr().out
    assert "kitchen (http://127.0.0.1:" in out
    assert "a page of example.org: Please pay\nhttps://example.org/pay\n" in out
    assert out.endswith("Reserved.\n")
    assert (asked[0][0].name, asked[0][0].guests, asked[0][1]) == ("Ada", 3, "accept")

    await run(calls, names)
    asking = [line for line in capsys.readouterr().out.splitlines() if line.startswith("call_tool")]
    assert asking == ["call_tool for the session of Ada", "call_tool for None"]

    async def ask_my_model(system: str, said: list[str], limit: int) -> str:
        return f"{system}{said} {limit}"

    names["ask_my_model"] = ask_my_model
    await run(models, names)
    async with Client(app, revision=revision, handlers=Handlers(sample=names["sample"])) as client:
        assert said(await client.call_tool("think")) == "my-model: ['Hello?'] 100"
    await run(roots, names)
    assert capsys.readouterr().out == f"{(tmp_path / 'notes').as_uri()} file:///srv/library\n"


def said(result: Any) -> str:
    return str(result.content[0].text)


# What the pages say


def test_every_option_of_a_client_is_documented() -> None:
    page = read("client.md")
    table = page.partition("| option of `Client`")[2].partition("\n\n")[0]
    options = [name for name in inspect.signature(Client).parameters if name != "target"]
    assert re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in table.splitlines()[2:])) == sorted(
        options, key=options.index
    )


def test_everything_on_a_client_is_mentioned() -> None:
    pages = "".join(read(name) for name in ("client.md", "client-elicitation.md", "client-skills.md"))
    for name in dir(Client):
        if not name.startswith("_") and name != "close":
            assert re.search(rf"\.{name}\b|`{name}\b", pages), name


def test_every_error_that_a_client_may_raise_is_in_the_tree() -> None:
    tree = read("client.md").partition("## Errors")[2].partition("```python")[0]
    server = {"HeaderMismatch", "InvalidCursor", "InvalidParams", "MissingCapability", "UnsupportedVersion"}
    server |= {"LoginRequired", "ProviderUnavailable", "ServerUnavailable", "SourceUnavailable", "ToolError"}
    server |= {"TooManyRequests", "URLElicitationRequired"}
    # Of these, those that skills raise are on their page.
    skills = {"ResourceForbidden", "ResourceMismatch", "ResourceTooLarge"}
    assert (
        set(re.findall(r"\b[A-Z]\w+\b", "\n".join(line[:24] for line in tree.splitlines()))) & set(errors.__all__)
        == set(errors.__all__) - server - skills
    )


@pytest.mark.parametrize("kind", [Form, URLElicitation])
def test_everything_on_a_question_is_in_its_table(kind: type) -> None:
    fields = {name for name in dir(kind) if not name.startswith("_")}
    page = read("client-elicitation.md")
    table = page.partition(f"| `{kind.__name__}` |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == fields


@pytest.mark.parametrize(
    ("text", "so"),
    [
        ("| 64 MiB |", MAX_MESSAGE == 64 * 1024 * 1024),
        ("| 10,000; a repeated cursor", carrel.client.results.MAX_PAGES == 10_000),
        (
            "| rounds of server requests (elicitation, sampling) for one request | 20 |",
            carrel.client.input_required.MAX_ROUNDS == 20,
        ),
        ("| server requests at a time | 100;", carrel.client.incoming_requests.MAX_INCOMING == 100),
        ('| 10,000, then "missed" |', carrel.client.watch.MAX_WAITING == 10_000),
        ("| an hour, or its `timeout`", carrel.client.connection.LONGEST == 3600),
        ("| redirects over HTTP | 5,", MAX_REDIRECTS == 5),
        ("with delays of up to 30", carrel.client.watch.LONGEST_PAUSE == 30),
        ("`times` is 3\nby default", Retries().times == 3),
        (f"({', '.join(map(str, sorted(PASSING)))})", True),
        (f"`{'`, `'.join(INHERITED[:-1])}` and `{INHERITED[-1]}`", True),
    ],
)
def test_numbers_are_those_of_the_code(text: str, so: bool) -> None:
    assert text in read("client.md")
    assert so


async def test_the_code_about_keeping_and_fetching_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keeping, fetching = (code for _, code in blocks("client-cache.md"))
    app = Server("library", ttl=60)
    app.resources.add("book://lem/solaris", "An ocean that thinks.", name="solaris")
    app.resources.add("https://www.rfc-editor.org/rfc/rfc3986.txt", "of the server", name="rfc")

    async def nobody_is_there(url: str) -> Any:
        raise errors.ResourceError(url, "The page cannot be fetched")

    monkeypatch.setattr("carrel.client.web_resources.fetch", nobody_is_there)
    with over_http(app) as origin:
        names: dict[str, Any] = {}
        await run(keeping.replace("https://example.org", origin), names)
        assert "hits=1, misses=1" in capsys.readouterr().out
        await run(fetching.replace("https://example.org", origin), names)
        assert names["page"].text == "of the server"


async def test_the_code_about_skills_runs(capsys: pytest.CaptureFixture[str]) -> None:
    [code] = (code for _, code in blocks("client-skills.md"))
    app = Server("skilled")
    app.skills(DOCS.parent / "examples" / "skills")
    names: dict[str, Any] = {}
    with over_http(app) as origin:
        await run(code.replace("https://example.org", origin), names)
    assert "meeting-notes" in capsys.readouterr().out
    assert "meeting-notes" in names["text"]
    assert names["minutes"].text


def test_every_http_option_is_documented() -> None:
    table = read("client.md").partition("| option of `HTTPOptions`")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(HTTPOptions.__struct_fields__)
