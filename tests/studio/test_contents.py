"""Contents on the page: windows, kinds, versions and their differences, links, and changes as they happen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from carrel import Server
from carrel.studio.differences import hunks_between
from carrel.studio.kinds import kind_of, language_of, type_of
from carrel.studio.versions import Version, Versions
from carrel.wire.resources import ReadResourceResult, TextResourceContents
from support.studio_page import Page, app_server, folder_server, opened

pytestmark = pytest.mark.slow

PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    (tmp_path / "lines.md").write_text("".join(f"line {number}\n" for number in range(1, 1001)))
    (tmp_path / "large.log").write_text("".join(f"entry {number:07}\n" for number in range(200_000)))
    (tmp_path / "picture.png").write_bytes(PNG)
    (tmp_path / "data.bin").write_bytes(bytes(range(256)))
    (tmp_path / "page.html").write_text("<script>alert(1)</script>")
    (tmp_path / "code.py").write_text("x = 1\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/inner.txt").write_text("inner")
    async with opened(folder_server(tmp_path, "notes")) as page:
        await page.ready("notes")
        yield page


async def shown(page: Page, file: Path, **params: int) -> dict:
    return await page.get("/contents", server="notes", uri=file.as_uri(), **params)


async def test_texts_are_shown_in_windows_of_lines(page: Page, tmp_path: Path) -> None:
    text = await shown(page, tmp_path / "lines.md", first=11, lines=2)
    assert text["text"] == "line 11\nline 12"
    assert (text["kind"], text["lines"], text["first"], text["title"]) == ("markdown", 1000, 11, "lines.md")
    assert text["changed"] is False
    assert (await shown(page, tmp_path / "lines.md", first=2000))["text"] == ""


async def test_a_large_text_is_read_in_windows_that_the_source_has(page: Page, tmp_path: Path) -> None:
    text = await shown(page, tmp_path / "large.log", first=150_001, lines=2)
    assert text["text"].splitlines() == ["entry 0150000", "entry 0150001"]
    assert text["size"] == (tmp_path / "large.log").stat().st_size
    assert page.studio.contents.versions.get("notes", (tmp_path / "large.log").as_uri()) is None


async def test_contents_have_a_kind(page: Page, tmp_path: Path) -> None:
    assert (await shown(page, tmp_path / "picture.png"))["kind"] == "image"
    code = await shown(page, tmp_path / "code.py")
    assert (code["kind"], code["language"]) == ("code", "python")
    html = await shown(page, tmp_path / "page.html")
    assert (html["kind"], html["text"]) == ("html", "<script>alert(1)</script>")
    binary = await shown(page, tmp_path / "data.bin", first=2, lines=1)
    assert (binary["kind"], binary["hex"], binary["lines"]) == ("binary", bytes(range(16, 32)).hex(), 16)
    folder = await shown(page, tmp_path / "folder")
    assert folder["kind"] == "folder"
    assert [row["name"] for row in folder["reads"]] == ["inner.txt"]


async def test_media_and_pages_are_sent_from_the_content_origin(page: Page, tmp_path: Path) -> None:
    for name, kind, shown_as in (("picture.png", "image/png", "inline"), ("page.html", "text/html", "inline")):
        url = (await page.post_and_wait("/links", {"server": "notes", "uri": (tmp_path / name).as_uri()}))["url"]
        async with page.session.get(url) as response:
            assert response.content_type == kind
            assert response.headers["Content-Disposition"].startswith(shown_as)
            assert await response.read() == (tmp_path / name).read_bytes()


async def test_sound_is_sent_in_ranges_again_and_again(page: Page, tmp_path: Path) -> None:
    sound = bytes(range(200))
    (tmp_path / "bell.wav").write_bytes(sound)
    url = (await page.post_and_wait("/links", {"server": "notes", "uri": (tmp_path / "bell.wav").as_uri()}))["url"]
    for wanted, status, part in [
        (None, 200, sound),
        ("bytes=0-", 206, sound),
        ("bytes=10-19", 206, sound[10:20]),
        ("bytes=190-500", 206, sound[190:]),
        ("bytes=-5", 206, sound[-5:]),
        ("bytes=500-", 200, sound),
        ("bytes=-0", 200, sound),
        ("bytes=-", 200, sound),
        ("lines=1-2", 200, sound),
    ]:
        async with page.session.get(url, headers={} if wanted is None else {"Range": wanted}) as response:
            assert (response.status, await response.read()) == (status, part)
            assert response.headers["Accept-Ranges"] == "bytes"
            start = sound.index(part)
            expected = f"bytes {start}-{start + len(part) - 1}/200" if status == 206 else None
            assert response.headers.get("Content-Range") == expected


async def test_a_change_on_disk_is_reported_with_the_difference(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "lines.md"
    await page.listen()
    before = await shown(page, file)
    status, problem = await page.ask("GET", "/changes", server="notes", uri=file.as_uri())
    assert (status, problem["detail"]) == (404, "No other version of this text is known")
    await page.post("/interest", {"keys": [{"server": "notes", "uri": file.as_uri()}]})
    file.write_text(file.read_text().replace("line 500\n", "line five hundred\nand more\n"))
    event = await page.event(lambda event: event["type"] == "resource")
    assert event["key"] == {"server": "notes", "uri": file.as_uri()}
    after = await shown(page, file)
    assert after["version"] == event["version"] != before["version"]
    assert after["changed"] is True
    changes = await page.get("/changes", server="notes", uri=file.as_uri())
    assert (changes["from"], changes["to"]) == (before["version"], after["version"])
    (hunk,) = changes["hunks"]
    assert hunk["first"] == [497, 497]
    assert [
        (line["kind"], line["text"], line["old"], line["new"]) for line in hunk["lines"] if line["kind"] != " "
    ] == [
        ("-", "line 500", 500, None),
        ("+", "line five hundred", None, 500),
        ("+", "and more", None, 501),
    ]


async def test_new_and_removed_files_change_the_list(page: Page, tmp_path: Path) -> None:
    await page.listen()
    assert (await page.get("/items", q="new.md"))["total"] == 0
    (tmp_path / "new.md").write_text("new")
    event = await page.event(lambda event: event["type"] == "list" and event["kind"] == "resource")
    assert event["server"] == "notes"
    assert (await page.get("/items", q="new.md"))["total"] == 1


async def test_resources_of_servers_without_subscriptions_are_read_again_later() -> None:
    app = Server("counter", subscribe=False)
    count = 0

    @app.resource("count://now")
    def now() -> str:
        nonlocal count
        count += 1
        return str(count)

    async with opened(app_server(app)) as page:
        await page.ready("counter")
        first = await page.get("/contents", server="counter", uri="count://now")
        await page.post("/interest", {"keys": [{"server": "counter", "uri": "count://now"}]})
        assert ("counter", "count://now") not in page.studio.live.watched
        page.studio.contents.versions.get("counter", "count://now").time -= 10
        second = await page.get("/contents", server="counter", uri="count://now")
        assert int(second["text"]) > int(first["text"])


def lines(count: int) -> list[str]:
    return [f"line {number}" for number in range(count)]


def test_differences_of_long_texts_are_bounded() -> None:
    assert hunks_between(lines(10), lines(10)) == ((), True)
    old, new = lines(100_000), lines(100_000)
    new[50_000] = "changed"
    (hunk,), complete = hunks_between(old, new)
    assert complete
    assert [change.kind for change in hunk.lines] == [" "] * 3 + ["-", "+"] + [" "] * 3
    assert hunk.first == (49_998, 49_998)
    (hunk,), complete = hunks_between(lines(100_000), [line + "!" for line in lines(100_000)])
    assert not complete
    assert len(hunk.lines) == 1000


def test_hunks_number_the_lines_of_both_texts() -> None:
    hunks, _ = hunks_between(list("abcdefghijklmnop"), list("abXcdefghijklmnYop"))
    assert [hunk.first for hunk in hunks] == [(1, 1), (12, 13)]
    for hunk in hunks:
        for change in hunk.lines:
            assert change.old is None or "abcdefghijklmnop"[change.old - 1] == change.text
            assert change.new is None or "abXcdefghijklmnYop"[change.new - 1] == change.text
    (hunk,), _ = hunks_between([], ["a"])
    assert (hunk.first, hunk.lines[0].kind) == ((1, 1), "+")


def version(text: str) -> Version:
    return Version(ReadResourceResult(contents=[TextResourceContents("a://b", text)]))


def test_versions_keep_the_one_before_within_their_limit() -> None:
    versions = Versions(limit=100)
    versions.put("s", "a", version("1" * 30), 0.0)
    assert versions.put("s", "a", version("1" * 30), 1.0).previous is None
    kept = versions.put("s", "a", version("2" * 30), 2.0)
    assert kept.previous is not None
    assert kept.previous.text == "1" * 30
    assert versions.put("s", "a", version("2" * 30), 3.0).previous is kept.previous
    versions.put("s", "b", version("3" * 30), 4.0)
    assert versions.get("s", "a") is not None
    versions.put("s", "c", version("4" * 30), 5.0)
    assert versions.get("s", "b") is None or versions.get("s", "a") is None


@pytest.mark.parametrize(
    ("mime_type", "has_text", "kind", "language"),
    [
        ("text/markdown; charset=utf-8", True, "markdown", None),
        ("application/geo+json", True, "json", None),
        ("text/x-rust", True, "code", "rust"),
        ("text/javascript", True, "code", "javascript"),
        ("application/yaml", True, "code", "yaml"),
        ("text/csv", True, "csv", None),
        ("text/x-log", True, "code", "log"),
        ("image/svg+xml", True, "svg", None),
        ("image/png", False, "image", None),
        ("application/zip", False, "binary", None),
        ("text/plain", False, "binary", None),
        ("application/unknown", True, "text", None),
        ("inode/directory", True, "folder", None),
    ],
)
def test_kinds_and_languages_follow_from_the_type(
    mime_type: str, has_text: bool, kind: str, language: str | None
) -> None:
    assert kind_of(mime_type, has_text=has_text) == kind
    assert language_of(mime_type) == language


def test_a_text_whose_name_says_so_is_a_log() -> None:
    assert type_of("text/plain; charset=utf-8", "file:///var/App.LOG?lines=1-9") == "text/x-log"
    assert type_of("text/plain", "file:///var/log") == "text/plain"
    assert type_of("text/markdown", "file:///var/a.log") == "text/markdown"
