"""``carrel import``: what it finds, what it writes, and that secrets stay where they are."""

import json
import sys
import tomllib

import keyring
import pytest
from keyring.backend import KeyringBackend

from carrel.cli import main
from carrel.host.config import read_file
from carrel.host.config.inputs import Inputs
from carrel.host.config.variables import resolve
from chat.pty_program import in_terminal


class Ring(KeyringBackend):
    """Keyring in memory; ``priority`` below 1 is none that can be used."""

    priority = 5

    def __init__(self):
        self.texts = {}

    def get_password(self, service, username):
        return self.texts.get((service, username))

    def set_password(self, service, username, password):
        self.texts[service, username] = password

    def delete_password(self, service, username):
        del self.texts[service, username]


@pytest.fixture
def ring(monkeypatch):
    ring = Ring()
    monkeypatch.setattr(keyring, "get_keyring", lambda: ring)
    return ring


@pytest.fixture
def home(tmp_path, monkeypatch, ring):
    """A user of two applications, with a project."""
    monkeypatch.setattr(sys, "platform", "linux")
    for variable in ("XDG_CONFIG_HOME", "VSCODE_PORTABLE", "CODEX_HOME", "API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    (tmp_path / ".cursor").mkdir()
    files = {"command": "npx", "args": ["-y", "server-files", "/data"], "env": {"API_KEY": "hunter2"}}
    (tmp_path / ".cursor/mcp.json").write_text(json.dumps({"mcpServers": {"files": files, "bad": {"comand": "x"}}}))
    (project / ".vscode").mkdir()
    inputs = [{"type": "promptString", "id": "zone", "description": "Which zone"}]
    far = {"type": "http", "url": "https://x/mcp", "headers": {"X-Zone": "${input:zone}"}}
    (project / ".vscode/mcp.json").write_text(json.dumps({"servers": {"far": far}, "inputs": inputs}))
    return tmp_path


def written(home):
    return tomllib.loads((home / "project/carrel.toml").read_text())


def test_it_shows_what_there_is_and_takes_it_over(home, ring, capsys):
    assert main(["import", "--yes"]) == 0
    shown = capsys.readouterr()
    assert "server 'bad': a command or a url is missing" in shown.err
    assert "files" in shown.out
    assert "1 to the keyring" in shown.out
    assert "hunter2" not in shown.out + shown.err + (home / "project/carrel.toml").read_text()
    data = written(home)
    assert data["servers"]["files"] == {
        "command": "npx",
        "args": ["-y", "server-files", "/data"],
        "env": {"API_KEY": "${input:files-API_KEY}"},
    }
    assert data["servers"]["far"] == {"url": "https://x/mcp", "headers": {"X-Zone": "${input:zone}"}}
    assert data["inputs"]["zone"] == {"description": "Which zone"}
    assert data["inputs"]["files-API_KEY"]["password"] is True
    assert "hunter2" in ring.texts.values()


async def test_what_was_taken_over_works_as_before(home, ring, monkeypatch):
    from asyncio import to_thread

    assert await to_thread(main, ["import", "files", "--yes"]) == 0
    [server] = read_file(home / "project/carrel.toml").servers
    assert (await resolve(server, inputs=Inputs())).env == {"API_KEY": "hunter2"}


def test_without_a_keyring_secrets_become_environment_variables(home, ring, capsys):
    ring.priority = 0
    assert main(["import", "files", "--yes"]) == 0
    assert "Set these in the environment of Carrel" in (shown := capsys.readouterr().out)
    assert "API_KEY" in shown
    assert written(home)["servers"]["files"]["env"] == {"API_KEY": "${env:API_KEY}"}


def test_a_variable_that_is_set_already_is_used(home, ring, monkeypatch, capsys):
    monkeypatch.setenv("API_KEY", "hunter2")
    assert main(["import", "files", "--yes"]) == 0
    assert written(home)["servers"]["files"]["env"] == {"API_KEY": "${env:API_KEY}"}
    assert not ring.texts


def test_secrets_are_copied_where_that_is_asked_for(home, ring):
    assert main(["import", "files", "--yes", "--keep-secrets"]) == 0
    assert written(home)["servers"]["files"]["env"] == {"API_KEY": "hunter2"}
    assert not ring.texts


def test_nothing_is_written_on_a_dry_run_or_without_a_terminal(home, ring, capsys, monkeypatch):
    assert main(["import", "--dry-run"]) == 0
    assert "Nothing was written (--dry-run)." in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["import"]) == 2
    assert "standard input is not a terminal" in capsys.readouterr().err
    assert not (home / "project/carrel.toml").exists()
    assert not ring.texts


