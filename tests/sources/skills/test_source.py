"""Skills: what is one, manifests that are true to the byte, nesting, changes, and attacks."""

import asyncio
import hashlib
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.provider import Change
from carrel.errors import ConfigError, MCPError, ResourceForbidden, ResourceNotFound, ResourceTooLarge
from carrel.sources.skills import folder as skill_folder
from carrel.sources.skills.options import SkillsOptions
from carrel.sources.skills.source import SkillsSource
from carrel.testing import Caller, Listener, running
from carrel.testing.caller import Reports
from carrel.uri.parse import normalize
from carrel.wire.resources import BlobResourceContents, TextResourceContents
from carrel.wire.skills import Skill

Put = Callable[..., Path]
Serve = Callable[..., Awaitable[SkillsSource]]


def head(name: str, description: str = "What it is for.", more: str = "") -> str:
    return f"---\nname: {name}\ndescription: {description}\n{more}---\n# {name}\n"


@pytest.fixture
async def serve(folder: Path) -> AsyncIterator[Serve]:
    """Return a function that serves the skills in the folder, or in others."""
    async with AsyncExitStack() as stack:

        async def serve(*folders: Path, **options: Any) -> SkillsSource:
            source = SkillsSource()
            source.add(*(folders or (folder,)), options=SkillsOptions(**options))
            await stack.enter_async_context(running(source))
            return source

        yield serve


async def all_skills(source: SkillsSource, limit: int = 100) -> list[Skill]:
    found: list[Skill] = []
    cursor: str | None = None
    while True:
        page = await Caller(source).list_skills(cursor, limit)
        assert len(page.items) <= limit
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


async def read(source: SkillsSource, uri: str) -> bytes:
    [contents] = await Caller(source).read_resource(uri)
    return contents.blob if isinstance(contents, BlobResourceContents) else contents.text.encode()


async def refused(source: SkillsSource, uri: str) -> None:
    for ask in (
        Caller(source).read_resource,
        Caller(source).get_skill,
        lambda uri: Caller(source).list_directory(uri, None, 10),
    ):
        with pytest.raises((ResourceNotFound, ResourceForbidden)):
            await ask(uri)


# What is a skill


async def test_a_directory_with_a_skill_file_that_names_it_is_a_skill(put: Put, serve: Serve) -> None:
    put("git-workflow/SKILL.md", head("git-workflow", more="license: MIT\nmetadata:\n  version: '2.1'\n"))
    put("git-workflow/references/GUIDE.md", "guide")
    put("README.md", "about the folder")
    put("drafts/notes.md", "no skill")
    source = await serve()
    [skill] = await all_skills(source)
    assert skill.uri == "skill://git-workflow/SKILL.md"
    assert skill.frontmatter == {
        "name": "git-workflow",
        "description": "What it is for.",
        "license": "MIT",
        "metadata": {"version": "2.1"},
    }
    assert [resource.uri for resource in skill.resources] == [
        "skill://git-workflow/SKILL.md",
        "skill://git-workflow/references/GUIDE.md",
    ]
    assert await Caller(source).get_skill(skill.uri) == skill
    for uri in ("skill://README.md", "skill://readme.md", "skill://drafts/notes.md", "skill://drafts", "skill://"):
        await refused(source, uri)


async def test_the_skill_file_is_described_by_its_frontmatter_and_other_files_by_themselves(
    put: Put, serve: Serve
) -> None:
    put("pdf/SKILL.md", head("pdf", "Forms."))
    put("pdf/scripts/run.py", "print()\n")
    skill_file, script = await Caller(await serve()).resources()
    assert (skill_file.name, skill_file.description, skill_file.mime_type) == ("pdf", "Forms.", "text/markdown")
    assert (script.name, script.mime_type, script.size) == ("run.py", "text/x-python", 8)


async def test_a_prefix_of_directories_leads_to_skills_but_is_none(put: Put, serve: Serve) -> None:
    put("acme/billing/refunds/SKILL.md", head("refunds"))
    put("acme/support/refunds/SKILL.md", head("refunds"))
    put("acme/README.md", "not shared")
    put("acme/empty/x.txt", "not shared")
    source = await serve()
    assert [skill.uri for skill in await all_skills(source)] == [
        "skill://acme/billing/refunds/SKILL.md",
        "skill://acme/support/refunds/SKILL.md",
    ]
    page = await Caller(source).list_directory("skill://acme", None, 10)
    assert [(child.uri, child.mime_type) for child in page.items] == [
        ("skill://acme/billing", "inode/directory"),
        ("skill://acme/support", "inode/directory"),
    ]
    await refused(source, "skill://acme/empty")
    await refused(source, "skill://acme/README.md")


