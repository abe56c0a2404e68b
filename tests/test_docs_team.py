"""docs/team.md and examples/team, followed sentence by sentence, with a gateway that runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from carrel import Client
from carrel.errors import AuthorizationError, MCPError, PeerError, ResourceNotFound
from carrel.transports.client.options import HTTPOptions
from support.carrel_process import carrel, serving
from support.snippets import read, snippets

pytestmark = pytest.mark.slow

PAGE, EXAMPLE = "docs/team.md", Path(__file__).parents[1] / "examples/team"
URL = "http://127.0.0.1:8000/mcp"
#: Commands that need the gateway.
ONLINE = ("carrel cat", "carrel audit")
SERVERS = ["code", "handbook", "log", "shop"]


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the example, so that the checkout stays clean. Its path is short, as on the page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_example(folder)
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        yield folder


def copy_example(folder: Path) -> None:
    names = ("handbook", "*.py", "*.toml", "*.txt")
    for path in (path for name in names for path in EXAMPLE.glob(name)):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, folder / path.name)
    text = (folder / "carrel.toml").read_text()
    assert "port = 9464" in text
    (folder / "carrel.toml").write_text(text.replace("port = 9464", "port = 0"))


class Walk:
    """A reader of the page, who types its commands in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps = [step for one in snippets(PAGE, "console") for step in steps(one.code)]

    def follow(self, url: str | None = None) -> int:
        """Run the commands that need the gateway, or the other ones, and compare what they print."""
        chosen = [step for step in self.steps if step[0].startswith(ONLINE) == (url is not None)]
        for typed, printed in chosen:
            found = self.run(typed.replace(URL, url or URL)).replace(str(self.folder), "/team")
            if printed:
                assert plain(found) == plain(printed), typed
        return len(chosen)

    def run(self, typed: str) -> str:
        """Run a command as a shell would, and return what it prints to both streams."""
        typed = typed.replace("$PWD", str(self.folder))
        typed = re.sub(r"\$\(cat (\S+)\)", lambda found: (self.folder / found[1]).read_text().strip(), typed)
        words = shlex.split(typed)
        target = words.pop()[1:] if words[-1].startswith(">") else None
        if words[0] == "cd":
            return ""
        if words[0] == "python":
            subprocess.run([sys.executable, *words[1:]], cwd=self.folder, check=True)
            return ""
        done = carrel(*words[1:], cwd=self.folder, text=True)
        if target is not None:
            (self.folder / target).write_text(done.stdout)
            return ""
        return "".join(line for line in (done.stdout + done.stderr).splitlines(True) if "carrel: using " not in line)

    def token(self, name: str) -> str:
        return (self.folder / f"{name}.token").read_text().strip()


def steps(code: str) -> list[tuple[str, str]]:
    """Return the commands of a piece of the page, each with what it prints."""
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n?)*)", code, re.MULTILINE)


def plain(text: str) -> list[list[str]]:
    """Return the words of each line, with zeros for times, durations and sizes in the table of an audit log."""
    moment = r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ|\b\d+\.\d+ +\d+\b"
    return [re.sub(moment, "0", row).split() for row in text.splitlines() if row.strip()]


@pytest_asyncio.fixture
async def gateway(folder: Path) -> AsyncIterator[tuple[Walk, str, str]]:
    """The page up to the start of the gateway; then the URLs of the gateway and of its metrics."""
    walk = Walk(folder)
    assert walk.follow() == 8
    with serving("gateway", "--config", "carrel.toml", cwd=str(folder)) as (metrics, errors):
        url = errors.wait_for(r"the gateway is ready at (\S+)")[1]
        async with httpx2.AsyncClient() as browser:
            end, text = time.monotonic() + 60, ""
            while not all(f'up{{source="{name}"}} 1.0' in text for name in SERVERS):
                assert time.monotonic() < end
                text = (await browser.get(metrics)).text
        yield walk, url, metrics


async def refusal(client: Client, uri: str) -> MCPError:
    """Read a resource until that is refused, and return the error."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            await client.read_resource(uri)
        except MCPError as error:
            return error
    raise AssertionError(f"{uri} is read")


def test_the_page_shows_what_the_example_has() -> None:
    text = (EXAMPLE / "carrel.toml").read_text()
    pieces = [piece for one in snippets(PAGE, "toml") for piece in one.code.split("\n\n")]
    assert len(pieces) == 6
    for piece in pieces:
        assert piece.strip() in text
    assert "http://127.0.0.1:9464/metrics" in read(PAGE)


async def test_each_sentence_of_the_page_is_true(gateway: tuple[Walk, str, str], folder: Path) -> None:
    walk, url, metrics = gateway
    assert walk.follow(url) == 5
    verified = walk.run("carrel audit verify")
    assert "lines are complete and unchanged" in verified

    def client(name: str, **options: Any) -> Client:
        return Client(url, http=HTTPOptions(auth=walk.token(name)), **options)

    with pytest.raises(AuthorizationError, match="401"):
        await Client(url).__aenter__()
    draft = f"file://{folder}/handbook/draft-salaries.md"
    async with client("ann") as ann, client("bob") as bob, client("ci") as robot:
        assert "Not decided yet" in (await ann.read_resource(draft)).contents[0].text
        found = await ann.call_tool("handbook_read_resource", {"uri": draft})
        assert "Not decided yet" in found.content[0].text
        assert [tool.name async for tool in bob.list_tools()] == []
        with pytest.raises(PeerError, match="nknown tool"):
            await bob.call_tool("handbook_read_resource", {"uri": draft})
        names = [resource.uri async for resource in bob.list_resources()]
        assert {name.partition(":")[0] for name in names} == {"file", "logs", "sqlite"}
        assert not any("draft" in name or "customers" in name for name in names)
        assert "card declined" in (await bob.read_resource("logs://logs/shop.log")).contents[0].text
        assert "Solaris" in (await bob.read_resource("sqlite:///shop.db/tables/orders/rows")).contents[0].text
        missing = f"file://{folder}/handbook/nothing.md"
        told = []
        for uri in (draft, missing):
            with pytest.raises(ResourceNotFound) as caught:
                await bob.read_resource(uri)
            told.append(str(caught.value).replace(uri, "URI"))
        assert told[0] == told[1]
        refused = await refusal(robot, "git://code/file/HEAD/shop.py")
        assert "at most 60 requests per minute; try again in" in str(refused)
        await bob.read_resource("logs://logs/shop.log")
        async with httpx2.AsyncClient() as browser:
            text = (await browser.get(metrics)).text
        assert re.search(r'carrel_limited_total\{method="resources/read"\} \d', text)
        assert re.search(r'carrel_denied_total\{method="resources/read"\} \d', text)

        assert walk.run("carrel token remove bob") != ""
        assert await refusal(bob, "logs://logs/shop.log")

        rules = (folder / "carrel.toml").read_text()
        (folder / "carrel.toml").write_text(
            rules.replace('role = "lead"\nallow = "all"', 'role = "lead"\nallow = "use"')
        )
        assert "Resource not found" in str(await refusal(ann, draft))

    lines = (folder / "audit.jsonl").read_text()
    (folder / "audit.jsonl").write_text(lines.replace('"principal":"bob"', '"principal":"ann"', 1))
    assert "was changed" in walk.run("carrel audit verify")