def test_what_is_there_stays_and_a_second_time_changes_nothing(home, capsys):
    file = home / "project/carrel.toml"
    file.write_text('# mine\n[servers.files]\ncommand = "other"\n')
    assert main(["import", "--yes"]) == 0
    assert file.read_text().startswith('# mine\n[servers.files]\ncommand = "other"\n')
    assert set(written(home)["servers"]) == {"files", "files-2", "far"}
    before = file.read_text()
    capsys.readouterr()
    assert main(["import", "--yes"]) == 0
    assert "Nothing to change." in capsys.readouterr().out
    assert file.read_text() == before


def test_a_server_of_another_project_keeps_its_folder(home):
    other = home / "other"
    other.mkdir()
    entry = {"command": "x", "args": ["${workspaceFolder}/y"], "cwd": "${workspaceFolder}"}
    (other / ".mcp.json").write_text(json.dumps({"mcpServers": {"there": entry}}))
    assert main(["import", "--from", str(other / ".mcp.json"), "--yes"]) == 0
    assert written(home)["servers"]["there"] == {"command": "x", "args": [f"{other}/y"], "cwd": str(other)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["file"], "there is no server 'file'; did you mean 'files'?"),
        (["--from", "none.json"], "--from none.json: there is no such file"),
    ],
)
def test_wrong_use_is_an_error_with_the_near_name(home, capsys, arguments, message):
    assert main(["import", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_carrel_config_accepts_and_checks_the_servers_of_hosts(home, capsys):
    assert main(["import", "--yes"]) == 0
    capsys.readouterr()
    assert main(["config", "check"]) == 0
    assert capsys.readouterr().out == "carrel.toml is valid: 2 servers for hosts\n"
    (home / "project/carrel.toml").write_text('[servers.a]\ncomand = "x"\n')
    assert main(["config", "check"]) == 2
    assert "server 'a': there is no key 'comand'; did you mean 'command'?" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="it needs a pseudo-terminal")
def test_a_yes_that_was_typed_before_the_question_is_no_answer(home):
    with in_terminal([sys.executable, "-m", "carrel", "import"]) as terminal:
        terminal.type("y\n")
        terminal.wait_for("[y/N] ")
        terminal.type("n\n")
        terminal.wait_for("Nothing was written.")
        assert terminal.ended() == 1
    assert not (home / "project/carrel.toml").exists()


def applications(home, **files):
    """Write the servers of Cursor, of VS Code's project and of the project's .mcp.json."""
    places = {
        "cursor": (home / ".cursor/mcp.json", "mcpServers"),
        "vscode": (home / "project/.vscode/mcp.json", "servers"),
        "project": (home / "project/.mcp.json", "mcpServers"),
    }
    for name, servers in files.items():
        file, section = places[name]
        file.write_text(json.dumps({section: servers, "inputs": [{"type": "promptString", "id": "zone"}]}))


def test_equal_entries_of_several_applications_become_one(home, capsys):
    notes, other = {"command": "npx", "args": ["notes", "/a"]}, {"command": "npx", "args": ["notes", "/b"]}
    here = {"command": "npx", "args": ["notes", "${workspaceFolder}"]}
    applications(
        home,
        cursor={"notes": notes, "same": notes, "other": other},
        vscode={"notes": {"type": "stdio", **notes}, "other": notes, "here": here},
        project={"notes": dict(reversed(notes.items())), "other": notes, "here": here},
    )
    assert main(["import", "--yes"]) == 0
    assert set(written(home)["servers"]) == {"notes", "same", "other", "other-cursor", "here"}
    before = (home / "project/carrel.toml").read_text()
    assert main(["import", "--yes"]) == 0
    assert (home / "project/carrel.toml").read_text() == before


def test_new_names_do_not_replace_each_other(home):
    (home / "project/carrel.toml").write_text('[servers.a]\ncommand = "old"\n')
    applications(home, cursor={"a": {"command": "one"}, "a-2": {"command": "two"}}, vscode={})
    assert main(["import", "--yes"]) == 0
    commands = {name: entry["command"] for name, entry in written(home)["servers"].items()}
    assert sorted(commands.values()) == ["old", "one", "two"]
    assert commands["a"] == "old"


def test_the_work_grows_with_the_number_of_servers_and_not_with_its_square(home, capsys):
    def work(count):
        """Return how many functions of Carrel and of the standard library are called, per server."""
        servers = {f"s{number}": {"command": "npx", "env": {"API_KEY": f"secret{number}"}} for number in range(count)}
        applications(home, cursor=servers, vscode=servers, project={})
        (home / "project/carrel.toml").unlink(missing_ok=True)
        calls = 0

        def counted(frame, event, argument):
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(counted)
        try:
            assert main(["import", "--yes"]) == 0
        finally:
            sys.setprofile(None)
        assert len(written(home)["servers"]) == count
        return calls / count

    work(1)
    assert work(200) < 1.5 * work(50)