async def test_the_folder_may_be_a_skill_itself(tmp_path: Path, put: Put, serve: Serve) -> None:
    (tmp_path / "pdf").mkdir()
    (tmp_path / "pdf" / "SKILL.md").write_text(head("pdf"))
    (tmp_path / "pdf" / "x").mkdir()
    (tmp_path / "pdf" / "x" / "y.txt").write_text("y")
    put("git/SKILL.md", head("git"))
    source = await serve(tmp_path / "pdf", tmp_path / "root")
    assert [skill.uri for skill in await all_skills(source)] == ["skill://pdf/SKILL.md", "skill://git/SKILL.md"]
    assert await read(source, "skill://pdf/x/y.txt") == b"y"
    assert [child.name for child in (await Caller(source).list_directory("skill://pdf", None, 10)).items] == [
        "x",
        "pdf",
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("# no frontmatter\n", "frontmatter"),
        (head("other"), "the directory has another name"),
        ("---\nname: tool\n---\n", "description"),
        ("---\nname: tool\nname: tool\ndescription: d\n---\n", "twice"),
    ],
)
async def test_an_invalid_skill_is_not_served_and_logged_once(
    text: str, reason: str, put: Put, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "carrel.sources")
    put("tool/SKILL.md", text)
    put("tool/more.md")
    source = await serve()
    for _ in range(3):
        assert await all_skills(source) == []
        assert await Caller(source).resources() == []
    await refused(source, "skill://tool/SKILL.md")
    await refused(source, "skill://tool/more.md")
    [record] = caplog.records
    assert reason in record.getMessage()
    assert "tool is not served as a skill" in record.getMessage()


@pytest.mark.parametrize("name", ["skill.md", "Skill.md", "SKILL.MD", "SKILL"])
async def test_the_file_is_called_skill_md_in_these_letters(name: str, put: Put, serve: Serve) -> None:
    put(f"tool/{name}", head("tool"))
    assert await all_skills(await serve()) == []


async def test_the_first_part_of_a_path_is_in_lower_case_in_uris_whatever_it_is_in_the_folder(
    put: Put, serve: Serve
) -> None:
    put("Team Ä/tool/SKILL.md", head("tool"))
    source = await serve()
    [skill] = await all_skills(source)
    assert skill.uri == normalize(skill.uri) == "skill://team%20%C3%84/tool/SKILL.md"
    assert await Caller(source).get_skill(skill.uri) == skill
    assert await read(source, skill.uri) == head("tool").encode()


async def test_a_name_at_the_top_belongs_to_the_first_folder_that_has_it(
    tmp_path: Path, put: Put, serve: Serve
) -> None:
    for number in ("one", "two"):
        (tmp_path / number / "team" / number).mkdir(parents=True)
        (tmp_path / number / "team" / number / "SKILL.md").write_text(head(number))
    source = await serve(tmp_path / "one", tmp_path / "two")
    assert [skill.uri for skill in await all_skills(source)] == ["skill://team/one/SKILL.md"]
    assert [resource.uri for resource in await Caller(source).resources()] == ["skill://team/one/SKILL.md"]
    await refused(source, "skill://team/two/SKILL.md")


async def test_a_folder_that_is_missing_or_a_file_is_refused_at_the_start(folder: Path, put: Put) -> None:
    put("file.txt")
    for path in (folder / "missing", folder / "file.txt"):
        with pytest.raises(ConfigError):
            await SkillsSource(path).start(Reports())


# Nested skills


async def test_files_of_a_nested_skill_are_files_of_the_one_around_it_too(put: Put, serve: Serve) -> None:
    put("outer/SKILL.md", head("outer"))
    put("outer/sub/inner/SKILL.md", head("inner"))
    put("outer/sub/inner/x.txt")
    put("outer/z.txt")
    source = await serve()
    outer, inner = await all_skills(source)
    inside = ["skill://outer/sub/inner/SKILL.md", "skill://outer/sub/inner/x.txt"]
    assert [resource.uri for resource in inner.resources] == inside
    assert {resource.uri for resource in outer.resources} == {"skill://outer/SKILL.md", "skill://outer/z.txt", *inside}
    assert [[skill.uri for skill in await all_skills(source, limit)] for limit in (1, 2)] == [
        [outer.uri, inner.uri]
    ] * 2


