"""``carrel install``: what it writes, what it leaves alone, and what it refuses."""

import json
import os
import pty
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from carrel.cli import main

ALL = ["claude-desktop", "vscode", "cursor"]
PLACES = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "vscode": ".config/Code/User/mcp.json",
    "cursor": ".cursor/mcp.json",
}
SECTIONS = {"claude-desktop": "mcpServers", "vscode": "servers", "cursor": "mcpServers"}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user who has nothing yet but a folder of notes."""
    monkeypatch.setattr(sys, "platform", "linux")
    for variable in ("XDG_CONFIG_HOME", "VSCODE_PORTABLE", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# A")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def carrel(home, *arguments, **options):
    environment = {**os.environ, "HOME": str(home)}
    environment.pop("XDG_CONFIG_HOME", None)
    return subprocess.run(
        [sys.executable, "-m", "carrel", *arguments],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
        **options,
    )


@pytest.mark.parametrize("client", ALL)
def test_a_user_without_a_configuration_gets_one_that_starts_this_carrel(home, client):
    done = carrel(home, "install", client, "notes", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    entry = json.loads((home / PLACES[client]).read_text())[SECTIONS[client]]["notes"]
    assert entry["args"][-2:] == ["serve", str(home / "notes")]
    assert os.path.isabs(entry["command"])
    assert entry.get("type") == ("stdio" if client == "vscode" else None)
    version = subprocess.run(
        [entry["command"], *entry["args"][:-2], "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert version.stdout.startswith("carrel ")


def test_skills_can_be_all_that_is_shared(home):
    (home / "skills").mkdir()
    done = carrel(home, "install", "cursor", "--skills", "skills", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    entry = json.loads((home / PLACES["cursor"]).read_text())["mcpServers"]["skills"]
    assert entry["args"][-2:] == ["serve", f"--skills={home}/skills"]


@pytest.mark.parametrize("client", ALL)
def test_a_second_run_has_nothing_to_change(home, client, capsys):
    assert main(["install", client, "notes", "--yes"]) == 0
    text = (home / PLACES[client]).read_bytes()
    capsys.readouterr()
    assert main(["install", client, "notes"]) == 0
    assert "Nothing to change" in capsys.readouterr().out
    assert (home / PLACES[client]).read_bytes() == text
    assert not list(home.rglob("*.before-carrel"))


@pytest.mark.parametrize("client", ALL)
def test_installing_and_removing_restores_the_file_byte_for_byte(home, client, capsys):
    file = home / PLACES[client]
    file.parent.mkdir(parents=True)
    before = json.dumps({"theme": "dark", SECTIONS[client]: {"other": {"command": "uvx"}}}, indent=4).encode()
    file.write_bytes(before)
    assert main(["install", client, "notes", "--yes"]) == 0
    assert file.read_bytes() != before
    assert (file.parent / f"{file.name}.before-carrel").read_bytes() == before
    assert main(["install", client, "notes", "--remove", "--yes"]) == 0
    assert file.read_bytes() == before
    assert main(["install", client, "--name", "notes", "--remove", "--yes"]) == 0
    assert "has no server 'notes'" in capsys.readouterr().out


def test_comments_trailing_commas_tabs_and_line_ends_survive(home):
    file = home / PLACES["vscode"]
    file.parent.mkdir(parents=True)
    before = '\ufeff{\r\n\t// mine\r\n\t"servers": {\r\n\t\t"x": {"url": "http://x"}, // x\r\n\t},\r\n}\r\n'.encode()
    file.write_bytes(before)
    assert main(["install", "vscode", "notes", "--yes"]) == 0
    after = file.read_bytes()
    start = before.index(b"// x\r\n") + len(b"// x\r\n")
    assert after.startswith(before[:start])
    assert after.endswith(before[start:])
    added = after[start : len(after) - len(before[start:])].decode()
    assert added.startswith('\t\t"notes": {\r\n\t\t\t"type": "stdio",\r\n')
    assert added.endswith("\r\n\t\t},\r\n")


def test_an_entry_of_carrels_is_updated_and_keeps_what_the_user_added(home):
    file = home / PLACES["cursor"]
    assert main(["install", "cursor", "notes", "--yes"]) == 0
    text = file.read_text().replace('"command"', '"env": {"LANG": "C"},\n      "command"')
    file.write_text(text)
    assert main(["install", "cursor", "notes", "--yes", "--include", "*.md", "--no-tools"]) == 0
    entry = json.loads(file.read_text())["mcpServers"]["notes"]
    assert entry["env"] == {"LANG": "C"}
    assert entry["args"][-3:] == [str(home / "notes"), "--include=*.md", "--no-tools"]


def test_an_entry_changes_from_a_command_to_a_url_and_back(home):
    file = home / PLACES["vscode"]
    url = "http://127.0.0.1:8000/mcp"
    assert main(["install", "vscode", "notes", "--yes"]) == 0
    first = file.read_text()
    assert main(["install", "vscode", "--http", url, "--name", "notes", "--yes"]) == 0
    assert json.loads(file.read_text())["servers"] == {"notes": {"type": "http", "url": url}}
    assert main(["install", "vscode", "notes", "--yes"]) == 0
    assert json.loads(file.read_text()) == json.loads(first)


def test_somebody_elses_server_of_that_name_is_not_overwritten(home, capsys):
    file = home / PLACES["cursor"]
    file.parent.mkdir(parents=True)
    for entry in (
        {"command": "npx", "args": ["-y", "notes"]},
        {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer x"}},
        "odd",
    ):
        file.write_text(json.dumps({"mcpServers": {"notes": entry}}))
        before = file.read_bytes()
        assert main(["install", "cursor", "notes", "--yes"]) == 2
        assert "another name with --name" in capsys.readouterr().err
        assert file.read_bytes() == before
    assert main(["install", "cursor", "notes", "--name", "my notes", "--yes"]) == 0
    servers = json.loads(file.read_text())["mcpServers"]
    assert list(servers) == ["notes", "my notes"]
    assert "--name=my notes" in servers["my notes"]["args"]


@pytest.mark.parametrize(
    ("client", "content", "complaint"),
    [
        ("claude-desktop", b'{"mcpServers": {', "line 1, column 17: a key in double quotes"),
        ("claude-desktop", b'{"a": 1} // c', "has to be plain JSON"),
        ("claude-desktop", b'{"a": 1,}', "has to be plain JSON"),
        ("claude-desktop", b'{"mcpServers": []}', "mcpServers is not an object"),
        ("claude-desktop", b"[]", "the document is not an object"),
        ("vscode", b'{"servers": {} // open\n', "line 2, column 1: a comma or } was expected"),
        ("cursor", b'{"a": "\xff"}', "is not UTF-8"),
        ("cursor", '{"a": "é"}'.encode("utf-16"), "is not UTF-8"),
    ],
)
def test_a_file_that_is_not_valid_is_left_alone(home, client, content, complaint):
    file = home / PLACES[client]
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    done = carrel(home, "install", client, "notes", "--yes")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert complaint in done.stderr
    assert str(file) in done.stderr
    assert file.read_bytes() == content
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]


def test_an_empty_file_is_as_good_as_none(home):
    file = home / PLACES["claude-desktop"]
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\n")
    assert main(["install", "claude-desktop", "notes", "--yes"]) == 0
    assert "notes" in json.loads(file.read_text())["mcpServers"]


def test_the_change_is_shown_and_not_made_in_a_dry_run(home):
    file = home / PLACES["vscode"]
    file.parent.mkdir(parents=True)
    file.write_text('{\n  "servers": {\n    "x": {}\n  }\n}\n')
    done = carrel(home, "install", "vscode", "notes", "--dry-run")
    assert done.returncode == 0
    assert f"--- {file}\n+++ {file}\n" in done.stdout
    assert '-    "x": {}\n+    "x": {},\n+    "notes": {\n' in done.stdout
    assert "notes" not in file.read_text()


def test_without_a_terminal_nothing_is_written_unless_told_to(home):
    done = carrel(home, "install", "claude-desktop", "notes")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "add --yes" in done.stderr
    assert not (home / PLACES["claude-desktop"]).exists()


def install_on_a_terminal(home, answer, before_answering=lambda: None):
    """Run the command on a terminal, wait for its question, and answer; return exit code and error output."""
    controller, terminal = pty.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "carrel", "install", "cursor", "notes"],
            cwd=home,
            env={**os.environ, "HOME": str(home)},
            stdin=terminal,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as process:
            errors = b""
            while b"[y/N]" not in errors:
                chunk = process.stderr.read1()
                assert chunk, errors
                errors += chunk
            before_answering()
            os.write(controller, f"{answer}\n".encode())
            errors += process.stderr.read()
            return process.wait(timeout=60), errors.decode()
    finally:
        os.close(controller)
        os.close(terminal)


@pytest.mark.parametrize(("answer", "written"), [("y", True), ("YES", True), ("", False), ("n", False)])
def test_on_a_terminal_it_asks_first(home, answer, written):
    code, _ = install_on_a_terminal(home, answer)
    assert code == (0 if written else 1)
    assert (home / PLACES["cursor"]).exists() is written


def test_a_change_made_while_the_question_is_open_is_kept(home):
    file = home / PLACES["cursor"]
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    code, _ = install_on_a_terminal(home, "y", lambda: file.write_text('{"theirs": 1}'))
    assert code == 0
    written = json.loads(file.read_text())
    assert written["theirs"] == 1
    assert list(written["mcpServers"]) == ["notes"]


def test_a_file_that_is_no_longer_valid_when_it_is_written_is_left_alone(home):
    file = home / PLACES["cursor"]
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    code, errors = install_on_a_terminal(home, "y", lambda: file.write_text("{broken"))
    assert code == 2
    assert "was left alone" in errors
    assert file.read_text() == "{broken"


def test_several_at_once_all_leave_their_entries(home):
    names = [f"server-{number}" for number in range(12)]
    commands = [["install", "cursor", "notes", "--name", name, "--yes"] for name in names]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "carrel", *command],
            cwd=home,
            env={**os.environ, "HOME": str(home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for command in commands
    ]
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    file = home / PLACES["cursor"]
    assert sorted(json.loads(file.read_text())["mcpServers"]) == sorted(names)
    assert {path.name for path in file.parent.iterdir()} <= {file.name, f"{file.name}.before-carrel"}


def test_the_first_backup_is_never_overwritten(home):
    file = home / PLACES["cursor"]
    file.parent.mkdir(parents=True)
    file.write_text('{"mine": 1}')
    for name in ("one", "two"):
        assert main(["install", "cursor", "notes", "--name", name, "--yes"]) == 0
    assert (file.parent / f"{file.name}.before-carrel").read_text() == '{"mine": 1}'


@pytest.mark.parametrize("kind", ["device", "pipe", "folder", "link to a device"])
def test_what_is_not_a_regular_file_is_refused_at_once(home, kind):
    file = home / "settings.json"
    if kind == "device":
        file = Path("/dev/null")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/null")
    before = file.stat()
    done = carrel(home, "install", "cursor", "notes", "--config", str(file), "--yes")
    assert done.returncode == 2
    assert "is not a configuration file: it is " in done.stderr
    assert (file.stat().st_mode, file.stat().st_ino) == (before.st_mode, before.st_ino)


def test_a_link_to_a_file_stays_a_link_and_its_permissions_stay(home):
    kept = home / "dotfiles" / "claude.json"
    kept.parent.mkdir()
    kept.write_text("{}")
    kept.chmod(0o640)
    file = home / PLACES["claude-desktop"]
    file.parent.mkdir(parents=True)
    file.symlink_to(kept)
    assert main(["install", "claude-desktop", "notes", "--yes"]) == 0
    assert file.is_symlink()
    assert "notes" in json.loads(kept.read_text())["mcpServers"]
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert stat.S_IMODE((kept.parent / "claude.json.before-carrel").stat().st_mode) == 0o640


def test_a_new_file_is_readable_by_its_owner_only(home):
    assert main(["install", "claude-desktop", "notes", "--yes"]) == 0
    assert stat.S_IMODE((home / PLACES["claude-desktop"]).stat().st_mode) == 0o600


@pytest.mark.parametrize(("client", "place"), [("vscode", ".vscode/mcp.json"), ("cursor", ".cursor/mcp.json")])
def test_a_project_has_a_configuration_of_its_own(home, client, place):
    (home / "project").mkdir()
    assert main(["install", client, "notes", "--workspace", "project", "--yes"]) == 0
    assert "notes" in json.loads((home / "project" / place).read_text())[SECTIONS[client]]


def test_any_file_can_be_named(home):
    assert main(["install", "claude-desktop", "notes", "--config", "deep/er/config.json", "--yes"]) == 0
    assert "notes" in json.loads((home / "deep/er/config.json").read_text())["mcpServers"]


def test_a_name_made_from_a_folder_has_only_letters_that_every_client_takes(home):
    for folder, name in (("my notes & more", "my-notes-more"), ("医学", "carrel"), ("a.b_c-d", "a-b_c-d")):
        (home / folder).mkdir()
        config = home / f"{name}.json"
        assert main(["install", "cursor", folder, "--config", str(config), "--yes"]) == 0
        [(key, entry)] = json.loads(config.read_text())["mcpServers"].items()
        assert key == name
        assert entry["args"][-1] == str(home / folder)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "the following arguments are required: CLIENT"),
        (["emacs", "notes"], "invalid choice: 'emacs'"),
        (["cursor"], "say what to share"),
        (["cursor", "nots"], "did you mean"),
        (["cursor", "notes", "--http", "http://x/mcp"], "not both"),
        (["cursor", "--http", "8000"], "is not a URL"),
        (["cursor", "--remove"], "--name NAME"),
        (["cursor", "notes", "--name", ""], "must not be empty"),
        (["cursor", "notes", "--name", "a\nb"], "must not be empty"),
        (["claude-desktop", "--http", "http://127.0.0.1:8000/mcp"], "reads only commands"),
        (["claude-desktop", "notes", "--workspace", "."], "leave out --workspace"),
        (["cursor", "notes", "--workspace", ".", "--config", "x"], "give one of them"),
        (["cursor", "notes", "--config", "notes", "--yes"], "is not a configuration file"),
    ],
)
def test_wrong_use_is_answered_with_one_line_and_exit_code_2(home, arguments, complaint, capsys):
    assert main(["install", *arguments]) == 2
    output = capsys.readouterr()
    assert complaint in output.err
    assert re.fullmatch(r"carrel: [^\n]+\n", output.err)
    assert output.out == ""


def test_options_may_stand_between_the_folders(home):
    (home / "papers").mkdir()
    assert main(["install", "--yes", "cursor", "notes", "--include", "*.md", "papers"]) == 0
    [entry] = json.loads((home / PLACES["cursor"]).read_text())["mcpServers"].values()
    assert entry["args"][-3:] == [str(home / "notes"), str(home / "papers"), "--include=*.md"]


def test_names_that_the_terminal_cannot_show_do_not_stop_it(home):
    (home / "医学").mkdir()
    environment = {**os.environ, "HOME": str(home), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "carrel", "install", "cursor", "医学", "--yes"],
        cwd=home,
        env=environment,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "医学" in Path(home, PLACES["cursor"]).read_text(encoding="utf-8")
