"""``carrel serve --tokens``: a real folder, a real process, and only who has a token."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from carrel.cli import main
from carrel.security.server.static_tokens import make_token

pytestmark = pytest.mark.slow


@contextmanager
def serving(*arguments: object) -> Iterator[str]:
    """Run ``carrel serve``, and give what it prints until it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "carrel", "serve", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    try:
        assert process.stderr is not None
        text = ""
        while "\n    curl " not in text or not text.endswith("'\n\n"):
            line = process.stderr.readline()
            assert line, text
            text += line
        yield text
    finally:
        watchdog.cancel()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


def test_only_who_has_a_token_reads_and_the_command_that_is_printed_works(tmp_path: Path):
    folder, tokens = tmp_path / "notes", tmp_path / "tokens.txt"
    folder.mkdir()
    (folder / "a.txt").write_text("for alice")
    token, line = make_token("alice")
    tokens.write_text(line)
    with serving(folder, "--http", "0.0.0.0:0", "--behind-proxy", "--tokens", tokens) as text:
        assert "without authentication" not in text
        assert f"tokens   {tokens}" in text
        assert '"Authorization": "Bearer TOKEN"' in text
        command = text[text.index("    curl ") :].replace("\\\n", " ")
        words = shlex.split(command.replace("Bearer TOKEN", f"Bearer {token}"))
        headers = dict(words[i + 1].split(": ", 1) for i, word in enumerate(words) if word == "-H")
        body = words[words.index("-d") + 1].encode()
        asking = urllib.request.Request(words[2], body, headers)
        with urllib.request.urlopen(asking, timeout=60) as response:
            assert json.load(response)["result"]["contents"][0]["text"] == "for alice"
        del headers["Authorization"]
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(words[2], body, headers), timeout=60)
        with caught.value as refused:
            assert refused.code == 401
            assert refused.headers["www-authenticate"].startswith("Bearer ")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [(None, "cannot be read"), ("my-secret alice", "line 1: a line begins with sha256:")],
)
def test_a_file_of_no_use_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, complaint: str
):
    tokens = tmp_path / "tokens.txt"
    (tmp_path / "a.txt").write_text("x")
    if text is not None:
        tokens.write_text(text)
    assert main(["serve", str(tmp_path), "--http", "0", "--tokens", str(tokens)]) == 2
    errors = capsys.readouterr().err
    assert complaint in errors
    assert errors.count("\n") == 1
    assert "my-secret" not in errors


def test_tokens_are_for_http(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["serve", str(tmp_path), "--tokens", "x"]) == 2
    assert "these options need --http: --tokens" in capsys.readouterr().err
