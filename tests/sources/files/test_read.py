"""Reading files and directories: text or bytes, types, sizes."""

import asyncio
import gzip
import json
import os
import re
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from carrel.catalog.provider import Interest, Request
from carrel.errors import ConfigError, InvalidParams, MCPError, ResourceNotFound, ResourceTooLarge
from carrel.sources.files.options import FilesOptions
from carrel.sources.files.source import FilesSource
from carrel.testing import Caller, running
from carrel.testing.caller import Reports
from carrel.wire.resources import BlobResourceContents, TextResourceContents

Share = Callable[..., Awaitable[FilesSource]]
Put = Callable[..., Path]

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


@pytest.mark.parametrize(
    ("name", "data", "mime_type", "is_text"),
    [
        ("README.md", "# Title\n", "text/markdown", True),
        ("main.rs", "fn main() {}\n", "text/x-rust", True),
        ("app.py", "print()\n", "text/x-python", True),
        ("DATA.JSON", "{}", "application/json", True),
        ("drawing.svg", "<svg/>", "image/svg+xml", True),
        ("Makefile", "all:\n", "text/x-makefile", True),
        ("CMakeLists.txt", "project(x)\n", "text/x-cmake", True),
        ("LICENSE", "MIT\n", "text/plain", True),
        ("notes", "no suffix\n", "text/plain", True),
        (".env", "A=1\n", "text/plain", True),
        ("empty", "", "text/plain", True),
        ("empty.json", "", "application/json", True),
        ("picture.png", PNG, "image/png", False),
        ("sound.wav", b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav", False),
        ("picture", PNG, "image/png", False),
        ("archive", gzip.compress(b"x" * 100, mtime=0), "application/gzip", False),
        ("packed.dat", b"PK\x03\x04" + bytes(40), "application/zip", False),
        ("unknown.xyz", bytes(range(256)), "application/octet-stream", False),
        ("movie.ts", b"\x47\x40\0\x10\0" * 100, "application/octet-stream", False),  # the suffix of TypeScript too
        ("wrong.png", "this is text\n", "text/plain", True),
        ("wrong.txt", PNG, "image/png", False),
    ],
)
async def test_the_type_is_that_of_the_name_unless_the_content_says_otherwise(
    name: str, data: str | bytes, mime_type: str, is_text: bool, put: Put, share: Share
) -> None:
    put(name, data)
    source = await share(hidden=True)
    [contents] = await Caller(source).read_resource(f"{source.uri}/{name}")
    assert contents.mime_type == mime_type
    if is_text:
        assert isinstance(contents, TextResourceContents)
        assert contents.text == data
    else:
        assert isinstance(contents, BlobResourceContents)
        assert contents.blob == data


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "gb18030"])
async def test_text_of_any_encoding_becomes_text(encoding: str, put: Put, share: Share) -> None:
    text = "糖尿病 (diabetes) 是一种慢性病。\r\n第二行 line two\r\n" * 3
    put("糖尿病.txt", text.encode(encoding))
    source = await share()
    [contents] = await Caller(source).read_resource((await Caller(source).resources())[1].uri)
    assert contents.text == text
    if encoding == "gb18030":
        assert contents.meta == {"carrel/encoding": "gb18030"}


