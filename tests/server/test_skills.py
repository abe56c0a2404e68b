"""The skills extension, as clients see it; and directories of everything that is shared."""

from __future__ import annotations

import asyncio
import hashlib
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from carrel import Server
from carrel.catalog.provider import Page, Provider, Request
from carrel.errors import ConfigError, ResourceNotFound, TransportError
from carrel.protocol.revisions import REVISIONS
from carrel.transports import memory
from carrel.uri.parse import file_uri
from carrel.wire.skills import Skill

SKILLS = "io.modelcontextprotocol/skills"
EXAMPLES = Path(__file__).parents[2] / "examples" / "skills"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def skill(folder: Path, path: str, description: str = "What it is for.") -> Path:
    name = path.rpartition("/")[2]
    return write(folder / path / "SKILL.md", f"---\nname: {name}\ndescription: {description}\n---\n")


def served(*folders: Path, **options: Any) -> Server:
    app = Server("x", **options)
    app.skills(*folders)
    return app


async def ask(peer: memory.MemoryPeer, method: str, **params: Any) -> dict[str, Any]:
    reply = await peer.request(method, params)
    assert "result" in reply, reply
    return reply["result"]


async def failed(peer: memory.MemoryPeer, method: str, **params: Any) -> dict[str, Any]:
    return (await peer.request(method, params))["error"]


async def test_the_extension_is_declared_together_with_resources(tmp_path: Path) -> None:
    for app in (served(tmp_path), served()):
        async with memory.connect(app) as peer:
            capabilities = (await ask(peer, "server/discover"))["capabilities"]
            assert capabilities["extensions"] == {SKILLS: {"directoryRead": True}}
            assert "resources" in capabilities
            assert (await ask(peer, "skills/list"))["skills"] == []


async def test_a_listed_skill_is_a_complete_manifest_of_what_can_be_read() -> None:
    async with memory.connect(served(EXAMPLES)) as peer:
        result = await ask(peer, "skills/list")
        assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 0, "private")
        [entry] = result["skills"]
        assert entry["uri"] == "skill://meeting-notes/SKILL.md"
        assert entry["frontmatter"]["name"] == "meeting-notes"
        assert entry["frontmatter"]["metadata"] == {"version": "1.0", "author": "the reading room"}
        assert len(entry["resources"]) == 3
        for resource in entry["resources"]:
            [contents] = (await ask(peer, "resources/read", uri=resource["uri"]))["contents"]
            data = contents["text"].encode()
            assert resource["size"] == len(data)
            assert resource["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
            assert contents["mimeType"] == "text/markdown"


async def test_one_skill_is_had_by_the_uri_of_its_skill_file() -> None:
    async with memory.connect(served(EXAMPLES)) as peer:
        listed = (await ask(peer, "skills/list"))["skills"]
        result = await ask(peer, "skills/get", uri="skill://meeting-notes/SKILL.md")
    assert result["skill"] == listed[0]
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 0, "private")
    assert "nextCursor" not in result


@pytest.mark.parametrize(
    "uri",
    [
        *("skill://nobody/SKILL.md", "skill://meeting-notes", "skill://meeting-notes/templates/minutes.md"),
        *(
            "skill://meeting-notes/templates/SKILL.md",
            "file:///etc/passwd",
            "memo://1",
            "no uri",
            "skill://%zz/SKILL.md",
        ),
    ],
)
async def test_an_unknown_skill_is_invalid_params(uri: str) -> None:
    app = served(EXAMPLES)
    app.resources.add("memo://1", "text")
    async with memory.connect(app) as peer:
        assert (await failed(peer, "skills/get", uri=uri))["code"] == -32602


async def test_the_error_says_that_no_skill_is_served_there() -> None:
    async with memory.connect(served(EXAMPLES)) as peer:
        error = await failed(peer, "skills/get", uri="skill://acme/SKILL.md")
    assert error["message"] == "No skill is served at skill://acme/SKILL.md"


async def test_another_spelling_of_a_uri_is_the_same_skill(tmp_path: Path) -> None:
    skill(tmp_path, "team/tool")
    async with memory.connect(served(tmp_path)) as peer:
        found = await ask(peer, "skills/get", uri="SKILL://Team/%74ool/SKILL.md")
    assert found["skill"]["uri"] == "skill://team/tool/SKILL.md"


