"""Hostile ZIP archives: names that lead out, bombs, encryption, damage; and archives that are replaced."""

from __future__ import annotations

import io
import os
import stat
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from carrel import sources
from carrel.errors import ConfigError, InvalidParams, MCPError, ResourceError, ResourceNotFound, ResourceTooLarge
from carrel.sources.stores import zip_archive
from carrel.testing import running
from carrel.testing.caller import Caller

BASE = "zip://test.zip/"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "test.zip"


def write(path: Path, fill: Callable[[zipfile.ZipFile], object], compression: int = zipfile.ZIP_DEFLATED) -> None:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", compression) as archive:
        warnings.simplefilter("ignore")  # zipfile warns of names that come twice
        fill(archive)


async def test_members_that_lead_out_or_come_twice_are_left_out(path: Path) -> None:
    def fill(archive: zipfile.ZipFile) -> None:
        for name in ("../up.txt", "/etc/passwd", "a/../../up", "a//b", "./dot", "twice.txt", "twice.txt", "fine.txt"):
            archive.writestr(name, name)
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
        archive.writestr("C:\\windows.txt", "a name like any other")

    write(path, fill)
    async with running(sources.open(f"zip:{path}")) as source:
        caller = Caller(source)
        assert [item.uri for item in await caller.resources()] == [BASE, f"{BASE}C%3A%5Cwindows.txt", f"{BASE}fine.txt"]
        for name in ("../up.txt", "/etc/passwd", "%2Fetc%2Fpasswd", "twice.txt", "link", "a//b", "./dot"):
            with pytest.raises((ResourceNotFound, InvalidParams)):
                await caller.read_resource(BASE + name)


async def test_a_member_that_expands_too_much_is_refused_and_says_so(path: Path) -> None:
    write(path, lambda archive: archive.writestr("bomb.bin", bytes(4_000_000)))
    async with running(sources.open(f"zip:{path}")) as source:
        for query in ("", "?bytes=0-10", "?tail=1"):
            with pytest.raises(ResourceError, match="expands to more than 200 times"):
                await Caller(source).read_resource(f"{BASE}bomb.bin{query}")


async def test_a_member_that_claims_to_be_small_does_not_expand_beyond_its_claim(path: Path) -> None:
    write(path, lambda archive: archive.writestr("liar.txt", b"x" * 100_000))
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<L", data, data.index(signature) + offset, 10)
    path.write_bytes(data)
    async with running(sources.open(f"zip:{path}")) as source:
        with pytest.raises(MCPError, match="not available"):
            await Caller(source).read_resource(f"{BASE}liar.txt")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
async def test_compression_that_cannot_be_unpacked_in_parts_is_refused(path: Path, method: int) -> None:
    write(path, lambda archive: archive.writestr("liar.txt", bytes(4_000_000)), method)
    data = bytearray(path.read_bytes())
    struct.pack_into("<L", data, data.index(b"PK\x01\x02") + 24, 10)  # it claims 10 bytes
    path.write_bytes(data)
    async with running(sources.open(f"zip:{path}")) as source:
        caller = Caller(source)
        for query in ("", "?bytes=0-5", "?tail=1"):
            with pytest.raises(ResourceError, match="only stored and deflated"):
                await caller.read_resource(f"{BASE}liar.txt{query}")
        assert f"{BASE}liar.txt" in [item.uri for item in await caller.resources()], "its name is shared"


async def test_a_member_may_be_larger_than_the_list_of_members(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_archive, "MAX_DIRECTORY", 1000)
    write(path, lambda archive: archive.writestr("large.txt", "x" * 5000), zipfile.ZIP_STORED)
    async with running(sources.open(f"zip:{path}")) as source:
        [contents] = await Caller(source).read_resource(f"{BASE}large.txt")
        assert contents.text == "x" * 5000  # type: ignore[union-attr]


async def test_an_encrypted_member_says_that_it_is_encrypted(path: Path) -> None:
    write(path, lambda archive: archive.writestr("secret.txt", "secret"))
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    path.write_bytes(data)
    async with running(sources.open(f"zip:{path}")) as source:
        with pytest.raises(ResourceError, match="encrypted"):
            await Caller(source).read_resource(f"{BASE}secret.txt")