@pytest.mark.parametrize("encoding", ["cp932", "euc_jp", "iso2022_jp", "koi8_r"])
@pytest.mark.parametrize("before", [0, 40_000, 200_000], ids=["first", "later", "far"])
async def test_all_windows_of_a_file_have_its_encoding(encoding: str, before: int, put: Put, share: Share) -> None:
    line = "Библиотека открывается в девять.\n" if encoding == "koi8_r" else "図書館は午前九時に開きます。\n"
    text = "plain ASCII\n" * (before // 12) + line * 1000
    data = text.encode(encoding)
    put("a.txt", data)
    source = await share()
    caller, uri = Caller(source), f"{source.uri}/a.txt"
    [whole] = await caller.read_resource(uri)
    assert whole.text == text
    parts = []
    for begin in range(len(data) - 20_001, len(data), 997):
        [part] = await caller.read_resource(f"{uri}?bytes={begin}-{begin + 996}")
        parts.append(part.text)
    assert text.endswith("".join(parts))
    assert len("".join(parts)) > 8000
    for query in ("tail=2", f"lines={text.count(chr(10)) - 1}-"):
        [part] = await caller.read_resource(f"{uri}?{query}")
        assert part.text == line * 2
        assert part.meta["carrel/encoding"] == whole.meta["carrel/encoding"]


async def test_a_directory_reads_as_a_json_array_of_its_entries_one_in_each_line(put: Put, share: Share) -> None:
    for path in ("docs/糖尿病.txt", "docs/a b.md", "docs/deep/x.txt", "docs/.hidden"):
        put(path, "12345")
    source = await share()
    for uri in (f"{source.uri}/docs", f"{source.uri}/docs/"):
        [contents] = await Caller(source).read_resource(uri)
        assert contents.uri == uri
        assert contents.mime_type == "inode/directory"
        entries = json.loads(contents.text)
        assert [entry["name"] for entry in entries] == ["deep", "a b.md", "糖尿病.txt"]
        assert entries[0]["mimeType"] == "inode/directory"
        assert entries[1]["uri"] == f"{source.uri}/docs/a%20b.md"
        assert entries[1]["size"] == 5
        assert contents.text.splitlines()[3] == json.dumps(entries[2], ensure_ascii=False, separators=(",", ":"))
    [root] = await Caller(source).read_resource(source.uri)
    assert [entry["name"] for entry in json.loads(root.text)] == ["docs"]


async def test_an_empty_directory_reads_as_an_empty_array(folder: Path, share: Share) -> None:
    (folder / "empty").mkdir()
    source = await share()
    assert json.loads((await Caller(source).read_resource(f"{source.uri}/empty"))[0].text) == []
    assert (await Caller(source).list_directory(f"{source.uri}/empty", None, 5)).items == []


async def test_a_directory_with_very_many_entries_is_read_in_windows(put: Put, share: Share) -> None:
    for number in range(1500):
        put(f"many/{number:04}.txt")
    source = await share(max_size=50_000)
    uri = f"{source.uri}/many"
    with pytest.raises(ResourceTooLarge, match="50,000") as raised:
        await Caller(source).read_resource(uri)
    [window] = [word for word in raised.value.message.split() if word.startswith(uri)]
    [some] = await Caller(source).read_resource(window)
    assert 20_000 < len(some.text.encode()) <= 50_000
    assert "0000.txt" in some.text
    [end] = await Caller(source).read_resource(f"{uri}?tail=3")
    assert [name for name in ("1497", "1498", "1499") if f"{name}.txt" in end.text] == ["1498", "1499"]
    with pytest.raises(InvalidParams, match="directory"):
        await Caller(source).read_resource(f"{uri}?bytes=0-10")
    page = await Caller(source).list_directory(uri, None, 1000)
    assert len(page.items) == 1000
    assert len((await Caller(source).list_directory(uri, page.next_cursor, 1000)).items) == 500


async def test_a_file_has_no_children(put: Put, share: Share) -> None:
    put("a.txt")
    source = await share()
    with pytest.raises(ResourceNotFound):
        await Caller(source).list_directory(f"{source.uri}/a.txt", None, 10)


async def test_a_file_that_is_removed_or_replaced_is_read_as_it_is_now(put: Put, share: Share) -> None:
    path = put("a.txt", "one")
    source = await share()
    uri = f"{source.uri}/a.txt"
    assert (await Caller(source).read_resource(uri))[0].text == "one"
    put("b.txt", "two").rename(path)
    assert (await Caller(source).read_resource(uri))[0].text == "two"
    path.unlink()
    with pytest.raises(ResourceNotFound):
        await Caller(source).read_resource(uri)
    path.mkdir()
    assert (await Caller(source).read_resource(uri))[0].mime_type == "inode/directory"


async def test_a_file_that_grows_past_the_limit_while_it_is_read_is_refused_or_read_within_it(
    put: Put, share: Share
) -> None:
    path = put("growing.log", "line\n" * 1000)
    source = await share(max_size=20_000)
    uri = f"{source.uri}/growing.log"
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            with open(path, "a") as file:
                file.write("line\n" * 10)
            if os.path.getsize(path) > 40_000:
                os.truncate(path, 5_000)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(300):
            try:
                [contents] = await Caller(source).read_resource(uri)
            except ResourceTooLarge:
                continue
            assert len(contents.text) <= 20_000
            assert set(contents.text.splitlines()[:-1]) <= {"line"}
    finally:
        stop.set()
        writer.join()


async def test_a_file_of_the_system_that_claims_to_be_empty_is_read_to_its_end(share: Share) -> None:
    source = await share(Path("/proc/self/status"))
    [contents] = await Caller(source).read_resource(source.uri)
    assert "Threads:" in contents.text


async def test_the_root_may_be_a_link_or_relative(
    folder: Path, put: Put, share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a.txt", "linked")
    link = folder.parent / "link"
    link.symlink_to(folder)
    source = await share(link)
    assert source.uri.endswith("/link")
    assert (await Caller(source).read_resource(f"{source.uri}/a.txt"))[0].text == "linked"
    monkeypatch.chdir(folder.parent)
    source = await share(Path("./root"))
    assert source.path == str(folder)
    monkeypatch.chdir("/")
    assert (await Caller(source).read_resource(f"{source.uri}/a.txt"))[0].text == "linked"


async def test_the_root_may_have_any_name(tmp_path: Path, share: Share) -> None:
    root = tmp_path / "my {notes} 100% #1 笔记"
    root.mkdir()
    (root / "a.txt").write_text("x")
    source = await share(root)
    assert source.title == root.name
    assert (await Caller(source).read_resource((await Caller(source).resources())[1].uri))[0].text == "x"
    assert "{" not in (await Caller(source).templates())[0].uri_template.removesuffix("{+path}")


async def test_a_folder_that_goes_away_has_nothing_to_list_until_it_is_back(
    folder: Path, put: Put, share: Share
) -> None:
    put("a.txt")
    source = await share()
    folder.rename(folder.with_name("away"))
    assert await Caller(source).resources() == []
    for uri in (source.uri, f"{source.uri}/a.txt"):
        with pytest.raises(ResourceNotFound):
            await Caller(source).read_resource(uri)
    assert len(await Caller(source).search("a", 5)) == 0
    assert not (await Caller(source).complete(f"{source.uri}/{{+path}}", "path", "")).values
    folder.with_name("away").rename(folder)
    assert len(await Caller(source).resources()) == 2


@pytest.mark.parametrize("kind", ["missing", "pipe", "below a file"])
async def test_paths_that_cannot_be_shared_are_refused_at_the_start_in_one_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "below a file":
        path.touch()
        path = path / "y"
    with pytest.raises(ConfigError, match="x") as raised:
        await FilesSource(path).start(Reports())
    assert "\n" not in str(raised.value)


async def test_a_limit_below_one_byte_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="max_size"):
        FilesSource(folder, FilesOptions(max_size=0))


async def test_a_source_that_was_not_started_or_was_stopped_says_so(folder: Path) -> None:
    source = FilesSource(folder)
    with pytest.raises(ConfigError, match="started"):
        await Caller(source).list_resources(None, 5)
    async with running(source):
        pass
    with pytest.raises(ConfigError, match="stopped"):
        await Caller(source).read_resource(source.uri)
    with pytest.raises(ConfigError, match="stopped"):
        await anext(source.watch(Interest()))


async def test_a_small_read_goes_to_one_other_thread_once_and_looks_at_each_name_once(put: Put, share: Share) -> None:
    put(".gitignore", "*.log\n")
    put("a/b/c.txt", "hello")
    source = await share()
    uri = f"{source.uri}/a/b/c.txt"
    await Caller(source).read_resource(uri)
    here: list[str] = []
    there: list[str] = []

    def note(calls: list[str]) -> Callable[..., None]:
        return lambda frame, event, function: calls.append(function.__name__) if event == "c_call" else None

    sys.setprofile(note(there))
    try:
        source._reader.read_resource(uri)
    finally:
        sys.setprofile(None)
    sys.setprofile(note(here))
    try:
        await Caller(source).read_resource(uri)
    finally:
        sys.setprofile(None)
    assert "start_new_thread" not in here
    assert here.count("release") == 1  # a thread that waits is woken
    assert "stat" not in here
    assert "open" not in here
    # The root, three names, and in each of three directories the .gitignore there may be.
    assert there.count("stat") <= 7
    assert there.count("open") == 4
    assert there.count("read") == 1


async def test_reading_leaves_the_event_loop_free(put: Put, share: Share, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(partial(sys.setswitchinterval, sys.getswitchinterval()))
    sys.setswitchinterval(0.0002)  # threads take turns often, also on a fast machine
    put("large.txt", "糖尿病\n" * 900_000)
    source = await share()
    turns = 0

    async def slot() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.ensure_future(slot())
    most = 0
    for _ in range(5):  # on a busy machine, the loop may get no time during one of them
        turns = 0
        await Caller(source).read_resource(f"{source.uri}/large.txt")
        most = max(most, turns)
    turning.cancel()
    assert most > 3


async def test_several_files_are_read_together_as_one_by_one(put: Put, share: Share) -> None:
    put("notes.md", "# Tea\n")
    put("deep/er/plain-1_a~.txt", "text")
    put("wörd .txt", "café".encode("latin-1"))
    put("page.html", "<p>Tea</p>")
    put("data.bin", b"\0\1")
    put("a.log", "text")
    source = await share(exclude=("*.log",))
    names = ["notes.md", "deep/er/plain-1_a~.txt", "w%C3%B6rd%20.txt", "page.html", "data.bin", "deep/er"]
    wrong = ["gone.txt", "notes.md/more", "deep/../notes.md", "deep//er", "deep/./er", "deep/er/x\\y", "a.log"]
    uris = [*(f"{source.uri}/{name}" for name in [*names, *wrong]), "file:///elsewhere"]
    together = await source.read_searchable(uris, Request())
    assert [isinstance(found, MCPError) for found in together] == [False] * len(names) + [True] * (len(wrong) + 1)
    for uri, found in zip(uris, together, strict=True):
        if isinstance(found, MCPError):
            with pytest.raises(type(found), match=re.escape(str(found))):
                await source.read_resource(uri, Request())
        else:
            assert found == await source.read_resource(uri, Request())


async def test_files_read_together_are_no_more_than_what_is_shared(put: Put, folder: Path, share: Share) -> None:
    put("a/.gitignore", "secret*\n")
    put("a/secret.txt", "no")
    put("a/one.txt", "one")
    put("b/two.txt", "two")
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "three.txt").write_text("no")
    (folder / "a" / "out.txt").symlink_to(outside / "three.txt")
    (folder / "a" / "in.txt").symlink_to("../b/two.txt")
    (folder / "a" / "hidden.txt").symlink_to("secret.txt")
    (folder / "linked").symlink_to("b")
    (folder / "away").symlink_to(outside)
    source = await share()
    names = ["a/one.txt", "a/secret.txt", "a/out.txt", "a/in.txt", "a/hidden.txt", "linked/two.txt", "away/three.txt"]
    found = await source.read_searchable([f"{source.uri}/{name}" for name in names], Request())
    texts = [each.contents[0].text if not isinstance(each, MCPError) else type(each).__name__ for each in found]
    forbidden = "ResourceForbidden"
    assert texts == ["one", forbidden, forbidden, "two", forbidden, "two", forbidden]
    seen = Request(visible=lambda uri: "/a" not in uri.removeprefix(source.uri))
    found = await source.read_searchable([f"{source.uri}/a/one.txt", f"{source.uri}/b/two.txt"], seen)
    assert [isinstance(each, MCPError) for each in found] == [True, False]
