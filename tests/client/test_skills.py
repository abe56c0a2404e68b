"""Skills: listed without reading anything, and read only as they were listed."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel import Server
from carrel.catalog.provider import Page, Provider, Request
from carrel.client.handlers import ClientCall
from carrel.client.skill_uris import path_of, resolve
from carrel.client.skills import SkillSnapshot, get_skill, is_equal, list_directory, list_skills
from carrel.errors import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MethodNotFound,
    PeerError,
    ResourceForbidden,
    ResourceMismatch,
    ResourceNotFound,
    ResourceTooLarge,
)
from carrel.protocol.extensions.skills import MAX_BYTES, MAX_FILES, SKILLS
from carrel.protocol.revisions import LATEST
from carrel.transports import memory
from carrel.wire.resources import (
    BlobResourceContents,
    ReadResourceResult,
    Resource,
    TextResourceContents,
    read_contents,
)
from carrel.wire.skills import Skill as SkillEntry
from carrel.wire.skills import SkillResource

ROWS = {row.operation: row for row in (*LATEST.requests.values(), *SKILLS.requests.values())}
URI = "skill://pdf/SKILL.md"
HEAD = "---\nname: pdf\ndescription: Reads forms.\nmetadata:\n  version: 1.0\n  tags: [a, b]\n---\n"


class Peer:
    """What skills need of a client, over messages in memory. ``asked`` is what the server was asked."""

    name = "forms"

    def __init__(self, peer: memory.MemoryPeer) -> None:
        self._peer = peer
        self.asked: list[tuple[str, str]] = []

    async def declared(self) -> Mapping[str, Any]:
        found = (await self._peer.request("server/discover"))["result"]["capabilities"]
        return found.get("extensions", {})

    async def request(self, call: ClientCall[Any]) -> Any:
        fields = msgspec.to_builtins(call.params)
        self.asked.append((call.operation, fields.get("uri", "")))
        reply = await self._peer.request(call.method, fields)
        if "error" in reply:
            raise PeerError(reply["error"]["code"], reply["error"]["message"], reply["error"].get("data"))
        return msgspec.convert(
            reply["result"], call.request.result, dec_hook=lambda kind, value: read_contents(kind, value)
        )

    async def pages(self, row: Any, params: Any) -> AsyncIterator[Any]:
        while True:
            page = await self.request(ClientCall(row, params))
            yield page
            if page.next_cursor is None:
                return
            params = msgspec.structs.replace(params, cursor=page.next_cursor)

    @property
    def read(self) -> list[str]:
        return [uri for operation, uri in self.asked if operation == "read_resource"]


@asynccontextmanager
async def connected(app: Server) -> AsyncIterator[Peer]:
    async with memory.connect(app) as peer:
        yield Peer(peer)


def served(folder: Path) -> Server:
    app = Server("forms", page_size=2)
    app.skills(folder)
    return app


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One skill, with all kinds of files."""
    skill = tmp_path / "pdf"
    for path, data in {
        "SKILL.md": f"{HEAD}\nRead `references/FORMS.md`.\r\n".encode(),
        "references/FORMS.md": "Gr\u00fc\u00dfe\n".encode(),
        "references/deep/er.txt": b"",
        "assets/logo.png": b"\x89PNG\x00\xff",
        "with space & more.txt": b"x",
        "inner/SKILL.md": b"---\nname: inner\ndescription: Within.\nallowed-tools: Bash\n---\n",
    }.items():
        (skill / path).parent.mkdir(parents=True, exist_ok=True)
        (skill / path).write_bytes(data)
    return tmp_path


@pytest.fixture
async def peer(folder: Path) -> AsyncIterator[Peer]:
    async with connected(served(folder)) as peer:
        yield peer


# Listing


async def test_listing_reads_no_file(peer: Peer):
    skills = [skill async for skill in list_skills(peer)]
    assert [skill.uri for skill in skills] == [URI, "skill://pdf/inner/SKILL.md"]
    assert {operation for operation, _ in peer.asked} == {"list_skills"}
    [skill, _] = skills
    assert (skill.name, skill.description, skill.problem, skill.dynamic) == ("pdf", "Reads forms.", None, False)
    assert skill.frontmatter["metadata"] == {"version": 1.0, "tags": ["a", "b"]}
    assert skill.files is not None
    assert len(skill.files) == 6
    assert await skill.directory("references")
    assert peer.read == []


