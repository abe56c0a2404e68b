"""Static files of the page: what is sent for a path, and what never is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from carrel.studio.pages import Pages


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html>")
    (folder / "assets/a-1.js").write_text("1")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return folder


async def sent(folder: Path, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    await Pages(folder)({"type": "http", "method": method, "path": path, "headers": []}, send, send)
    headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
    return messages[0]["status"], headers, messages[1]["body"]


async def test_files_are_sent_with_their_type_and_every_other_path_is_the_page(folder: Path) -> None:
    status, headers, body = await sent(folder, "/assets/a-1.js")
    assert (status, headers["content-type"], body) == (200, "text/javascript; charset=utf-8", b"1")
    assert headers["cache-control"] == "max-age=31536000, immutable"
    for path in ("/", "/browse", "/s/notes/r/file%3A%2F%2F%2Fa.md", "/index.html", "/apifoo"):
        status, headers, body = await sent(folder, path)
        assert (status, headers["content-type"], body) == (200, "text/html; charset=utf-8", b"<!doctype html>")
        assert headers["cache-control"] == "no-cache"
    assert (await sent(folder, "/", "HEAD"))[2] == b""


async def test_files_outside_the_folder_are_never_sent(folder: Path) -> None:
    for path in ("/../secret.txt", "/assets/../../secret.txt", "//etc/passwd", "/link.txt", "/assets/../index.html"):
        assert b"secret" not in (await sent(folder, path))[2], path
    assert (await sent(folder, "/assets/none.js"))[0] == 404


async def test_a_page_that_is_not_built_says_how(tmp_path: Path) -> None:
    status, headers, body = await sent(tmp_path / "none", "/")
    assert (status, headers["content-type"]) == (503, "text/plain; charset=utf-8")
    assert b"make ui" in body


async def test_a_page_that_is_built_again_has_its_new_files(folder: Path) -> None:
    pages, bodies = Pages(folder), []

    async def send(message: Any) -> None:
        bodies.append(message.get("body"))

    async def body_of(path: str) -> bytes:
        await pages({"type": "http", "method": "GET", "path": path, "headers": []}, send, send)
        return bytes(bodies[-1])

    assert await body_of("/assets/a-1.js") == b"1"
    (folder / "assets/a-1.js").unlink()
    (folder / "assets/b-2.js").write_text("2")
    (folder / "index.html").write_text("<!doctype html><title>New</title>")
    os.utime(folder / "index.html", ns=(1, 1))
    assert await body_of("/assets/b-2.js") == b"2"
    assert await body_of("/assets/a-1.js") == b"there is no such file\n"
