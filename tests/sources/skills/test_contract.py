"""The skills source against the contract that every source is held to."""

import os
from pathlib import Path

import pytest

from carrel.sources.skills.source import SkillsSource
from carrel.testing import ProviderContract
from support.contract_choice import VARIANT


class TestSkills(ProviderContract):
    foreign = "file:///nobody/has/this"
    root: Path

    @pytest.fixture
    def provider(self, tmp_path: Path) -> SkillsSource:
        self.root = root = tmp_path / "skills"
        for path in ("pdf/references/a b#c%.md", "pdf/scripts/run.py", "acme/refunds/糖尿病.txt", "not-a-skill/x.md"):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"This is {path}.\n")
        for path in ("pdf", "acme/refunds", "pdf/nested"):
            skill = root / path / "SKILL.md"
            skill.parent.mkdir(exist_ok=True)
            skill.write_text(f"---\nname: {skill.parent.name}\ndescription: What {path} is for.\n---\n")
        (root / "pdf" / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0")
        return SkillsSource(root)

    def again(self, provider: SkillsSource) -> SkillsSource:
        return SkillsSource(provider._reader.folders[0].path)

    async def create(self, provider: SkillsSource) -> str:
        number = len(os.listdir(self.root / "pdf" / "references"))
        path = self.root / "pdf" / "references" / f"new-{number}.txt"
        while path.exists():
            path = path.with_name(f"{path.stem}-more.txt")
        path.write_text("new\n")
        return f"skill://pdf/references/{path.name}"

    async def change(self, provider: SkillsSource, uri: str) -> None:
        with open(self.path(uri), "a") as file:
            file.write("more\n")

    async def remove(self, provider: SkillsSource, uri: str) -> None:
        os.remove(self.path(uri))

    def missing(self, provider: SkillsSource) -> str:
        return "skill://pdf/missing.md"

    async def container(self, provider: SkillsSource) -> str:
        return "skill://pdf"

    async def searched(self, provider: SkillsSource) -> tuple[str, str]:
        return "refunds", "skill://acme/refunds/SKILL.md"

    async def completed(self, provider: SkillsSource) -> tuple[str, str, str, str]:
        return "skill://{+path}", "path", "pdf/s", "pdf/scripts/run.py"

    def path(self, uri: str) -> Path:
        return self.root / uri.removeprefix("skill://")


class TestOneSkill(TestSkills):
    """The same where the folder that is served is a skill itself."""

    ordinary = VARIANT | {"test_a_skill_is_the_same_by_itself_as_in_the_list"}

    @pytest.fixture
    def provider(self, tmp_path: Path) -> SkillsSource:
        TestSkills.provider.__wrapped__(self, tmp_path)
        (self.root / "pdf" / "x.txt").write_text("x")
        return SkillsSource(self.root / "pdf")

    async def searched(self, provider: SkillsSource) -> tuple[str, str]:
        return "nested", "skill://pdf/nested/SKILL.md"


class TestSkillsWithLinks(TestSkills):
    """The same where links lead to files of skills, to skills, out, and in a circle."""

    ordinary = VARIANT

    @pytest.fixture
    def provider(self, tmp_path: Path) -> SkillsSource:
        provider = TestSkills.provider.__wrapped__(self, tmp_path)
        (tmp_path / "secret.txt").write_text("secret")
        for name, target in {
            "pdf/notes.md": "references/a b#c%.md",
            "pdf/hop.md": "notes.md",
            "pdf/inside": "scripts",
            "pdf/out.txt": "../../secret.txt",
            "pdf/loop.md": "loop.md",
            "pdf/nowhere.md": "missing.md",
            "linked": "pdf",
        }.items():
            (self.root / name).symlink_to(target)
        return provider

    async def unreadable(self, provider: SkillsSource) -> list[str]:
        refused = ("pdf/out.txt", "pdf/loop.md", "pdf/nowhere.md", "pdf/inside/run.py", "linked/SKILL.md", "pdf/.env")
        return [f"skill://{path}" for path in refused]
