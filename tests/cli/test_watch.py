"""``carrel watch``: changes as they happen."""

import json
import subprocess

from carrel.cli.watch import unified
from support.carrel_process import COMMAND, carrel

SILENT = "from carrel import Server\napp = Server('silent')\n"


def watching(*arguments):
    process = subprocess.Popen(
        [*COMMAND, "watch", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    line = process.stderr.readline()
    assert line.startswith(b"watching "), line
    return process


def test_a_changed_file_is_shown_with_what_has_changed(tmp_path):
    file = tmp_path / "a.md"
    file.write_text("one\n")
    with watching(str(tmp_path), f"file://{file}", "--diff", "--count", "1") as process:
        (tmp_path.parent / "two.md").write_text("two\n")
        (tmp_path.parent / "two.md").rename(file)  # at once, so that nobody sees it empty
        out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert out.decode().splitlines()[0].endswith(f"  file://{file}")
    assert out.decode().splitlines()[-2:] == ["-one", "+two"]


def test_changes_of_lists_are_lines_of_json(tmp_path):
    (tmp_path / "old.md").write_text("old")
    with watching(str(tmp_path), "--json", "--count", "1") as process:
        (tmp_path / "new.md").write_text("new")
        out, _ = process.communicate(timeout=120)
    (line,) = out.splitlines()
    assert json.loads(line) | {"time": ""} == {"time": "", "kind": "resources", "uri": None}


def test_a_subscription_that_is_refused_is_an_error(tmp_path):
    (tmp_path / "silent.py").write_text(SILENT)
    done = carrel("watch", str(tmp_path / "silent.py"), "x:y")
    assert (done.returncode, done.stderr) == (1, b"carrel: x:y is not watched: the server refuses\n")


def test_differences_name_the_resource_and_say_where_there_was_no_text():
    assert unified(None, "a", "x:y") == "--- (no text)\n+++ x:y\n@@ -0,0 +1 @@\n+a"
    assert unified("a", "a", "x:y") == ""