async def test_all_pages_are_listed(tmp_path: Path):
    for number in range(5):
        (tmp_path / f"s{number}").mkdir()
        (tmp_path / f"s{number}" / "SKILL.md").write_text(f"---\nname: s{number}\ndescription: x\n---\n")
    async with connected(served(tmp_path)) as peer:
        assert [skill.name async for skill in list_skills(peer)] == ["s0", "s1", "s2", "s3", "s4"]
        assert len(peer.asked) == 3


async def test_a_skill_is_had_by_its_uri_and_nothing_is_read(peer: Peer):
    skill = await get_skill(peer, URI)
    [listed, _] = [skill async for skill in list_skills(peer)]
    assert (skill.uri, skill.frontmatter, skill.files) == (listed.uri, listed.frontmatter, listed.files)
    assert skill.fingerprint == listed.fingerprint
    assert peer.read == []
    assert (await get_skill(peer, "SKILL://pdf/%53KILL.md")).uri == URI


@pytest.mark.parametrize("uri", ["skill://nobody/SKILL.md", "skill://pdf", "skill://pdf/references/FORMS.md", "no uri"])
async def test_a_uri_that_is_no_skill_is_not_found(peer: Peer, uri: str):
    with pytest.raises(ResourceNotFound):
        await get_skill(peer, uri)


async def test_skills_are_told_apart_by_server_and_uri(folder: Path):
    async with connected(served(folder)) as one, connected(served(folder)) as other:
        other.name = "elsewhere"
        skills = [await get_skill(one, URI), await get_skill(other, URI)]
    assert [skill.identity for skill in skills] == [("forms", URI), ("elsewhere", URI)]
    assert repr(skills[1]) == f"<Skill {URI} of elsewhere>"


async def test_a_server_without_the_extension_is_not_asked():
    async with connected(Server("plain")) as peer:
        for asking in (
            anext(aiter(list_skills(peer))),
            get_skill(peer, URI),
            anext(aiter(list_directory(peer, "skill://pdf"))),
        ):
            with pytest.raises(MethodNotFound, match="forms has no skills"):
                await asking
        assert peer.asked == []


# Reading


async def test_instructions_are_the_whole_of_the_file_to_the_byte(peer: Peer, folder: Path):
    skill = await get_skill(peer, URI)
    text = await skill.instructions()
    assert text.encode() == (folder / "pdf/SKILL.md").read_bytes()
    assert await skill.instructions() == text
    assert peer.read == [URI]


@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("references/FORMS.md", "references/FORMS.md"),
        ("./references/../references/./FORMS.md", "references/FORMS.md"),
        ("skill://pdf/references/FORMS.md", "references/FORMS.md"),
        ("references/deep/er.txt", "references/deep/er.txt"),
        ("assets/logo.png", "assets/logo.png"),
        ("with space & more.txt", "with space & more.txt"),
        ("with%20space%20&%20more.txt", "with space & more.txt"),
        ("skill://pdf/with%20space%20%26%20more.txt", "with space & more.txt"),
        ("SKILL.md", "SKILL.md"),
        (URI, "SKILL.md"),
        ("inner/SKILL.md", "inner/SKILL.md"),
    ],
)
async def test_files_are_found_by_paths_as_instructions_write_them(peer: Peer, folder: Path, path: str, file: str):
    contents = await (await get_skill(peer, URI)).read(path)
    data = contents.text.encode() if isinstance(contents, TextResourceContents) else contents.blob
    assert data == (folder / "pdf" / file).read_bytes()
    assert isinstance(contents, BlobResourceContents) == path.endswith(".png")


