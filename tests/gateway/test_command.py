"""``carrel gateway`` before servers on stdio: tasks, and questions that go to the client whose call has caused them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from carrel import Client
from carrel.cli import main
from carrel.client.handlers import Handlers
from carrel.wire.client_features import ElicitResult
from support.carrel_process import command, serving
from support.servers import SERVERS

pytestmark = pytest.mark.slow

SESSION, LATEST = "2025-11-25", "2026-07-28"
PATIENCE = 60.0


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gateway to three processes of one program, which speak 2025-11-25 or 2026-07-28."""
    program = {"command": sys.executable, "args": [str(SERVERS / "late_questions.py")]}
    servers = {
        "apart": {**program, "revision": SESSION},
        "shared": {**program, "revision": SESSION, "isolation": "shared"},
        "newest": program,
    }
    file = tmp_path_factory.mktemp("gateway") / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    with serving("gateway", str(file)) as (url, _):
        yield url


class Asked:
    """Client that is asked for a name."""

    def __init__(self, url: str, name: str, revision: str) -> None:
        self.questions: list[str] = []
        self.client = Client(url, revision=revision, handlers=Handlers(elicit_form=self._answer))
        self._name = name

    async def _answer(self, form: Any) -> ElicitResult:
        self.questions.append(form.message)
        return ElicitResult(action="accept", content={"name": self._name})

    async def call(self, tool: str) -> str:
        return (await self.client.call_tool(tool)).text


@pytest.mark.parametrize("near", [SESSION, LATEST])
async def test_the_configuration_names_the_revision_of_a_server(url: str, near: str) -> None:
    async with Client(url, revision=near) as client:
        status = json.loads((await client.read_resource("carrel://gateway/servers")).contents[0].text)
    revisions = {server["name"]: server["revision"] for server in status["servers"]}
    assert revisions == {"apart": SESSION, "shared": SESSION, "newest": LATEST}


@pytest.mark.parametrize("near", [SESSION, LATEST])
@pytest.mark.parametrize("server", ["apart", "newest"])
async def test_a_call_is_asked_while_a_task_of_the_same_client_runs(url: str, server: str, near: str) -> None:
    asked = Asked(url, "Ada", near)
    async with asked.client as client, asyncio.timeout(PATIENCE):
        task = await client.tasks.start_tool(f"{server}_work")
        assert task.id is not None
        assert await asked.call(f"{server}_greet") == "Hello, Ada"
        await asked.call(f"{server}_release")
        assert (await task.result()).text == "Done for Ada"
    assert asked.questions == ["Who?", "For whom?"]


@pytest.mark.parametrize("near", [SESSION, LATEST])
async def test_a_question_of_a_call_that_has_ended_reaches_no_other_client_of_a_shared_session(
    url: str, near: str
) -> None:
    one, other = Asked(url, "one", near), Asked(url, "other", near)
    async with one.client, other.client, asyncio.timeout(PATIENCE):
        assert await one.call("shared_leave") == "left"
        assert "does not say which one it is for" in await other.call("shared_hold")
    assert one.questions == other.questions == []


@pytest.mark.parametrize("server", ["apart", "newest"])
async def test_links_in_the_result_of_a_task_have_the_names_of_the_gateway(url: str, server: str) -> None:
    async with Client(url) as client, asyncio.timeout(PATIENCE):
        task = await client.tasks.start_tool(f"{server}_make")
        assert task.id is not None
        (link,) = (await task.result()).content
        assert (await client.read_resource(link.uri)).contents[0].uri == link.uri == f"{server}+made:1"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("late=2025-11-24", "--revision late=2025-11-24: there is no revision '2025-11-24'; they are 2026-07-28, "),
        ("lat=2025-11-25", "there is no server 'lat'; did you mean 'late'?"),
    ],
)
def test_a_wrong_revision_or_name_is_refused_in_one_line(
    option: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mcp.json"
    server = {"command": sys.executable, "args": [str(SERVERS / "late_questions.py")]}
    file.write_text(json.dumps({"mcpServers": {"late": server}}))
    assert main(["gateway", str(file), "--revision", option]) == 2
    assert message in capfd.readouterr().err


@pytest.mark.parametrize(
    ("entry", "options", "revision"),
    [
        ({}, ["--revision", SESSION], SESSION),
        ({"revision": "2025-06-18"}, ["--revision", SESSION], "2025-06-18"),
        ({"revision": "2025-06-18"}, ["--revision", f"late={SESSION}"], SESSION),
    ],
)
async def test_the_command_line_names_the_revision_of_one_server_or_of_all_others(
    entry: dict[str, str], options: list[str], revision: str, tmp_path: Path
) -> None:
    file = tmp_path / "mcp.json"
    server = {"command": sys.executable, "args": [str(SERVERS / "late_questions.py")], **entry}
    file.write_text(json.dumps({"mcpServers": {"late": server}}))
    async with Client(command("gateway", str(file), *options)) as client:
        status = json.loads((await client.read_resource("carrel://gateway/servers")).contents[0].text)
    assert status["servers"][0]["revision"] == revision