async def test_pages_of_skills_go_through_every_source(tmp_path: Path) -> None:
    for number in range(3):
        skill(tmp_path / "one", f"a{number}")
        skill(tmp_path / "two", f"b{number}")
    app = served(tmp_path / "one", page_size=2)
    app.skills(tmp_path / "two")
    app.add_provider(GeneratedSkills())
    found, cursor = [], None
    async with memory.connect(app) as peer:
        while True:
            result = await ask(peer, "skills/list", **({} if cursor is None else {"cursor": cursor}))
            assert len(result["skills"]) <= 2
            found += [entry["uri"] for entry in result["skills"]]
            cursor = result.get("nextCursor")
            if cursor is None:
                break
        names = ["a0", "a1", "a2", "b0", "b1", "b2", "g0", "g1", "g2"]
        assert found == [f"{'made' if name[0] == 'g' else 'skill'}://{name}/SKILL.md" for name in names]
        for bad in ("nonsense", "", "WzAsIjkuOSJd", "WzksIiJd", "WzAsMV0="):
            assert (await failed(peer, "skills/list", cursor=bad))["code"] == -32602


class GeneratedSkills(Provider):
    """A provider whose skills are made when they are asked for."""

    name = "zz generated"
    prefixes = ("made://",)

    async def list_skills(self, request: Request) -> Page[Skill]:
        start = int(request.cursor or "0")
        end = min(start + request.limit, 3)
        found = [await self.get_skill(f"made://g{number}/SKILL.md", request) for number in range(start, end)]
        return Page(found, str(end) if end < 3 else None)

    async def get_skill(self, uri: str, request: Request) -> Skill:
        name = uri.split("/")[2]
        if name not in ("g0", "g1", "g2"):
            raise ResourceNotFound(uri)
        return Skill(uri, {"name": name, "description": "Made."}, "dynamic")


async def test_skills_of_another_source_may_be_dynamic() -> None:
    app = served()
    app.add_provider(GeneratedSkills())
    async with memory.connect(app) as peer:
        found = await ask(peer, "skills/get", uri="made://g1/SKILL.md")
        assert found["skill"]["resources"] == "dynamic"
        assert (await failed(peer, "skills/get", uri="made://g9/SKILL.md"))["code"] == -32602


# Directories


async def test_a_directory_of_a_skill_is_read_page_by_page(tmp_path: Path) -> None:
    skill(tmp_path, "tool", "Forms.")
    for number in range(4):
        write(tmp_path / "tool" / "templates" / f"{number}.md", "x")
    async with memory.connect(served(tmp_path, page_size=3)) as peer:
        root = await ask(peer, "resources/directory/read", uri="skill://tool")
        assert root["resultType"] == "complete"
        assert "ttlMs" not in root
        assert [(entry["uri"], entry.get("mimeType"), entry.get("description")) for entry in root["resources"]] == [
            ("skill://tool/templates", "inode/directory", None),
            ("skill://tool/SKILL.md", "text/markdown", "Forms."),
        ]
        first = await ask(peer, "resources/directory/read", uri="skill://tool/templates")
        rest = await ask(peer, "resources/directory/read", uri="skill://tool/templates", cursor=first["nextCursor"])
        names = [entry["name"] for entry in first["resources"] + rest["resources"]]
        assert names == ["0.md", "1.md", "2.md", "3.md"]
        assert "nextCursor" not in rest
        assert (await failed(peer, "resources/directory/read", uri="skill://tool", cursor="x"))["code"] == -32602


async def test_an_empty_directory_is_an_empty_list(tmp_path: Path) -> None:
    skill(tmp_path, "tool")
    (tmp_path / "tool" / "empty").mkdir()
    async with memory.connect(served(tmp_path)) as peer:
        assert (await ask(peer, "resources/directory/read", uri="skill://tool/empty"))["resources"] == []