async def test_the_skill_file_is_verified_before_any_other_is_read(peer: Peer, folder: Path):
    skill = await get_skill(peer, URI)
    await skill.read("references/FORMS.md")
    assert peer.read == [URI, "skill://pdf/references/FORMS.md"]
    skill = await get_skill(peer, URI)
    (folder / "pdf/SKILL.md").write_text(f"{HEAD}Evil")
    peer.asked.clear()
    with pytest.raises(ResourceMismatch):
        await skill.read("references/FORMS.md")
    assert peer.read == [URI]


async def test_verified_files_are_not_fetched_again_and_cannot_be_changed(peer: Peer, folder: Path):
    skill = await get_skill(peer, URI)
    first = await skill.read("references/FORMS.md")
    assert isinstance(first, TextResourceContents)
    first.text = "spoilt"
    (folder / "pdf/references/FORMS.md").write_text("changed")
    again = await skill.read("references/FORMS.md")
    assert isinstance(again, TextResourceContents)
    assert again.text == "Gr\u00fc\u00dfe\n"
    assert len(peer.read) == 2
    skill_file = await skill.read("SKILL.md")
    assert isinstance(skill_file, TextResourceContents)
    skill_file.text = "spoilt"
    assert (await skill.instructions()).startswith(HEAD)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "../other/SKILL.md",
            "references/../../x",
            "/etc/passwd",
            "//host/x",
            "references//FORMS.md",
            "",
            ".",
            "..",
            "a/..",
        ),
        *("..\\x", "references\\FORMS.md", "a\0b", "a\nb", "skill://pdf/../x", "skill://pdf/%2e%2e/x", "skill://pdf"),
        *(
            "skill://other/SKILL.md",
            "file:///etc/passwd",
            "https://example.com/x",
            "skill://pdf/references/FORMS.md?x=1",
        ),
        *("skill://pdfs/x", "skill://pdf/a%2fb", "skill://pdf/a%5cb", "skill://pdf/a%00b", "skill://pdf/%zz"),
    ],
)
async def test_paths_that_lead_out_of_the_skill_are_refused_and_nothing_is_read(peer: Peer, path: str):
    skill = await get_skill(peer, URI)
    peer.asked.clear()
    with pytest.raises(ResourceForbidden):
        await skill.read(path)
    assert peer.asked == []


@pytest.mark.parametrize(
    "path", ["new.md", "references", "REFERENCES/forms.md", "%2e%2e/x", "a%2fb", "skill:x", "inner"]
)
async def test_a_file_that_is_not_listed_is_not_read(peer: Peer, folder: Path, path: str):
    skill = await get_skill(peer, URI)
    (folder / "pdf/new.md").write_text("new")
    peer.asked.clear()
    with pytest.raises(ResourceMismatch) as caught:
        await skill.read(path)
    assert caught.value.difference == "unlisted"
    assert peer.asked == []


# What has changed


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda text: text.replace("Read `", "Load `"), "digest"),
        (lambda text: text + "more", "size"),
        (lambda text: text.replace("Reads forms.", "Reads faxes."), "digest"),
    ],
)
async def test_instructions_that_have_changed_since_are_not_given_out(
    peer: Peer, folder: Path, change: Callable[[str], str], difference: str
):
    skill = await get_skill(peer, URI)
    path = folder / "pdf/SKILL.md"
    path.write_bytes(change(path.read_bytes().decode()).encode())
    with pytest.raises(ResourceMismatch) as caught:
        await skill.instructions()
    assert caught.value.difference == difference
    assert (caught.value.uri, "secret" in str(caught.value)) == (URI, False)


@pytest.mark.parametrize(
    ("data", "difference"), [(b"GR\xc3\xbc\xc3\x9fe\n", "digest"), (b"x", "size"), (b"\xff" * 8, "digest")]
)
async def test_files_that_have_changed_since_are_not_given_out(peer: Peer, folder: Path, data: bytes, difference: str):
    skill = await get_skill(peer, URI)
    (folder / "pdf/references/FORMS.md").write_bytes(data)
    with pytest.raises(ResourceMismatch) as caught:
        await skill.read("references/FORMS.md")
    assert (caught.value.difference, caught.value.uri) == (difference, "skill://pdf/references/FORMS.md")


