"""A client with a cache, with skills, and with resources of the web: the parts put together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from carrel import Client, Context, Server
from carrel.client import web_resources as web
from carrel.client.cache import Cache
from carrel.client.handlers import Form, Handlers
from carrel.errors import MethodNotFound, ResourceForbidden, ResourceMismatch, ResourceNotFound
from carrel.wire.resources import TextResourceContents
from support.servers.demo import LATEST, NOVEMBER, served


def make_counter() -> Server:
    """A server that counts how often it is asked, and says how long its answers hold."""
    app = Server("counter", ttl=60.0)
    app.reads = 0  # type: ignore[attr-defined]

    @app.resource("count://reads")
    def reads() -> str:
        app.reads += 1  # type: ignore[attr-defined]
        return str(app.reads)  # type: ignore[attr-defined]

    @app.resource("count://who")
    async def who(context: Context) -> str:
        answer = await context.elicit("Who?", str)
        return str(answer.data)

    @app.tool()
    def touch() -> str:
        app.resources.changed("count://reads")
        return "touched"

    return app


async def text_of(client: Client, uri: str) -> str:
    """The text of a resource."""
    contents = (await client.read_resource(uri)).contents[0]
    assert isinstance(contents, TextResourceContents)
    return contents.text


@pytest.mark.parametrize("way", ["memory", "http"])
async def test_cacheable_results_are_not_requested_twice(way: str) -> None:
    async with Cache() as cache, served(way, make_counter(), LATEST, cache=cache) as client:
        assert [await text_of(client, "count://reads") for _ in range(3)] == ["1", "1", "1"]
        _ = await client.list_resources()
        _ = await client.list_resources()
        assert cache.statistics.hits == 3


async def test_a_change_that_is_heard_of_ends_what_was_kept() -> None:
    async with Cache() as cache, served("memory", make_counter(), LATEST, cache=cache) as client:
        assert await text_of(client, "count://reads") == "1"
        async with client.watch("count://reads") as changes:
            await client.call_tool("touch")
            await asyncio.wait_for(anext(changes), 60)
        assert await text_of(client, "count://reads") == "2"


async def test_a_server_that_says_nothing_of_it_is_asked_every_time() -> None:
    async with Cache() as cache, served("memory", make_counter(), NOVEMBER, cache=cache) as client:
        assert [await text_of(client, "count://reads") for _ in range(3)] == ["1", "2", "3"]


async def test_results_that_needed_user_input_are_not_cached() -> None:
    names = iter(["Ada", "Grace"])

    async def fill_in(form: Form) -> dict[str, Any]:
        (field,) = form.fields
        return {field: next(names)}

    async with (
        Cache() as cache,
        served("memory", make_counter(), LATEST, cache=cache, handlers=Handlers(elicit_form=fill_in)) as client,
    ):
        assert [await text_of(client, "count://who"), await text_of(client, "count://who")] == ["Ada", "Grace"]


# Skills

SKILL = "---\nname: meeting-notes\ndescription: How to write the notes of a meeting.\n---\n\nBe short.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one skill in it."""
    skill = tmp_path / "meeting-notes"
    (skill / "templates").mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    (skill / "templates" / "short.md").write_text("# Notes\n")
    return tmp_path


def make_skilled(folder: Path) -> Server:
    """A server with skills."""
    app = Server("skilled")
    app.skills(folder)
    return app


@pytest.mark.parametrize("way", ["memory", "http"])
async def test_skills_are_listed_and_loaded_when_they_are_needed(way: str, folder: Path) -> None:
    async with served(way, make_skilled(folder), LATEST) as client:
        (skill,) = await client.skills.list_skills()
        assert (skill.name, skill.problem) == ("meeting-notes", None)
        assert skill.identity == (client.session.server_name, "skill://meeting-notes/SKILL.md")
        again = await client.skills.get_skill(skill.uri)
        assert (await again.instructions()).endswith("Be short.\n")
        assert await read_text(again, "templates/short.md") == "# Notes\n"
        inside = {entry.uri async for entry in client.list_directory("skill://meeting-notes")}
        assert inside == {"skill://meeting-notes/SKILL.md", "skill://meeting-notes/templates"}


async def read_text(skill: Any, path: str) -> str:
    """The text of a file of a skill."""
    return str((await skill.read(path)).text)


async def test_a_skill_that_has_changed_since_it_was_listed_is_not_loaded(folder: Path) -> None:
    async with served("memory", make_skilled(folder), LATEST) as client:
        (skill,) = await client.skills.list_skills()
        (folder / "meeting-notes" / "SKILL.md").write_text(SKILL.replace("Be short.", "Be evil!!"))
        with pytest.raises(ResourceMismatch, match="digest"):
            await skill.instructions()


async def test_uris_outside_a_skill_are_not_read(folder: Path) -> None:
    async with served("memory", make_skilled(folder), LATEST) as client:
        skill = await client.skills.get_skill("skill://meeting-notes/SKILL.md")
        with pytest.raises((ResourceForbidden, ResourceMismatch)):
            await skill.read("../other/SKILL.md")
        with pytest.raises(ResourceNotFound):
            await client.skills.get_skill("skill://nothing/SKILL.md")


async def test_a_server_without_skills_says_so() -> None:
    async with Client(make_counter()) as client:
        with pytest.raises(MethodNotFound):
            _ = await client.skills.list_skills()
        with pytest.raises(MethodNotFound):
            _ = await client.list_directory("count://")


# The web


@pytest.mark.parametrize("uri", ["https://example.org/page", "HTTPS://example.org/page"])
async def test_resources_of_the_web_are_fetched_where_they_are(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []

    async def fetch(url: str) -> Sequence[TextResourceContents]:
        fetched.append(url)
        return [TextResourceContents(url, "from the web")]

    monkeypatch.setattr(web, "fetch", fetch)
    async with served("memory", make_counter(), LATEST, fetch_web=True) as client:
        assert await text_of(client, uri) == "from the web"
        assert await text_of(client, "count://reads") == "1"
    assert fetched == [uri]


async def test_forbidden_https_resources_are_read_from_the_server() -> None:
    app = Server("pages")
    app.resources.add("https://127.0.0.1/secret", "from the server", name="page")
    async with served("memory", app, LATEST, fetch_web=True) as client:
        assert await text_of(client, "https://127.0.0.1/secret") == "from the server"
    async with served("memory", app, LATEST) as client:
        assert await text_of(client, "https://127.0.0.1/secret") == "from the server"
