"""Progress bars: on a terminal only, with rich and without it, away for questions and before the result."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from carrel.cli.terminal.progress import PlainDrawer, ProgressState, is_wanted
from chat.pty_program import in_terminal
from support.carrel_process import command

SLOW = str(Path(__file__).parents[2] / "support/servers/slow.py")


@pytest.mark.slow
@pytest.mark.parametrize("rich", [True, False])
def test_a_call_shows_its_progress_and_leaves_the_terminal_to_questions(tmp_path: Path, rich: bool) -> None:
    done = tmp_path / "done"
    os.mkfifo(done)
    environment = {"TERM": "xterm-256color", "DONE": str(done)}
    if not rich:
        (tmp_path / "rich.py").write_text("raise ImportError")
        environment["PYTHONPATH"] = str(tmp_path)
    with in_terminal(command("call", SLOW, "work", env={**os.environ, **environment}), **environment) as terminal:
        terminal.wait_for("25%" if rich else "[#####---------------] 25% cutting \\x1b[31mwood")
        done.write_text("done")
        terminal.wait_for("sawdust")
        terminal.wait_for("asks: Which wood?")
        asked = terminal.text
        terminal.wait_for("wood (optional): ")
        terminal.type("oak\r")
        terminal.wait_for("Send this? [Y/n] ")
        between = terminal.text.removeprefix(asked)
        terminal.type("y\r")
        done.write_text("done")  # the call is made again with the answer
        terminal.wait_for("a table of oak")
        assert terminal.ended() == 0
    assert "25%" not in between  # of the bar, which is not drawn over a question
    assert "\x1b[31mwood" not in terminal.raw.decode()


@pytest.mark.slow
def test_pipes_and_dumb_terminals_get_lines_and_quiet_gets_none(tmp_path: Path) -> None:
    (tmp_path / "done").touch()
    environment = {**os.environ, "DONE": str(tmp_path / "done")}
    call = command("call", SLOW, "work")
    piped = subprocess.run(call, env=environment, capture_output=True, check=False, timeout=120, input=b"")
    assert b"1 of 4 cutting \\x1b[31mwood\n" in piped.stderr
    assert b"\x1b[" not in piped.stderr
    assert b"connecting" not in piped.stderr
    with in_terminal([*call, "--quiet"], TERM="dumb", DONE=environment["DONE"]) as terminal:
        terminal.wait_for("wood (optional): ")
        terminal.type("\n")
        terminal.wait_for("Send this? [Y/n] ")
        terminal.type("\n")
        terminal.ended()
        assert "1 of 4" not in terminal.text


def test_a_bar_is_wanted_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Screen())
    reader, writer = os.pipe()
    with (tmp_path / "out").open("w") as file, os.fdopen(reader), os.fdopen(writer, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert not is_wanted()
        monkeypatch.setattr(sys, "stdout", file)
        assert is_wanted()
        assert not is_wanted(quiet=True)
        assert not is_wanted(as_json=True)
        monkeypatch.setenv("TERM", "dumb")
        assert not is_wanted()
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        assert not is_wanted()


def test_lines_on_standard_error_come_above_a_plain_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), "ascii", write_through=True)
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setenv("COLUMNS", "30")
    bar = PlainDrawer()
    bar.draw(ProgressState("reading a very long name of a file"))
    sys.stderr.write("a warning\n")
    bar.draw(ProgressState("entries", 1234))
    bar.end()
    assert sys.stderr is out
    assert out.buffer.getvalue().decode().split("\r\x1b[K") == [  # type: ignore[attr-defined]
        "",
        "reading a very long na? 0 s",
        "a warning\n",
        "entries 1,234 0 s",
        "",
    ]


@pytest.mark.parametrize(
    ("state", "share", "text"),
    [
        (ProgressState("a", 1, 4), 0.25, "a"),
        (ProgressState("a", 9, 4), 1.0, "a"),
        (ProgressState("a", -1, 4), 0.0, "a"),
        (ProgressState("a", 1, 0), None, "a 1"),
        (ProgressState("a", 12345.5), None, "a 12,345.5"),
        (ProgressState("a\n\x1b[31mb"), None, "a \\x1b[31mb"),
    ],
)
def test_states_have_a_share_or_a_count(state: ProgressState, share: float | None, text: str) -> None:
    assert (state.share, state.text()) == (share, text)