async def test_a_skill_that_has_changed_is_had_anew_and_has_another_fingerprint(peer: Peer, folder: Path):
    skill = await get_skill(peer, URI)
    (folder / "pdf/references/FORMS.md").write_bytes(b"new")
    (folder / "pdf/new.md").write_text("new")
    fresh = await skill.refresh()
    assert fresh.fingerprint != skill.fingerprint
    assert (await fresh.read("references/FORMS.md")).text == "new"  # type: ignore[union-attr]
    assert (await fresh.read("new.md")).text == "new"  # type: ignore[union-attr]
    assert (await fresh.refresh()).fingerprint == fresh.fingerprint


async def test_a_file_that_is_gone_is_not_found(peer: Peer, folder: Path):
    skill = await get_skill(peer, URI)
    (folder / "pdf/references/FORMS.md").unlink()
    with pytest.raises(ResourceNotFound):
        await skill.read("references/FORMS.md")
    (folder / "pdf/SKILL.md").unlink()
    with pytest.raises(ResourceNotFound):
        await skill.refresh()


# Servers that lie


class Lying(Provider):
    """A provider whose skills are whatever a test says, as are their files."""

    name = "lying"
    catch_all = True

    def __init__(self, entry: SkillEntry, files: Mapping[str, Any]) -> None:
        self.entry = entry
        self.files = files

    async def list_skills(self, request: Request) -> Page[SkillEntry]:
        return Page([self.entry])

    async def get_skill(self, uri: str, request: Request) -> SkillEntry:
        return self.entry

    async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
        if uri not in self.files:
            raise ResourceNotFound(uri)
        found = self.files[uri]
        found = found if isinstance(found, list) else [found]
        return ReadResourceResult(
            contents=[
                TextResourceContents(uri, one) if isinstance(one, str) else BlobResourceContents(uri, one)
                for one in found
            ]
        )

    async def list_directory(self, uri: str, request: Request) -> Page[Resource]:
        if uri == "skill://pdf":
            return Page(
                [
                    Resource(uri="skill://pdf/SKILL.md", name="SKILL.md"),
                    Resource(uri="skill://pdf/made", name="made", mime_type="inode/directory"),
                    *(
                        Resource(uri=uri, name="x")
                        for uri in ("skill://other/x", "file:///etc/passwd", "skill://pdf/a/b")
                    ),
                    *(Resource(uri=uri, name="x") for uri in ("skill://pdf/../x", "skill://pdf", "skill://pdf/%2e%2e")),
                ]
            )
        raise ResourceNotFound(uri)


def listed(uri: str, data: str | bytes) -> SkillResource:
    data = data.encode() if isinstance(data, str) else data
    return SkillResource(uri, f"sha256:{hashlib.sha256(data).hexdigest()}", len(data))


SKILL_FILE = f"{HEAD}Text\n"
FRONTMATTER = {"name": "pdf", "description": "Reads forms.", "metadata": {"version": 1, "tags": ["a", "b"]}}


@asynccontextmanager
async def lied_to(
    resources: Any, files: Mapping[str, Any] | None = None, uri: str = URI, frontmatter: Any = None
) -> AsyncIterator[tuple[Peer, SkillSnapshot]]:
    app = Server("forms")
    app.skills()
    entry = SkillEntry(uri, FRONTMATTER if frontmatter is None else frontmatter, resources)
    app.add_provider(Lying(entry, {URI: SKILL_FILE} if files is None else files))
    async with connected(app) as peer:
        [skill] = [skill async for skill in list_skills(peer)]
        peer.asked.clear()
        yield peer, skill


GOOD = listed(URI, SKILL_FILE)


