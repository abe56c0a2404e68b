"""Opening a page: never by a shell, and only pages that may be opened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from carrel.errors import AuthorizationError
from carrel.security.client.browser import MAX_LENGTH, check_page, open_page

#: A page whose address a shell would do something with.
URL = "https://auth.example/authorize?x=$(touch$IFS%s)&y=;id;'a'&z=%25s*?[a]!"


@pytest.mark.parametrize(
    "url",
    [
        *("javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "ftp://a.example/", "about:blank"),
        *("http://auth.example/", "HTTP://auth.example/", "https:auth.example", "//auth.example/", "auth.example"),
        *("https://a.example/`id`", 'https://a.example/"', "https://a.example/|", "https://a.example/<x>"),
        *("https://a.example/ x", "https://a.example/\n", "https://a.example/\\x", "https://u:p@a.example/"),
        *("-https://a.example/", "--new-window https://a.example/", "https://bücher.example/", ""),
        "https://a.example/" + "x" * MAX_LENGTH,
    ],
)
async def test_some_pages_are_never_opened(url: str):
    with pytest.raises(AuthorizationError, match="No browser is opened"):
        await open_page(url)


@pytest.mark.parametrize("url", ["https://auth.example/a?b=c", "http://127.0.0.1:1/a", "http://localhost/", URL])
def test_pages_of_the_web_and_of_this_machine_are(url: str):
    assert check_page(url) == url


def opened(tmp_path: Path, url: str, **environment: str) -> tuple[list[list[str]], str]:
    """Open a page in a process of its own; return what the browser was called with, and what was logged."""
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\nimport json, sys\nopen({str(seen)!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
    )
    browser.chmod(0o755)
    code = (
        "import asyncio, logging, sys; logging.basicConfig()\n"
        "from carrel.security.client.browser import open_page\n"
        "asyncio.run(open_page(sys.argv[1]))"
    )
    clean = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
    given = {name: value.replace("{browser}", str(browser)) for name, value in environment.items()}
    done = subprocess.run(
        [sys.executable, "-c", code, url],
        env={**clean, **given},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = seen.read_text().splitlines() if seen.exists() else []
    return [json.loads(line) for line in lines], done.stderr


def test_an_address_reaches_the_browser_as_one_word_and_no_shell(tmp_path: Path):
    calls, _ = opened(tmp_path, URL, BROWSER="{browser} %s")
    assert calls == [[URL]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["browser", "seen"]


def test_where_there_is_no_browser_the_page_is_named_in_the_log(tmp_path: Path):
    calls, logged = opened(tmp_path, "https://auth.example/authorize", PATH=str(tmp_path))
    assert calls == []
    (tmp_path / "w3m").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")  # one that would take the terminal
    (tmp_path / "w3m").chmod(0o755)
    _, logged = opened(tmp_path, "https://auth.example/authorize", PATH=str(tmp_path), TERM="xterm")
    assert not (tmp_path / "started").exists()
    assert "Open this page on this machine to continue: https://auth.example/authorize" in logged
