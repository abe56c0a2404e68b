"""``carrel watch``: changes as they happen."""

import json
import subprocess
import threading

from carrel.cli.client import watch
from carrel.cli.client.watch import unified
from support.carrel_process import carrel, command

SILENT = "from carrel import Server\napp = Server('silent')\n"


def watching(*arguments):
    process = subprocess.Popen(
        command("watch", *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
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
    with watching(str(tmp_path), "--json", "--lists", "--count", "1") as process:
        (tmp_path / "new.md").write_text("new")
        out, _ = process.communicate(timeout=120)
    (line,) = out.splitlines()
    assert json.loads(line) | {"time": ""} == {"time": "", "kind": "resources", "uri": None}


def test_all_listed_resources_are_watched_and_new_ones_once_they_are_listed(tmp_path):
    old, new = tmp_path / "old.md", tmp_path / "new.md"
    old.write_text("one\n")
    with watching(str(tmp_path), "--json", "--diff") as process:
        seen = []

        def until(uri):
            for line in process.stdout:
                seen.append(json.loads(line))
                if seen[-1]["uri"] == uri:
                    return seen[-1]
            raise AssertionError(process.stderr.read())

        old.write_text("two\n")
        assert until(f"file://{old}")["diff"].splitlines()[-2:] == ["-one", "+two"]
        new.write_text("first\n")
        until(None)  # the list
        # It is watched some time after the list has changed; until then, changes of it are not shown.
        done = threading.Event()

        def change():
            number = 0
            while not done.wait(0.2):
                number += 1
                new.write_text(f"{number}\n")

        changing = threading.Thread(target=change)
        changing.start()
        try:
            assert until(f"file://{new}")["kind"] == "resource"
        finally:
            done.set()
            changing.join()
            process.kill()


def test_there_is_a_limit_to_the_resources_that_are_watched_without_being_named(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(watch, "MOST", 2)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.md").write_text(name)
    threading.Thread(target=changer, args=(tmp_path / "a.md", stop := threading.Event())).start()
    try:
        assert watch.run([str(tmp_path), "--count", "1"]) == 0
    finally:
        stop.set()
    errors = capfd.readouterr().err
    assert "only the first 2 listed resources are watched" in errors
    assert "watching 2 resources and the lists of resources" in errors


def changer(file, stop):
    number = 0
    while not stop.wait(0.2):
        number += 1
        file.write_text(f"{number}")


def test_a_server_without_anything_to_watch_is_an_error(tmp_path):
    (tmp_path / "silent.py").write_text("from carrel import Server\napp = Server('silent', list_changed=False)\n")
    done = carrel("watch", str(tmp_path / "silent.py"), "--lists")
    assert done.returncode == 1
    assert b"has no notifications of its lists" in done.stderr


def test_a_subscription_that_is_refused_is_an_error(tmp_path):
    (tmp_path / "silent.py").write_text(SILENT)
    done = carrel("watch", str(tmp_path / "silent.py"), "x:y")
    assert (done.returncode, done.stderr) == (1, b"carrel: x:y is not watched: the server refuses\n")


def test_differences_name_the_resource_and_say_where_there_was_no_text():
    assert unified(None, "a", "x:y") == "--- (no text)\n+++ x:y\n@@ -0,0 +1 @@\n+a"
    assert unified("a", "a", "x:y") == ""