@pytest.mark.parametrize(
    ("resources", "problem"),
    [
        ([], "does not list its SKILL.md"),
        ([listed("skill://pdf/x", "")], "does not list its SKILL.md"),
        ([listed("skill://pdf/%53KILL.md", SKILL_FILE)], "does not list its SKILL.md"),
        ([GOOD, GOOD], "SKILL.md twice"),
        ([GOOD, listed("skill://pdf/x", ""), listed("skill://pdf/%78", "")], "x twice"),
        *(
            ([GOOD, listed(uri, "")], "not a file in its directory")
            for uri in (
                *("skill://other/x", "file:///etc/passwd", "skill://pdf", "skill://pdf/", "skill://pdfs/x"),
                *(
                    "skill://pdf/../x",
                    "skill://pdf/%2e%2e/x",
                    "skill://pdf/a//b",
                    "skill://pdf/a%2f..%2fb",
                    "skill://pdf/.",
                ),
                *(
                    "skill://pdf/a%5c..%5cb",
                    "skill://pdf/a%00",
                    "skill://pdf/a?b",
                    "skill://pdf/a#b",
                    "skill://pdf/%zz",
                ),
                *("skill://pdf/a%0ab", "skill://pdf/a b"),
            )
        ),
        *(
            ([SkillResource(URI, digest, GOOD.size)], "size or the digest")
            for digest in (
                "",
                "sha256:",
                GOOD.digest[7:],
                GOOD.digest.upper(),
                GOOD.digest + "0",
                "sha1:" + "0" * 40,
                "0" * 71,
            )
        ),
        ([SkillResource(URI, GOOD.digest, -1)], "size or the digest"),
        ([GOOD, *(listed(f"skill://pdf/{number}", "") for number in range(MAX_FILES))], "513 files"),
        ([GOOD, SkillResource("skill://pdf/x", GOOD.digest, MAX_BYTES)], "limits"),
    ],
)
async def test_an_entry_that_is_wrong_is_no_skill_and_nothing_of_it_is_read(resources: Any, problem: str):
    async with lied_to(resources) as (peer, skill):
        assert skill.problem is not None
        assert problem in skill.problem
        with pytest.raises(ResourceMismatch) as caught:
            await skill.instructions()
        assert caught.value.difference == "entry"
        with pytest.raises((ResourceMismatch, ResourceForbidden)):
            await skill.read("x")
        assert peer.asked == []


@pytest.mark.parametrize(
    ("uri", "frontmatter"),
    [
        ("skill://other/SKILL.md", FRONTMATTER),
        ("skill://pdf/skill.md", FRONTMATTER),
        ("skill:///SKILL.md", FRONTMATTER),
        ("skill://pdf/SKILL.md?x", FRONTMATTER),
        ("skill://x/../pdf/SKILL.md/", FRONTMATTER),
        (URI, {}),
        (URI, {"name": "pdf"}),
        (URI, {"name": "pdf", "description": 5}),
        (URI, {"name": ["pdf"], "description": "x"}),
    ],
)
async def test_a_skill_is_called_as_its_directory_and_described(uri: str, frontmatter: Any):
    async with lied_to("dynamic", uri=uri, frontmatter=frontmatter) as (peer, skill):
        assert skill.problem
        with pytest.raises(ResourceMismatch):
            await skill.instructions()
        assert peer.asked == []


@pytest.mark.slow
async def test_a_skill_as_large_as_may_be_is_read():
    data = "x" * (MAX_BYTES - GOOD.size)
    uris = [f"skill://pdf/{number}" for number in range(MAX_FILES - 2)]
    resources = [GOOD, listed("skill://pdf/large", data), *(listed(uri, "") for uri in uris)]
    async with lied_to(resources, {URI: SKILL_FILE, "skill://pdf/large": data}) as (_, skill):
        assert skill.problem is None
        contents = await skill.read("large")
        assert isinstance(contents, TextResourceContents)
        assert contents.text == data


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"description": "Reads faxes."}, "description"),
        ({"license": "MIT"}, "license"),
        ({"metadata": {"version": 1, "tags": ["b", "a"]}}, "metadata"),
        ({"metadata": {"version": True, "tags": ["a", "b"]}}, "metadata"),
        ({"metadata": {"version": "1.0", "tags": ["a", "b"]}}, "metadata"),
        ({"metadata": {"version": 1, "tags": ["a", "b"], "more": None}}, "metadata"),
    ],
)
async def test_frontmatter_that_differs_from_what_was_listed_is_named(changed: Any, name: str):
    """The digest matches: it is the entry that tells the user another story than the file tells the model."""
    for resources in ([GOOD], "dynamic"):
        async with lied_to(resources, frontmatter=FRONTMATTER | changed) as (peer, skill):
            with pytest.raises(ResourceMismatch, match=f"differs from the list in {name}") as caught:
                await skill.instructions()
            assert caught.value.difference == "frontmatter"
            with pytest.raises(ResourceMismatch):
                await skill.read("SKILL.md")
            assert set(peer.read) == {URI}


