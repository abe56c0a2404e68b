"""Skills: listed, verified against the list of their server, and what is wrong said."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from carrel import Server
from carrel.catalog.provider import Page as ListPage
from carrel.catalog.provider import Provider, Request
from carrel.wire.resources import ReadResourceResult, TextResourceContents
from carrel.wire.skills import Skill, SkillResource
from support.studio_page import Page, app_server, opened

pytestmark = pytest.mark.slow

TEXT = "---\nname: gardening\ndescription: How to keep a garden\n---\n# Gardening\n\nSee [water](notes/water.md).\n"


class Cheat(Provider):
    """Provider of a skill whose files differ from the list."""

    name = "cheat"
    prefixes = ("skill://cheat",)

    def __init__(self) -> None:
        self.files = {"gardening/SKILL.md": TEXT, "gardening/notes/water.md": "Once a day.\n"}
        self.skill = Skill(
            uri="skill://cheat/gardening/SKILL.md",
            frontmatter={"name": "gardening", "description": "How to keep a garden"},
            resources=[
                SkillResource(f"skill://cheat/{path}", f"sha256:{sha256(text.encode()).hexdigest()}", len(text))
                for path, text in self.files.items()
            ],
        )

    def list_skills(self, request: Request) -> ListPage[Skill]:
        return ListPage([self.skill])

    def get_skill(self, uri: str, request: Request) -> Skill:
        return self.skill

    def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        text = self.files[uri.removeprefix("skill://cheat/")]
        return ReadResourceResult(contents=[TextResourceContents(uri, text)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    skill = tmp_path / "skills/gardening"
    (skill / "notes").mkdir(parents=True)
    (skill / "SKILL.md").write_text(TEXT)
    (skill / "notes/water.md").write_text("Once a day.\n")
    return tmp_path / "skills"


@pytest.fixture
async def page(folder: Path) -> AsyncIterator[Page]:
    app = Server("garden")
    app.skills(folder)
    plain = Server("plain")

    @plain.tool
    def nothing() -> None: ...

    async with opened(app_server(app), app_server(plain)) as page:
        await page.ready("garden", "plain")
        yield page


async def skill(page: Page, **more: Any) -> dict[str, Any]:
    (row,) = (await page.get("/items", kind="skill"))["rows"]
    found: dict[str, Any] = await page.get("/skill", server="garden", uri=row["key"]["uri"], **more)
    return found


def states(found: dict[str, Any]) -> dict[str, str]:
    return {file["path"]: file["state"] for file in found["files"]}


async def test_a_skill_is_listed_and_verified_when_that_is_asked_for(page: Page) -> None:
    window = await page.get("/items", kind="skill", sort="name", q="garden")
    assert [(row["name"], row["description"]) for row in window["rows"]] == [("gardening", "How to keep a garden")]
    assert (await page.get("/items", kind="skill", q="bicycle"))["total"] == 0
    found = await skill(page)
    assert (found["name"], found["dynamic"], found["problem"]) == ("gardening", False, None)
    assert found["instructions"] == TEXT
    assert found["fingerprint"].startswith("sha256:")
    assert states(found) == {"SKILL.md": "verified", "notes/water.md": "listed"}
    assert states(await skill(page, whole="yes")) == {"SKILL.md": "verified", "notes/water.md": "verified"}


async def test_files_that_differ_from_the_list_are_named_with_the_difference() -> None:
    app, cheat = Server("garden"), Cheat()
    app.add_provider(cheat)
    app.skills()
    async with opened(app_server(app)) as page:
        await page.ready("garden")
        for text, difference in [("Once a day, twice", "size"), ("Once a DAY.\n", "digest")]:
            cheat.files["gardening/notes/water.md"] = text
            found = await skill(page, whole="yes")
            assert states(found) == {"SKILL.md": "verified", "notes/water.md": "wrong"}
            assert found["files"][1]["problem"]["difference"] == difference
        cheat.files["gardening/SKILL.md"] = TEXT.replace("# Gardening", "# gardening")
        found = await skill(page, whole="yes")
        assert (found["problem"]["difference"], found["instructions"]) == ("digest", None)
        assert states(found) == {"SKILL.md": "wrong", "notes/water.md": "listed"}
        cheat.skill = structs.replace(cheat.skill, frontmatter={"name": "cooking", "description": "x"})
        found = await skill(page, whole="yes")
        assert found["problem"]["difference"] == "entry"
        assert "cooking" in found["problem"]["detail"]


async def test_a_server_without_skills_has_none(page: Page) -> None:
    assert (await page.get("/items", kind="skill", server="plain"))["total"] == 0
    assert (await page.ask("GET", "/skill", server="plain", uri="skill://a/SKILL.md"))[0] in (404, 502)
    assert (await page.ask("GET", "/skill", server="garden", uri="skill://a/SKILL.md"))[0] == 404
