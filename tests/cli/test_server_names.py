"""Servers by their names in carrel.toml and in the configurations of applications, as targets of commands."""

import json
import sys

import pytest

from carrel.cli import main
from carrel.cli.server_names import find_server, names_of_servers
from carrel.cli.target import resolve
from carrel.errors import ConfigError
from support.carrel_process import BOOKS

SHOP = """
from carrel import Server
import os, pathlib
app = Server("shop")

@app.tool
def buy(what: str) -> str:
    return f"{what} for {os.environ.get('CUSTOMER')} in {pathlib.Path.cwd().name}"
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A machine with nothing on it but this folder, which is the working directory too."""
    for name in ("HOME", "USERPROFILE", "XDG_CONFIG_HOME", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    here = tmp_path / "here"
    (tmp_path / "home").mkdir()
    here.mkdir()
    monkeypatch.chdir(here)
    return here


def command(file):
    return {"command": sys.executable, "args": ["-m", "carrel", "run", str(file)]}


def write_json(file, **servers):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mcpServers": servers}))


def write_toml(file, **servers):
    lines = []
    for name, entry in servers.items():
        lines += [f"[servers.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
    file.write_text("\n".join(lines) + "\n")


def test_a_server_of_carrel_toml_is_asked_by_its_name_with_its_environment_and_folder(home, capfd, monkeypatch):
    (home / "inner").mkdir()
    (home / "shop_app.py").write_text(SHOP)
    entry = command(home / "shop_app.py")
    with (home / "carrel.toml").open("w") as file:
        file.write(f"[servers.shop]\ncommand = {json.dumps(entry['command'])}\nargs = {json.dumps(entry['args'])}\n")
        file.write('env = { CUSTOMER = "${env:WHO}" }\ncwd = "inner"\n')
    monkeypatch.setenv("WHO", "Ada")
    for target in ("shop", "@shop"):
        assert main(["call", target, "buy", "what=lamp"]) == 0
        assert capfd.readouterr().out == "lamp for Ada in inner\n"
    monkeypatch.delenv("WHO")
    assert main(["call", "shop", "buy", "what=lamp"]) == 2
    assert "WHO" in capfd.readouterr().err


def test_a_server_of_an_application_is_asked_by_its_name(home, capfd):
    write_json(home / ".mcp.json", books=command(BOOKS))
    assert main(["tools", "books", "add"]) == 0
    assert "Add two numbers" in capfd.readouterr().out


def test_carrel_toml_goes_before_applications_and_different_servers_of_these_are_not_guessed(home):
    write_json(home / ".mcp.json", far={"url": "https://one.example.org/mcp"})
    write_json(home / ".cursor/mcp.json", far={"url": "https://two.example.org/mcp"})
    with pytest.raises(ConfigError, match=r"2 different servers 'far': write far-claude-code .* or far-cursor"):
        resolve("far")
    assert resolve("far-cursor").server == "https://two.example.org/mcp"
    assert resolve("@far-claude-code").server == "https://one.example.org/mcp"
    write_toml(home / "carrel.toml", far={"url": "https://three.example.org/mcp"})
    assert resolve("far").server == "https://three.example.org/mcp"
    write_json(home / ".cursor/mcp.json", far={"url": "https://one.example.org/mcp"})
    (home / "carrel.toml").unlink()
    assert resolve("far").server == "https://one.example.org/mcp"  # the same one twice


@pytest.mark.parametrize(
    ("make", "said"), [("notes/", "a folder here"), ("notes", "a file here"), ("notes.py", "a module")]
)
def test_a_name_that_is_also_a_file_or_folder_here_is_not_guessed(home, make, said):
    write_toml(home / "carrel.toml", notes={"url": "https://example.org/mcp"})
    if make.endswith("/"):
        (home / make).mkdir()
    else:
        (home / make).write_text("")
    with pytest.raises(
        ConfigError, match=f"notes is {said}.* and a server of .*: write ./{make.rstrip('/')} or @notes"
    ):
        resolve("notes")
    assert resolve("@notes").server == "https://example.org/mcp"
    assert resolve(f"./{make}" if make != "notes" else "@notes").server


def test_an_unknown_name_is_answered_with_a_near_one_or_all(home):
    with pytest.raises(ConfigError, match=r"'github' is no file, .* or an application; no server is configured"):
        resolve("github")
    write_toml(home / "carrel.toml", github={"url": "https://example.org/mcp"}, zoo={"url": "https://zoo.example/mcp"})
    with pytest.raises(ConfigError, match="did you mean 'github'"):
        resolve("gihtub")
    with pytest.raises(ConfigError, match="there are: github, zoo"):
        resolve("@qqq")


def test_a_disabled_or_broken_entry_is_named(home):
    write_toml(home / "carrel.toml", off={"url": "https://example.org/mcp", "disabled": True}, bad={"url": 3})
    with pytest.raises(ConfigError, match=r"'off' is disabled in .*carrel.toml"):
        resolve("off")
    with pytest.raises(ConfigError, match="bad"):
        resolve("bad")


@pytest.mark.parametrize(
    "target", ["./x", "a/b", "server.py", "server.py:app", "https://x.example/mcp", "npx -y x", "a:b", "json"]
)
def test_paths_urls_commands_and_modules_are_no_names(home, target):
    assert find_server(target) is None


def test_headers_and_time_limits_of_a_configuration_hold_unless_the_command_line_says_otherwise(home):
    import argparse

    from carrel.cli.client.connection import TIMEOUT, open_client, settings

    (home / "carrel.toml").write_text(
        '[servers.far]\nurl = "https://example.org/mcp"\ntimeout = 7\n'
        'headers = { X-Team = "blue", Authorization = "Bearer ${T:-t}" }\n'
    )
    whom = resolve("far")
    options = argparse.Namespace(timeout=TIMEOUT, header=["X-Team: red"], quiet=True)
    assert open_client(whom, options).session.timeout == 7
    http, process = settings(whom, options)
    assert process is None
    assert http.headers == {"X-Team": "red", "Authorization": "Bearer t"}
    assert open_client(whom, argparse.Namespace(timeout=3, header=[], quiet=True)).session.timeout == 3


def test_names_are_listed_with_those_of_carrel_toml_first(home):
    write_json(home / ".mcp.json", zoo={"url": "https://zoo.example/mcp"}, far={"url": "https://one.example.org/mcp"})
    write_toml(home / "carrel.toml", far={"url": "https://three.example.org/mcp"})
    names = names_of_servers()
    assert next(iter(names)) == "far"
    assert set(names) == {"far", "zoo", "far-carrel", "far-claude-code"}


def test_a_login_takes_the_name_of_a_server_with_a_url(home, capsys):
    write_toml(home / "carrel.toml", local={"command": "true"})
    assert main(["logout", "local"]) == 2
    assert "only servers over HTTP have logins" in capsys.readouterr().err