@pytest.mark.parametrize(
    "data", ["no frontmatter", "---\nname: pdf\n", "---\n- a\n---\n", HEAD.encode() + b"\xff", "---\na: [\n---\n"]
)
async def test_a_skill_file_without_proper_frontmatter_is_not_given_out(data: str | bytes):
    for resources in ([listed(URI, data)], "dynamic"):
        async with lied_to(resources, {URI: data}) as (_, skill):
            with pytest.raises(ResourceMismatch) as caught:
                await skill.instructions()
            assert caught.value.difference == "frontmatter"


async def test_a_skill_file_that_comes_as_bytes_is_text_all_the_same():
    async with lied_to([GOOD], {URI: SKILL_FILE.encode()}) as (_, skill):
        assert await skill.instructions() == SKILL_FILE
        assert isinstance(await skill.read("SKILL.md"), TextResourceContents)


@pytest.mark.parametrize("answer", [[], [SKILL_FILE, SKILL_FILE]])
async def test_an_answer_that_is_not_one_file_is_none(answer: list[str]):
    async with lied_to([GOOD], {URI: answer}) as (_, skill):
        with pytest.raises(ResourceMismatch) as caught:
            await skill.instructions()
        assert caught.value.difference == "contents"


async def test_an_answer_about_another_skill_is_refused():
    async with lied_to([GOOD]) as (peer, _):
        with pytest.raises(ResourceMismatch):
            await get_skill(peer, "skill://other/SKILL.md")


# Dynamic skills


async def test_a_dynamic_skill_is_read_without_digests_and_cannot_be_approved_for_good():
    files = {URI: SKILL_FILE, "skill://pdf/made/now%20and%20then": "1"}
    async with lied_to("dynamic", files) as (peer, skill):
        assert (skill.dynamic, skill.files, skill.fingerprint, skill.problem) == (True, None, None, None)
        assert await skill.instructions() == SKILL_FILE
        assert (await skill.read("made/now and then")).text == "1"  # type: ignore[union-attr]
        files["skill://pdf/made/now%20and%20then"] = "2"
        assert (await skill.read("./made/now and then")).text == "2"  # type: ignore[union-attr]
        for path in ("../x", "skill://other/x", "/x"):
            with pytest.raises(ResourceForbidden):
                await skill.read(path)
        with pytest.raises(ResourceNotFound):
            await skill.read("%2e%2e/x")
        assert all(uri.startswith("skill://pdf/") for uri in peer.read)


async def test_a_dynamic_skill_may_not_be_larger_than_others():
    files = {URI: SKILL_FILE, "skill://pdf/a": "x" * (MAX_BYTES - 1000), "skill://pdf/b": "x" * 1000}
    async with lied_to("dynamic", files) as (_, skill):
        for _ in range(3):
            await skill.read("a")
        with pytest.raises(ResourceTooLarge):
            await skill.read("b")


# Directories


async def test_a_directory_is_what_was_listed_of_it(peer: Peer, folder: Path):
    skill = await get_skill(peer, URI)
    (folder / "pdf/new.md").write_text("new")
    peer.asked.clear()
    for path in ("", ".", "./"):
        names = {resource.name: resource for resource in await skill.directory(path)}
        assert set(names) == {"SKILL.md", "assets", "inner", "references", "with space & more.txt"}
    assert names["references"].mime_type == "inode/directory"
    assert names["references"].uri == "skill://pdf/references"
    assert (names["with space & more.txt"].size, names["SKILL.md"].uri) == (1, URI)
    assert [resource.name for resource in await skill.directory("references/")] == ["FORMS.md", "deep"]
    assert peer.asked == []
    for path in ("nothing", "SKILL.md", "ref"):
        with pytest.raises(ResourceNotFound):
            await skill.directory(path)
    for path in ("..", "/", "references/../..", "a//b"):
        with pytest.raises(ResourceForbidden):
            await skill.directory(path)


