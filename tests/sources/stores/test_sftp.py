"""SFTP against OpenSSH's server: links that lead out, host keys, logins, lost connections."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from carrel import sources
from carrel.catalog.provider import Provider
from carrel.errors import ConfigError, InvalidParams, ResourceError, ResourceForbidden, ResourceNotFound
from carrel.sources.stores import sftp
from carrel.testing import running
from carrel.testing.caller import Caller
from support.sftp_server import SFTPServer

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(ssh: SFTPServer) -> Path:
    path = Path(tempfile.mkdtemp(dir=ssh.files))
    (path / "mine").mkdir()
    (path / "mine" / "a.txt").write_text("text")
    (path / "mineral").mkdir()
    (path / "mineral" / "secret.txt").write_text("secret")
    return path


def shared(ssh: SFTPServer, path: Path) -> tuple[Provider, str]:
    return sources.open(ssh.url(path), **ssh.options), f"sftp://127.0.0.1:{ssh.port}{path}/"


async def text(caller: Caller, uri: str) -> str:
    [contents] = await caller.read_resource(uri)
    return str(contents.text)  # type: ignore[union-attr]


async def test_links_are_neither_listed_nor_followed_wherever_they_lead(ssh: SFTPServer, folder: Path) -> None:
    mine = folder / "mine"
    (mine / "out.txt").symlink_to(folder / "mineral" / "secret.txt")
    (mine / "out").symlink_to(folder / "mineral")
    (mine / "inside.txt").symlink_to(mine / "a.txt")
    (mine / "up").symlink_to("..")
    (mine / "loop").symlink_to("loop")
    os.mkfifo(mine / "pipe")
    (mine / os.fsdecode(b"caf\xe9.txt")).write_text("not UTF-8")
    source, base = shared(ssh, mine)
    async with running(source):
        caller = Caller(source)
        assert [item.uri for item in await caller.resources()] == [base, f"{base}a.txt"]
        assert [item.uri for item in await caller.directory(base)] == [f"{base}a.txt"]
        for end in (
            "out.txt",
            "out/secret.txt",
            "inside.txt",
            "up/mine/a.txt",
            "up/mineral/secret.txt",
            "loop",
            "pipe",
        ):
            with pytest.raises((ResourceNotFound, ResourceForbidden)):
                await caller.read_resource(base + end)
        for end in ("out/", "up/", "up/mineral/", "loop/", "pipe/", "a.txt/"):
            with pytest.raises((ResourceNotFound, ResourceForbidden)):
                await caller.directory(base + end)


async def test_a_folder_that_is_replaced_by_a_link_is_not_followed(ssh: SFTPServer, folder: Path) -> None:
    mine = folder / "mine"
    (mine / "d").mkdir()
    (mine / "d" / "secret.txt").write_text("mine")
    source, base = shared(ssh, mine)
    async with running(source):
        assert await text(Caller(source), f"{base}d/secret.txt") == "mine"
        (mine / "d" / "secret.txt").unlink()
        (mine / "d").rmdir()
        (mine / "d").symlink_to(folder / "mineral")
        with pytest.raises(ResourceForbidden):
            await Caller(source).read_resource(f"{base}d/secret.txt")


async def test_a_file_that_is_replaced_by_a_link_between_check_and_opening_is_not_read(
    ssh: SFTPServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, secret = folder / "mine" / "a.txt", folder / "mineral" / "secret.txt"
    secret.chmod(0o600)
    path.chmod(0o644)
    look = sftp.SFTPStore._look

    async def swap(*arguments: Any) -> Any:
        found = await look(*arguments)
        path.unlink()
        path.symlink_to(secret)
        return found

    source, base = shared(ssh, folder / "mine")
    async with running(source):
        monkeypatch.setattr(sftp.SFTPStore, "_look", swap)
        with pytest.raises(ResourceForbidden):
            await Caller(source).read_resource(f"{base}a.txt")


@pytest.mark.parametrize("restored", [False, True])
async def test_a_link_that_is_there_while_a_file_is_opened_is_noticed(
    ssh: SFTPServer, folder: Path, monkeypatch: pytest.MonkeyPatch, restored: bool
) -> None:
    path, secret = folder / "mine" / "a.txt", folder / "mineral" / "secret.txt"
    secret.chmod(path.stat().st_mode & 0o777)
    secret.write_text("longer than the other file")
    opening = asyncssh.SFTPClient.open

    async def swap(*arguments: Any) -> Any:
        path.rename(folder / "kept")
        path.symlink_to(secret)
        file = await opening(*arguments)
        if restored:
            (folder / "kept").replace(path)
        return file

    source, base = shared(ssh, folder / "mine")
    async with running(source):
        monkeypatch.setattr(asyncssh.SFTPClient, "open", swap)
        with pytest.raises(ResourceForbidden):
            await Caller(source).read_resource(f"{base}a.txt")


async def test_a_file_that_grows_while_it_is_opened_is_read(
    ssh: SFTPServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "mine" / "a.txt"
    opening = asyncssh.SFTPClient.open

    async def grow(*arguments: Any) -> Any:
        file = await opening(*arguments)
        path.write_text(path.read_text() + "more")
        return file

    source, base = shared(ssh, folder / "mine")
    async with running(source):
        monkeypatch.setattr(asyncssh.SFTPClient, "open", grow)
        assert (await text(Caller(source), f"{base}a.txt")).startswith("text")


@pytest.mark.parametrize("end", ["../mineral/secret.txt", "%2e%2e/mineral/secret.txt", "..%2Fmineral%2Fsecret.txt"])
async def test_nothing_beside_the_folder_is_reached(ssh: SFTPServer, folder: Path, end: str) -> None:
    source, base = shared(ssh, folder / "mine")
    async with running(source):
        for uri in (base + end, base.replace("/mine/", "/mineral/secret.txt"), base.replace("/mine/", "/")):
            with pytest.raises((ResourceNotFound, InvalidParams)):
                await Caller(source).read_resource(uri)


async def test_a_folder_that_is_named_by_a_link_is_shared(ssh: SFTPServer, folder: Path) -> None:
    (folder / "link").symlink_to("mine")
    source, base = shared(ssh, folder / "link")
    async with running(source):
        assert await text(Caller(source), f"{base}a.txt") == "text"


async def test_a_host_whose_key_is_not_known_is_refused_with_advice(
    ssh: SFTPServer, folder: Path, tmp_path: Path
) -> None:
    known = tmp_path / "known_hosts"
    for lines in ("", f"[127.0.0.1]:{ssh.port} {(ssh.folder / 'stranger.pub').read_text()}"):
        known.write_text(lines)
        source = sources.open(ssh.url(folder), identity=ssh.identity, known_hosts=str(known))
        with pytest.raises(ConfigError, match="compare its fingerprint"):
            await source.start(None)  # type: ignore[arg-type]
    known.unlink()
    source = sources.open(ssh.url(folder), identity=ssh.identity, known_hosts=str(known))
    with pytest.raises(ConfigError, match="known_hosts"):
        await source.start(None)  # type: ignore[arg-type]


async def test_a_login_that_is_refused_says_what_to_do(ssh: SFTPServer, folder: Path) -> None:
    for options in ({"identity": str(ssh.folder / "stranger")}, {"password": "hunter2", "identity": ""}):
        given = {**ssh.options, **options}
        source = sources.open(ssh.url(folder), **given)
        with pytest.raises(ConfigError) as raised:
            await source.start(None)  # type: ignore[arg-type]
        assert "hunter2" not in str(raised.value)


async def test_a_folder_that_is_not_there_does_not_start(ssh: SFTPServer, folder: Path) -> None:
    for path in (folder / "none", folder / "mine" / "a.txt"):
        with pytest.raises(ConfigError, match="cannot be listed"):
            await shared(ssh, path)[0].start(None)  # type: ignore[arg-type]


async def test_a_lost_connection_is_opened_again(ssh: SFTPServer, folder: Path) -> None:
    source, base = shared(ssh, folder / "mine")
    async with running(source):
        assert await text(Caller(source), f"{base}a.txt") == "text"
        source._store._connection.abort()  # type: ignore[attr-defined]
        assert await text(Caller(source), f"{base}a.txt") == "text"


def test_a_password_in_a_url_is_refused() -> None:
    with pytest.raises(ConfigError) as raised:
        sources.open("sftp://ann:hunter2@files.example/srv")
    assert "hunter2" not in str(raised.value)


async def test_empty_folders_are_there(ssh: SFTPServer, folder: Path) -> None:
    (folder / "mine" / "empty").mkdir()
    source, base = shared(ssh, folder / "mine")
    async with running(source):
        assert [item.uri for item in await Caller(source).directory(base)] == [f"{base}a.txt", f"{base}empty/"]
        assert await text(Caller(source), f"{base}empty/") == "[\n]\n"


async def test_a_folder_with_too_many_entries_says_so_and_the_others_are_listed(
    ssh: SFTPServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "mine" / "many").mkdir()
    for number in range(5):
        (folder / "mine" / "many" / f"{number}.txt").write_text("")
    monkeypatch.setattr(sftp, "MAX_LEVEL", 3)
    source, base = shared(ssh, folder / "mine")
    async with running(source):
        with pytest.raises(ResourceError, match="more than 3 entries"):
            await Caller(source).directory(f"{base}many/")
        assert [item.uri for item in await Caller(source).resources()] == [base, f"{base}a.txt"]
        monkeypatch.setattr(sftp, "MAX_LEVEL", 100)
        monkeypatch.setattr(sftp, "MAX_NAMES", 20)
        with pytest.raises(ResourceError, match="names of 20 characters"):
            await Caller(source).directory(f"{base}many/")
