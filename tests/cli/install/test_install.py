"""``carrel install``: what it writes, what it leaves alone, and what it refuses."""

import json
import os
import pty
import re
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from carrel.cli import main
from support.carrel_process import carrel as run
from support.carrel_process import command
from support.sdk_session import sdk_session

PLACES = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "vscode": ".config/Code/User/mcp.json",
    "cursor": ".cursor/mcp.json",
    "zed": ".config/zed/settings.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "gemini-cli": ".gemini/settings.json",
    "codex": ".codex/config.toml",
    "mcp.json": "mcp.json",
}
ALL = list(PLACES)
SECTIONS = dict.fromkeys(PLACES, "mcpServers") | {
    "vscode": "servers",
    "zed": "context_servers",
    "codex": "mcp_servers",
}
TYPED = ("claude-code", "vscode", "mcp.json")


def servers(home, client):
    """Return the servers in the configuration of an application."""
    text = (home / PLACES[client]).read_text()
    return (tomllib if client == "codex" else json).loads(text)[SECTIONS[client]]


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


def carrel(home, *arguments):
    environment = {**os.environ, "HOME": str(home)}
    environment.pop("XDG_CONFIG_HOME", None)
    return run(*arguments, cwd=home, env=environment, text=True)


@pytest.mark.parametrize("client", ALL)
def test_a_user_without_a_configuration_gets_one_that_starts_this_carrel(home, client):
    done = carrel(home, "install", client, "notes", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    entry = servers(home, client)["notes"]
    assert entry["args"][-2:] == ["serve", str(home / "notes")]
    assert os.path.isabs(entry["command"])
    assert entry.get("type") == ("stdio" if client in TYPED else None)
    version = subprocess.run(
        [entry["command"], *entry["args"][:-2], "--version"], capture_output=True, text=True, timeout=120, check=True
    )
    assert version.stdout.startswith("carrel ")


def test_skills_can_be_all_that_is_shared(home):
    (home / "skills").mkdir()
    done = carrel(home, "install", "cursor", "--skills", "skills", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    entry = json.loads((home / PLACES["cursor"]).read_text())["mcpServers"]["skills"]
    assert entry["args"][-2:] == ["serve", f"--skills={home}/skills"]


def test_files_of_sources_that_do_not_exist_yet_are_named(home, capsys):
    (home / "there.log").touch()
    targets = ["logs:missing.log", "sqlite:///missing.db", "logs:there.log", "logs:*.log", "mysql://127.0.0.1/shop"]
    assert main(["install", "mcp.json", *targets, "--dry-run"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told == [f"carrel: there is no {home / name} yet" for name in ("missing.log", "missing.db")]


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
    file.parent.mkdir(parents=True, exist_ok=True)
    before = json.dumps({"theme": "dark", SECTIONS[client]: {"other": {"command": "uvx"}}}, indent=4).encode()
    if client == "codex":
        before = b'# mine\ntheme = "dark"\n\n[mcp_servers.other]\ncommand = "uvx" # x\n'
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
    assert main(["install", "vscode", url, "--name", "notes", "--yes"]) == 0
    assert json.loads(file.read_text())["servers"] == {"notes": {"type": "http", "url": url}}
    assert main(["install", "vscode", "notes", "--yes"]) == 0
    assert json.loads(file.read_text()) == json.loads(first)


def test_an_entry_of_an_installation_without_scripts_imports_nothing_from_the_current_folder(home, monkeypatch):
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(home / "missing"))
    file = home / PLACES["cursor"]
    assert main(["install", "cursor", "notes", "--yes"]) == 0
    assert json.loads(file.read_text())["mcpServers"]["notes"]["args"][:4] == ["-P", "-m", "carrel", "serve"]
    earlier = file.read_text().replace('"-P",', "")
    file.write_text(earlier)
    assert main(["install", "cursor", "notes", "--yes"]) == 0  # replaces an entry of an earlier version
    assert json.loads(file.read_text())["mcpServers"]["notes"]["args"][0] == "-P"


def test_a_foreign_server_of_that_name_is_not_overwritten(home, capsys):
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
        ("claude-desktop", b'{"mcpServers": {', "line 1, column 17: Expecting property name enclosed in double quotes"),
        ("claude-desktop", b'{"a": 1} // c', "has to be plain JSON"),
        ("claude-desktop", b'{"a": 1,}', "has to be plain JSON"),
        ("claude-desktop", b'{"mcpServers": []}', "mcpServers is not an object"),
        ("claude-desktop", b"[]", "the document is not an object"),
        ("vscode", b'{"servers": {} // open\n', "line 2, column 1: Expecting ',' delimiter"),
        ("cursor", b'{"a": "\xff"}', "is not UTF-8"),
        ("cursor", '{"a": "é"}'.encode("utf-16"), "is not UTF-8"),
    ],
)
def test_a_file_that_is_not_valid_is_left_alone(home, client, content, complaint):
    file = home / PLACES[client]
    file.parent.mkdir(parents=True, exist_ok=True)
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
            return process.wait(timeout=120), errors.decode()
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
    assert "was not changed" in errors
    assert file.read_text() == "{broken"


def test_several_at_once_all_leave_their_entries(home):
    names = [f"server-{number}" for number in range(12)]
    running = [
        subprocess.Popen(
            command(*arguments),
            cwd=home,
            env={**os.environ, "HOME": str(home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for arguments in [["install", "cursor", "notes", "--name", name, "--yes"] for name in names]
    ]
    for process in running:
        _, errors = process.communicate(timeout=120)
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
    assert "cannot be read: it is " in done.stderr
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
        (["emacs", "notes"], "there is no application 'emacs'; there is claude-desktop, claude-code"),
        (["claude", "notes"], "there is no application 'claude'; did you mean 'claude-code'?"),
        (["cursor"], "nothing to install"),
        (["cursor", "nots"], "did you mean"),
        (["cursor", "http://x/mcp", "notes"], "a URL is installed alone"),
        (["cursor", "http://x/mcp", "--env", "A=b"], "a URL is installed alone"),
        (["cursor", "http://"], "is not a URL"),
        (["cursor", "notes", "--env", "=secret"], "a variable is KEY=VALUE"),
        (["cursor", "notes", "--env", "NOT_SET_ANYWHERE"], "it is not set in your shell"),
        (["cursor", "nowhere.py"], "no such file: nowhere.py"),
        (["cursor", "--remove"], "--name NAME"),
        (["cursor", "notes", "--name", ""], "must not be empty"),
        (["cursor", "notes", "--name", "a\nb"], "must not be empty"),
        (["claude-desktop", "http://127.0.0.1:8000/mcp"], "reads only commands"),
        (["claude-desktop", "notes", "--workspace", "."], "leave out --workspace"),
        (["cursor", "notes", "--workspace", ".", "--config", "x"], "give one of them"),
        (["cursor", "notes", "--config", "notes", "--yes"], "cannot be read: it is a folder"),
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
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert "医学" in Path(home, PLACES["cursor"]).read_text(encoding="utf-8")


SERVER = """
import os
from carrel import Server

app = Server("books")

@app.tool
def key() -> str:
    return os.environ["KEY"]
"""


@pytest.mark.parametrize("client", ["cursor", "codex"])
def test_a_python_file_with_a_server_is_run_with_its_environment_which_is_not_shown(home, client, capsys):
    (home / "shop").mkdir()
    (home / "shop" / "server.py").write_text(SERVER)
    assert main(["install", client, "shop/server.py", "--env", "KEY=geheim", "--yes"]) == 0
    shown = capsys.readouterr()
    assert "KEY" in shown.out
    assert "geheim" not in shown.out + shown.err
    entry = servers(home, client)["shop"]
    assert entry["args"][-2:] == ["run", str(home / "shop" / "server.py")]
    with sdk_session(entry["command"], *entry["args"], env=entry["env"]) as session:
        assert session.tool("key") == "geheim"

    assert main(["install", client, "shop/server.py", "--env", "OTHER=x", "--env", "KEY=anders", "--yes"]) == 0
    assert servers(home, client)["shop"]["env"] == {"KEY": "anders", "OTHER": "x"}
    assert main(["install", client, "shop/server.py", "--env", "KEY=neu", "--yes"]) == 0
    shown = capsys.readouterr()
    assert "not shown" in shown.out
    assert "neu" not in shown.out
    assert main(["install", client, "shop/server.py", "--remove", "--yes"]) == 0
    assert (
        "shop" not in servers(home, client) if client == "cursor" else "shop" not in (home / PLACES[client]).read_text()
    )


def test_a_variable_without_a_value_is_that_of_the_shell(home, monkeypatch):
    monkeypatch.setenv("KEY", "geheim")
    assert main(["install", "mcp.json", "notes", "--env", "KEY", "--yes"]) == 0
    assert servers(home, "mcp.json")["notes"]["env"] == {"KEY": "geheim"}


def test_secrets_of_other_servers_are_not_shown_either(home, capsys):
    file = home / PLACES["cursor"]
    file.parent.mkdir()
    other = {"command": "x", "env": {"A": "geheim ${A} {x}", "B": "1"}, "headers": {"Authorization": "Bearer geheim"}}
    file.write_text(json.dumps({"mcpServers": {"other": other}}, indent=2))
    assert main(["install", "cursor", "notes", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "geheim" not in shown
    assert '"Authorization": "********"' in shown


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("vscode", '{"servers": {"other": {"command": "x", "env": { // it\'s {a} "comment\n "K": "geheim"}}}}\n'),
        ("vscode", '{"servers": {"other": {"command": "x", "env": {"K": {"nested": "geheim"}}}}}\n'),
        ("codex", '[mcp_servers.other]\ncommand = "x"\nenv.K = "geheim"\n"env".J = "geheimer"\n'),
        ("codex", '[mcp_servers.other]\ncommand = "x"\n[mcp_servers.other.\'env\']\nK = "geheim"\n'),
        ("codex", '[mcp_servers.other]\ncommand = "x"\n[mcp_servers.other.env]\nK = """\nA1\ngeheim\n"""\n'),
    ],
)
def test_secrets_in_an_unusual_form_are_not_shown(home, capsys, client, text):
    file = home / "config"
    file.write_text(text)
    assert main(["install", client, "notes", "--config", str(file), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "notes" in shown
    assert "geheim" not in shown


def test_a_python_file_without_a_server_is_shared_and_a_name_in_a_file_is_kept(home):
    (home / "script.py").write_text("print('x')\n")
    (home / "books.py").write_text(SERVER)
    assert main(["install", "cursor", "script.py", "--yes"]) == 0
    assert main(["install", "cursor", "books.py:app", "--yes"]) == 0
    assert main(["install", "cursor", "books.py", "script.py", "--name", "both", "--yes"]) == 0
    found = servers(home, "cursor")
    assert found["script"]["args"][-2:] == ["serve", str(home / "script.py")]
    assert found["books"]["args"][-2:] == ["run", f"{home}/books.py:app"]
    assert found["both"]["args"][-4:] == ["serve", str(home / "books.py"), str(home / "script.py"), "--name=both"]
    assert main(["install", "cursor", "books.py", "--no-tools", "--yes"]) == 2


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://127.0.0.1:8000/mcp", "carrel"),
        ("http://localhost:8000/mcp", "carrel"),
        ("https://mcp.notion.com/mcp", "notion"),
        ("https://api.shop.example.co/mcp?x=1", "shop-example"),
    ],
)
def test_a_url_is_installed_under_the_name_of_its_host(home, url, name):
    assert main(["install", "gemini-cli", url, "--yes"]) == 0
    assert servers(home, "gemini-cli") == {name: {"httpUrl": url}}
    assert main(["install", "gemini-cli", url, "--remove", "--yes"]) == 0
    assert servers(home, "gemini-cli") == {}


def test_codex_keeps_what_else_is_in_its_file_and_in_the_entry(home, capsys):
    file = home / PLACES["codex"]
    file.parent.mkdir()
    (home / "books.py").write_text(SERVER)
    file.write_text('# mine\nmodel = "x"\n\n[tui]\na = [1, 2] # list\n')
    assert main(["install", "codex", "books.py", "--yes"]) == 0
    text = file.read_text()
    assert text.startswith('# mine\nmodel = "x"\n\n[tui]\na = [1, 2] # list\n\n[mcp_servers.books]\ncommand = ')
    file.write_text(f"{text}# of mine\nenabled = false\n\n[after]\nb = 1\n")
    assert main(["install", "codex", "books.py:app", "--env", "KEY=geheim", "--yes"]) == 0
    after = file.read_text()
    assert after.endswith('enabled = false\nenv = { KEY = "geheim" }\n\n[after]\nb = 1\n')
    assert "# of mine\n" in after
    assert "geheim" not in capsys.readouterr().out
