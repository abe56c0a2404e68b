"""Lists of shared folders for callers to whom access rules show a part of them, over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from carrel import Server
from carrel.catalog.rules import READING, Rule, Rules
from carrel.protocol.principal import Principal, View
from carrel.sources.folder.tree_view import TreeView
from support.raw_http import serving

pytestmark = pytest.mark.asyncio

FILES = ("a.txt", "plans/2026/one.txt", "plans/2026/two.txt", "plans/draft.txt", "team/blue/b.txt", "team/red/r.txt")


class Gate:
    def __init__(self, *patterns: str, denied: str = "none:") -> None:
        self._view = Rules([*(Rule(each, READING) for each in patterns), Rule(denied, READING, allow=False)]).view()

    def view(self, principal: Principal | None) -> View:
        return self._view


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


async def listed(app: Server, method: str = "resources/list", **params: Any) -> list[dict[str, Any]]:
    endpoint = app.asgi()
    await endpoint.start()
    async with serving(endpoint) as site:
        found: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            result = (await (await site.ask(method, **params, **cursor)).result())["result"]
            found += result["resources" if "resources" in result else "skills"]
            if "nextCursor" not in result:
                return found
            cursor = {"cursor": result["nextCursor"]}


async def test_what_is_allowed_below_hidden_folders_is_listed(folder: Path) -> None:
    app = Server(
        "files", gate=Gate(f"{folder.as_uri()}/team/blue/**", f"{folder.as_uri()}/plans/2026/two.txt"), page_size=1
    )
    app.add_provider(str(folder))
    names = [entry["uri"].removeprefix(folder.as_uri()) for entry in await listed(app)]
    assert names == ["/plans/2026/two.txt", "/team/blue/b.txt"]


async def test_folders_without_anything_visible_are_not_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, ...]] = []
    open_on_way = TreeView.open_on_way

    def record(self: TreeView, parts: tuple[str, ...], work: Any = None) -> Any:
        opened.append(parts)
        return open_on_way(self, parts, work)

    monkeypatch.setattr(TreeView, "open_on_way", record)
    app = Server("files", gate=Gate(f"{folder.as_uri()}/team/blue/**", folder.as_uri()))
    app.add_provider(str(folder))
    names = [entry["uri"].removeprefix(folder.as_uri()) for entry in await listed(app)]
    assert names == ["", "/team/blue/b.txt"]
    assert set(opened) == {(), ("team",), ("team", "blue")}


async def test_a_folder_does_not_tell_when_something_hidden_in_it_changed(folder: Path) -> None:
    secret = f"{folder.as_uri()}/team/red/**"
    found = []
    for time in (0, 1_000_000_000):
        os.utime(folder / "team", (time, time))
        app = Server("files", gate=Gate("**", denied=secret))
        app.add_provider(str(folder))
        app.skills()
        found.append(await listed(app, "resources/directory/read", uri=folder.as_uri()))
    assert found[0] == found[1]
    assert [entry["name"] for entry in found[0]] == ["plans", "team", "a.txt"]
    assert "annotations" in found[0][2]


async def test_a_skill_is_listed_where_the_others_are_hidden(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: The {name}\n---\nText\n")
    app = Server("skills", gate=Gate("skill://two/**"))
    app.skills(tmp_path)
    assert [skill["uri"] for skill in await listed(app, "skills/list")] == ["skill://two/SKILL.md"]
    assert {entry["uri"] for entry in await listed(app)} <= {"skill://two", "skill://two/SKILL.md"}