async def test_directories_of_shared_folders_are_read_too(tmp_path: Path) -> None:
    write(tmp_path / "notes" / "a.md", "a")
    app = served()
    app.add_provider(str(tmp_path))
    async with memory.connect(app) as peer:
        top = await ask(peer, "resources/directory/read", uri=file_uri(tmp_path))
        [notes] = top["resources"]
        assert (notes["uri"], notes["mimeType"]) == (file_uri(tmp_path / "notes"), "inode/directory")
        inner = await ask(peer, "resources/directory/read", uri=notes["uri"])
        assert [entry["name"] for entry in inner["resources"]] == ["a.md"]
        error = await failed(peer, "resources/directory/read", uri=file_uri(tmp_path / "notes" / "a.md"))
        assert error["code"] == -32602


@pytest.mark.parametrize("uri", ["skill://tool/SKILL.md", "skill://nobody", "memo://1", "file:///etc", "no uri", ""])
async def test_a_uri_that_is_no_directory_is_invalid_params(uri: str, tmp_path: Path) -> None:
    skill(tmp_path, "tool")
    app = served(tmp_path)
    app.resources.add("memo://1", "text")
    async with memory.connect(app) as peer:
        assert (await failed(peer, "resources/directory/read", uri=uri))["code"] == -32602


# Other clients, and changes


@pytest.mark.parametrize("revision", [name for name, revision in REVISIONS.items() if not revision.stateless])
async def test_to_older_clients_skills_are_ordinary_resources(revision: str) -> None:
    async with memory.connect(served(EXAMPLES), revision) as peer:
        resources = (await ask(peer, "resources/list"))["resources"]
        assert resources[0]["uri"] == "skill://meeting-notes/SKILL.md"
        assert (await ask(peer, "resources/read", uri=resources[0]["uri"]))["contents"][0]["text"].startswith("---\n")
        for method in ("skills/list", "skills/get", "resources/directory/read"):
            assert (await failed(peer, method, uri="skill://meeting-notes"))["code"] == -32601


async def test_listeners_hear_of_new_skills_and_of_files_that_change(tmp_path: Path) -> None:
    path = skill(tmp_path, "tool")
    async with memory.connect(served(tmp_path)) as peer:
        uris = ["skill://tool/SKILL.md", "skill://tool"]
        wanted = {"resourcesListChanged": True, "resourceSubscriptions": uris}
        peer.start("subscriptions/listen", {"notifications": wanted})
        acknowledged = await peer.notification()
        assert acknowledged["params"]["notifications"] == wanted
        numbers = count()

        async def hear(method: str, act: Callable[[], object]) -> dict[str, Any]:
            async with asyncio.timeout(60):
                while True:  # the server tells what happens once it listens, which nobody is told
                    act()
                    try:
                        while (note := await peer.notification(0.5))["method"] != method:
                            pass
                        return note
                    except TransportError:
                        continue

        def change() -> None:
            path.write_text(f"{path.read_text()}more {next(numbers)}\n")

        note = await hear("notifications/resources/updated", change)
        assert note["params"]["uri"] in uris
        await hear("notifications/resources/list_changed", lambda: skill(tmp_path, f"new-{next(numbers)}"))
        assert len((await ask(peer, "skills/list"))["skills"]) > 1


async def test_an_entry_is_never_older_than_the_file(tmp_path: Path) -> None:
    path = skill(tmp_path, "tool")
    async with memory.connect(served(tmp_path)) as peer:
        for number in range(10):
            path.write_text(f"---\nname: tool\ndescription: '{number}'\n---\n")
            found = (await ask(peer, "skills/get", uri="skill://tool/SKILL.md"))["skill"]
            assert found["frontmatter"]["description"] == str(number)
            assert found["resources"][0]["digest"] == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


# Setting up


async def test_skills_come_before_the_start(tmp_path: Path) -> None:
    app = served(tmp_path)
    async with memory.connect(app):
        with pytest.raises(ConfigError, match="before the server starts"):
            app.skills(tmp_path)


async def test_a_folder_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="There is no"):
        async with memory.connect(served(tmp_path / "missing")):
            pass


@pytest.mark.slow
def test_a_server_without_skills_loads_nothing_for_them() -> None:
    code = (
        "import sys, carrel; carrel.Server('x')\n"
        "print([name for name in sys.modules if 'skill' in name or name.startswith(('yaml', 'carrel.sources'))\n"
        "       or name in ('carrel.server.apps', 'carrel.wire.apps', 'carrel.protocol.extension')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