async def test_an_invalid_skill_file_within_a_skill_is_an_ordinary_file(put: Put, serve: Serve) -> None:
    put("outer/SKILL.md", head("outer"))
    put("outer/inner/SKILL.md", "no frontmatter")
    source = await serve()
    [skill] = await all_skills(source)
    assert [resource.uri for resource in skill.resources] == ["skill://outer/SKILL.md", "skill://outer/inner/SKILL.md"]
    assert await read(source, "skill://outer/inner/SKILL.md") == b"no frontmatter"
    with pytest.raises(ResourceNotFound):
        await Caller(source).get_skill("skill://outer/inner/SKILL.md")


# Manifests


async def test_size_and_digest_are_those_of_the_bytes_that_are_read(put: Put, serve: Serve) -> None:
    put("tool/SKILL.md", "\ufeff" + head("tool", "Wörter."))
    put("tool/crlf.txt", b"a\r\nb\r\n")
    put("tool/mark.txt", b"\xef\xbb\xbfwith a mark")
    put("tool/latin.txt", "Bücher".encode("latin-1"))
    put("tool/utf16.txt", "text".encode("utf-16"))
    put("tool/zero.bin", b"a\0b")
    put("tool/picture.png", b"\x89PNG\r\n\x1a\n\0")
    put("tool/vector.svg", b"<svg/>")
    put("tool/empty.txt", b"")
    source = await serve()
    [skill] = await all_skills(source)
    assert len(skill.resources) == 9
    for resource in skill.resources:
        data = await read(source, resource.uri)
        assert resource.size == len(data)
        assert resource.digest == f"sha256:{hashlib.sha256(data).hexdigest()}"
    [text] = await Caller(source).read_resource("skill://tool/vector.svg")
    assert isinstance(text, TextResourceContents)
    assert text.mime_type == "image/svg+xml"


async def test_a_manifest_has_exactly_the_files_that_can_be_read(put: Put, serve: Serve, folder: Path) -> None:
    put("tool/SKILL.md", head("tool"))
    put("tool/.env", "secret")
    put("tool/.git/config", "secret")
    put("tool/build/out.o", "ignored")
    put("tool/.gitignore", "build/\n")
    put("tool/a/b/c.txt")
    put("shared.txt", "shared")
    (folder / "tool" / "link.txt").symlink_to("a/b/c.txt")
    (folder / "tool" / "up.txt").symlink_to("../shared.txt")
    (folder / "tool" / "alias").symlink_to("a")
    (folder / "tool" / "out").symlink_to("/etc")
    source = await serve()
    [skill] = await all_skills(source)
    paths = ["SKILL.md", "a/b/c.txt", "link.txt", "up.txt"]
    assert sorted(resource.uri for resource in skill.resources) == [f"skill://tool/{path}" for path in paths]
    assert [resource.uri for resource in await Caller(source).resources()] == [
        *("skill://tool/SKILL.md", "skill://tool/link.txt", "skill://tool/up.txt"),
        "skill://tool/a/b/c.txt",
    ]
    for path in (".env", ".git/config", "build/out.o", ".gitignore", "alias/b/c.txt", "alias", "out/passwd", "out"):
        await refused(source, f"skill://tool/{path}")
    page = await Caller(source).list_directory("skill://tool", None, 100)
    assert [child.name for child in page.items] == ["a", "tool", "link.txt", "up.txt"]


async def test_digests_follow_a_file_that_is_written_again_and_again(put: Put, serve: Serve) -> None:
    put("tool/SKILL.md", head("tool"))
    source = await serve()
    for number in range(20):  # the same length, and often the same time stamp
        put("tool/data.txt", f"{number:04}")
        skill = await Caller(source).get_skill("skill://tool/SKILL.md")
        assert skill.resources[1].digest == f"sha256:{hashlib.sha256(f'{number:04}'.encode()).hexdigest()}"