async def test_of_a_dynamic_skill_the_server_says_what_is_in_a_directory():
    async with lied_to("dynamic") as (peer, skill):
        found = await skill.directory()
        assert [resource.uri for resource in found] == ["skill://pdf/SKILL.md", "skill://pdf/made"]
        with pytest.raises(ResourceNotFound):
            await skill.directory("made/up")
        assert peer.asked == [("read_directory", "skill://pdf"), ("read_directory", "skill://pdf/made/up")]


async def test_directories_of_servers_that_do_not_say_so_are_not_asked_for():
    async with lied_to("dynamic") as (peer, skill):

        async def declared() -> Mapping[str, Any]:
            return {SKILLS.name: {}}

        peer.declared = declared  # type: ignore[method-assign]
        with pytest.raises(MethodNotFound, match="does not support reading directories"):
            await skill.directory()
        assert peer.asked == []


async def test_any_directory_of_a_server_can_be_listed(peer: Peer):
    found = [resource.name async for resource in list_directory(peer, "skill://pdf/references")]
    assert sorted(found) == ["FORMS.md", "deep"]
    with pytest.raises(PeerError) as caught:
        await anext(aiter(list_directory(peer, "skill://pdf/SKILL.md")))
    assert caught.value.code in (INVALID_PARAMS, METHOD_NOT_FOUND)


# Details


@given(st.lists(st.sampled_from(["a", "b.md", ".", "..", "", "%2e%2e", "..\\", "\0", "ä"]), max_size=6))
def test_no_path_leads_out(segments: list[str]):
    found = resolve("/".join(segments))
    assert not {"", ".", ".."} & set(found)
    assert all("/" not in segment and "\\" not in segment for segment in found)
    depth = 0
    for segment in segments:
        depth += {"..": -1, ".": 0}.get(segment, 1)
        if depth < 0:
            assert found == ()
            break


@given(st.text(max_size=30))
def test_no_uri_leads_out(rest: str):
    found = path_of(f"skill://pdf/{rest}", "skill://pdf")
    assert not {"", ".", ".."} & set(found)
    assert all("/" not in segment and "\\" not in segment for segment in found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON, JSON)
def test_values_are_the_same_as_in_json(one: Any, other: Any):
    assert is_equal(one, msgspec.json.decode(msgspec.json.encode(one)))
    if is_equal(one, other):
        assert one == other
    assert not is_equal([True], [1])
    assert not is_equal({"a": 0}, {"a": False})
    assert is_equal([1], [1.0])


@pytest.mark.slow
def test_the_client_says_what_is_missing_to_read_frontmatter(tmp_path: Path):
    (tmp_path / "yaml.py").write_text("raise ImportError('no yaml')")
    script = (
        "import asyncio, sys\n"
        "from carrel.client.skills import SkillSnapshot\n"
        "from carrel.errors import ConfigError\n"
        "from carrel.wire.skills import Skill as Entry\n"
        "skill = SkillSnapshot(None, Entry('skill://pdf/SKILL.md', {'name': 'pdf', 'description': 'x'}, 'dynamic'))\n"
        "try: asyncio.run(skill.instructions())\n"
        "except ConfigError as error: print(error)\n"
    )
    environment = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout.strip() == "Skills need the package PyYAML: pip install 'carrel[client]'", done.stderr


def test_everything_on_a_skill_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "client-skills.md").read_text()
    rows = re.findall(r"^\| (`.*`) \| ", page.partition("| on a skill |")[2].partition("## ")[0], re.MULTILINE)
    documented = set(re.findall(r"(?:await )?(\w+)(?:\(\w*\))?", " ".join(rows))) - {"path"}
    skill = SkillSnapshot(None, SkillEntry(URI, FRONTMATTER, [GOOD]))  # type: ignore[arg-type]
    offered = {name for name in dir(skill) if not name.startswith("_")} - {"uri", "dynamic"}
    assert documented - {"await"} == offered
    assert "| `dynamic` |" not in page
    assert "`dynamic`" in page