async def test_an_archive_in_an_archive_is_a_blob(path: Path) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("deep.txt", "deep")
    write(path, lambda archive: archive.writestr("inner.zip", inner.getvalue()))
    async with running(sources.open(f"zip:{path}")) as source:
        [contents] = await Caller(source).read_resource(f"{BASE}inner.zip")
        assert contents.mime_type == "application/zip"
        with pytest.raises(ResourceNotFound):
            await Caller(source).read_resource(f"{BASE}inner.zip/deep.txt")


async def test_only_the_beginning_of_a_large_compressed_member_can_be_reached(path: Path) -> None:
    lines = b"".join(b"%d\n" % (number * 7919) for number in range(200_000))
    write(path, lambda archive: archive.writestr("log.txt", lines))
    async with running(sources.open(f"zip:{path}", max_size=100_000, max_scan=300_000)) as source:
        caller = Caller(source)
        [contents] = await caller.read_resource(f"{BASE}log.txt?lines=3-3")
        assert contents.text == "15838\n"  # type: ignore[union-attr]
        with pytest.raises(ResourceError, match="only the first 400,000 bytes"):
            await caller.read_resource(f"{BASE}log.txt?tail=1")
        with pytest.raises(ResourceTooLarge):
            await caller.read_resource(f"{BASE}log.txt")
    write(path, lambda archive: archive.writestr("log.txt", lines), zipfile.ZIP_STORED)
    async with running(sources.open(f"zip:{path}", max_size=100_000, max_scan=300_000)) as source:
        [contents] = await Caller(source).read_resource(f"{BASE}log.txt?tail=1")
        assert contents.text == "1583792081\n"  # type: ignore[union-attr]


async def test_what_is_no_archive_does_not_start(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(why: str) -> None:
        with pytest.raises(ConfigError, match=why):
            async with running(sources.open(f"zip:{path}")):
                pass

    await fails("there is no file")
    path.write_bytes(b"not an archive")
    await fails("damaged")
    path.unlink()
    os.mkfifo(path)
    await fails("not a regular file")
    path.unlink()
    path.mkdir()
    await fails("directory|regular")
    path.rmdir()
    write(path, lambda archive: [archive.writestr(f"{number}.txt", "") for number in range(1000)])
    monkeypatch.setattr(zip_archive, "MAX_MEMBERS", 100)
    await fails("more than 100 members")
    monkeypatch.setattr(zip_archive, "MAX_DIRECTORY", 10_000)
    await fails("more than 10,000 bytes")


async def test_a_damaged_archive_is_an_error_and_a_whole_one_is_read_again(path: Path) -> None:
    write(path, lambda archive: archive.writestr("a.txt", "one"))
    async with running(sources.open(f"zip:{path}")) as source:
        caller = Caller(source)
        whole = path.read_bytes()
        path.write_bytes(whole[:-10])
        with pytest.raises(MCPError, match="not available"):
            await caller.read_resource(f"{BASE}a.txt")
        path.write_bytes(whole)
        [contents] = await caller.read_resource(f"{BASE}a.txt")
        assert contents.text == "one"  # type: ignore[union-attr]


@pytest.mark.parametrize("target", ["zip:", "zip://", "zip:///", "zip:folder/", "zip://host/a.zip"])
def test_a_url_without_an_archive_is_refused(target: str) -> None:
    with pytest.raises(ConfigError):
        sources.open(target)


def test_the_name_of_an_archive_may_be_any_bytes() -> None:
    assert sources.open("zip:caf\udce9.zip").name.endswith("/caf%E9.zip/")


def test_the_name_of_an_archive_fits_into_a_uri() -> None:
    with pytest.raises(ConfigError, match="give it an alias"):
        sources.open(f"zip:{'(' * 200}.zip")
    assert sources.open(f"zip:{'(' * 200}.zip", alias="a").name == "zip://a/"