async def test_digests_of_files_that_have_not_changed_are_remembered(
    put: Put, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (put("tool/SKILL.md", head("tool")), put("tool/data.txt")):
        os.utime(path, (1e9, 1e9))
    monkeypatch.setattr(skill_folder, "SETTLED", -(10**12))  # as if the last change were long ago
    source = await serve()
    before = await all_skills(source)
    monkeypatch.setattr(skill_folder, "sha256", None)
    assert await all_skills(source) == before


async def test_skills_with_too_many_files_or_bytes_are_not_published(
    put: Put, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "carrel.sources")
    for name in ("many", "large", "right"):
        put(f"{name}/SKILL.md", head(name))
    for number in range(512):
        put(f"many/{number}.txt", "")
        put(f"right/{number}.txt", "") if number < 511 else None
    with open(put("large/data.bin"), "wb") as file:
        file.truncate(16 * 1024 * 1024)
    source = await serve()
    [skill] = await all_skills(source)
    assert (skill.uri, len(skill.resources)) == ("skill://right/SKILL.md", 512)
    for name in ("many", "large"):
        with pytest.raises(ResourceNotFound):
            await Caller(source).get_skill(f"skill://{name}/SKILL.md")
    assert sorted("more than" in record.getMessage() for record in caplog.records) == [True, True]


async def test_a_file_larger_than_a_skill_is_not_read(put: Put, serve: Serve) -> None:
    put("large/SKILL.md", head("large"))
    with open(put("large/data.bin"), "wb") as file:
        file.truncate(16 * 1024 * 1024 + 1)
    with pytest.raises(ResourceTooLarge, match="16,777,216"):
        await Caller(await serve()).read_resource("skill://large/data.bin")


async def test_pages_of_skills_of_any_size_give_each_once(tmp_path: Path, put: Put, serve: Serve) -> None:
    for number in range(7):
        put(f"s{number}/SKILL.md", head(f"s{number}"))
    (tmp_path / "more" / "last").mkdir(parents=True)
    (tmp_path / "more" / "last" / "SKILL.md").write_text(head("last"))
    source = await serve(tmp_path / "root", tmp_path / "more")
    whole = [skill.uri for skill in await all_skills(source)]
    assert len(whole) == 8
    for limit in (1, 2, 3, 7, 8):
        assert [skill.uri for skill in await all_skills(source, limit)] == whole


@pytest.mark.parametrize("cursor", ["", "0", "0.", "9.x", "-1.x", "é.x", "0.nonsense", "x" * 100_000])
async def test_a_cursor_of_skills_that_was_never_given_out_is_refused(cursor: str, put: Put, serve: Serve) -> None:
    put("tool/SKILL.md", head("tool"))
    put("tool/x.txt")
    source = await serve()
    of_list = (await Caller(source).list_resources(None, 1)).next_cursor
    for bad in (cursor, of_list):
        with pytest.raises(MCPError, match="cursor"):
            await Caller(source).list_skills(bad, 10)


async def test_a_directory_is_read_as_the_list_of_what_is_in_it(put: Put, serve: Serve) -> None:
    put("tool/SKILL.md", head("tool"))
    put("tool/a/x.txt")
    source = await serve()
    [contents] = await Caller(source).read_resource("skill://tool")
    assert contents.mime_type == "inode/directory"
    assert [entry["uri"] for entry in json.loads(contents.text)] == ["skill://tool/a", "skill://tool/SKILL.md"]


# Changes


async def test_a_new_file_in_a_skill_and_a_change_and_its_end_are_told(put: Put, serve: Serve) -> None:
    put("tool/SKILL.md", head("tool"))
    source = await serve()
    async with Listener(source) as listener:
        path = put("tool/a/x.txt", "1")
        await listener.hear("skill://tool/a/x.txt", "created")
        await listener.hear("skill://tool/a", "created")
        path.write_text("22")
        await listener.hear("skill://tool/a/x.txt", "changed")
        path.unlink()
        await listener.hear("skill://tool/a/x.txt", "removed")


async def test_files_that_belong_to_no_skill_are_not_told_of(put: Put, serve: Serve) -> None:
    put("tool/SKILL.md", head("tool"))
    source = await serve()
    async with Listener(source) as listener:
        put("drafts/x.txt")
        put("tool/.hidden")
        put("README.md")
        put("tool/end.txt")
        heard = [await listener.hear("skill://tool/end.txt", "created"), *listener.heard]
    assert {change.uri for change in heard} <= {"skill://tool/end.txt", "skill://tool"}


async def test_a_skill_file_that_comes_or_goes_brings_or_takes_all_files_of_the_skill(put: Put, serve: Serve) -> None:
    put("tool/x.txt")
    source = await serve()
    async with Listener(source) as listener:
        path = put("tool/SKILL.md", head("tool"))
        await listener.hear("skill://tool/SKILL.md", "created")
        await listener.hear("skill://tool/x.txt", "created")
        path.write_text("# no frontmatter any more\n")
        await listener.hear("skill://tool/SKILL.md", "removed")
        await listener.hear("skill://tool/x.txt", "removed")


async def test_new_frontmatter_counts_as_a_new_entry_and_a_new_text_does_not(put: Put, serve: Serve) -> None:
    path = put("tool/SKILL.md", head("tool"))
    source = await serve()
    async with Listener(source) as listener:
        path.write_text(head("tool") + "more text\n")
        await listener.hear("skill://tool/SKILL.md", "changed")
        path.write_text(head("tool", "Something else."))
        await listener.hear("skill://tool/SKILL.md", "created")
        assert (await Caller(source).get_skill("skill://tool/SKILL.md")).frontmatter["description"] == "Something else."


async def test_changes_in_every_folder_are_told(tmp_path: Path, put: Put, serve: Serve) -> None:
    (tmp_path / "more" / "last").mkdir(parents=True)
    put("tool/SKILL.md", head("tool"))
    source = await serve(tmp_path / "root", tmp_path / "more")
    async with Listener(source) as listener:
        (tmp_path / "more" / "last" / "SKILL.md").write_text(head("last"))
        await listener.hear("skill://last/SKILL.md", "created")
        put("tool/x.txt")
        assert await listener.hear("skill://tool/x.txt") == Change("created", "skill://tool/x.txt")


# Attacks


@pytest.mark.parametrize(
    "uri",
    [
        *("skill://tool/..", "skill://tool/../secret.txt", "skill://tool/a/../../../outside/secret.txt"),
        *("skill://tool/%2e%2e/secret.txt", "skill://tool/..%2fsecret.txt", "skill://tool/%2E%2E%2Fsecret.txt"),
        *("skill://../outside/secret.txt", "skill://%2e%2e/outside/secret.txt", "skill://..%2foutside/secret.txt"),
        *("skill:///etc/passwd", "skill://tool//etc/passwd", "skill://tool/%2Fetc/passwd", "skill://tool/SKILL.md/x"),
        *("skill://tool/SKILL.md%00.png", "skill://tool/..%5csecret.txt", "skill://tool/SKILL.md/", "skill://tool/."),
        *(
            "skill://user@tool/SKILL.md",
            "skill://tool:80/SKILL.md",
            "skill://tool/SKILL.md?x",
            "skill://tool/SKILL.md#x",
        ),
        *("file:///etc/passwd", "SKILL://tool/SKILL.md", "skill:tool/SKILL.md", "skill:/tool/SKILL.md"),
        *("skill://tool/out.txt", "skill://tool/out/secret.txt", "skill://tool/way/outside/secret.txt"),
        "skill://out/SKILL.md",
    ],
)
async def test_nothing_outside_of_skills_can_be_had(uri: str, put: Put, serve: Serve, folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("the secret")
    (outside / "SKILL.md").write_text(head("out"))
    put("secret.txt", "the secret")
    put("tool/SKILL.md", head("tool"))
    put("tool/a/x.txt")
    (folder / "tool" / "out.txt").symlink_to(outside / "secret.txt")
    (folder / "tool" / "out").symlink_to(outside)
    (folder / "tool" / "way").symlink_to("..")
    (folder / "out").symlink_to(outside)
    source = await serve()
    for ask in (
        Caller(source).read_resource,
        Caller(source).get_skill,
        lambda uri: Caller(source).list_directory(uri, None, 10),
    ):
        try:
            answer = repr(await ask(uri))
        except MCPError:
            continue
        assert "secret" not in answer
        assert "out" not in answer.replace("without", "")
    assert "secret" not in repr(await all_skills(source)) + repr(await Caller(source).resources())


async def test_links_out_are_followed_if_that_was_asked_for(put: Put, serve: Serve, folder: Path) -> None:
    outside = folder.parent / "outside" / "tool"
    outside.mkdir(parents=True)
    (outside / "SKILL.md").write_text(head("tool"))
    (folder / "tool").symlink_to(outside)
    assert await all_skills(await serve()) == []
    [skill] = await all_skills(await serve(follow_symlinks=True))
    assert skill.uri == "skill://tool/SKILL.md"


async def test_a_pipe_in_a_skill_is_not_listed_and_does_not_block(put: Put, serve: Serve, folder: Path) -> None:
    put("tool/SKILL.md", head("tool"))
    os.mkfifo(folder / "tool" / "pipe")
    (folder / "other").mkdir()
    os.mkfifo(folder / "other" / "SKILL.md")
    source = await serve()
    async with asyncio.timeout(60):
        [skill] = await all_skills(source)
        assert len(skill.resources) == 1
        await refused(source, "skill://tool/pipe")
        await refused(source, "skill://other/SKILL.md")


async def test_a_skill_that_is_swapped_for_a_link_while_it_is_served_leads_nowhere(
    put: Put, serve: Serve, folder: Path
) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "SKILL.md").write_text(head("tool", "the secret"))
    put("tool/SKILL.md", head("tool"))
    source = await serve()
    assert len(await all_skills(source)) == 1
    (folder / "tool").rename(folder.parent / "away")
    (folder / "tool").symlink_to(outside)
    assert await all_skills(source) == []
    await refused(source, "skill://tool/SKILL.md")
