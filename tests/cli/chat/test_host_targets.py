"""Targets of commands that use many servers, and the names that servers get from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from carrel.cli.chat.host_targets import read_host_targets
from carrel.errors import ConfigError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory and home, with a server in a file and a folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "shop.py").write_text("")
    (tmp_path / "notes").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("shop.py", "shop"),
        ("shop.py:app", "shop"),
        ("./notes", "notes"),
        ("https://www.example.org/mcp?x=1", "example.org"),
        ("npx -y @modelcontextprotocol/server-everything", "server-everything"),
        ("python shop.py --fast", "shop"),
        ("uvx mcp-server-git@1.0", "mcp-server-git"),
        ("/usr/bin/thing --stdio", "thing"),
        ("mine=shop.py", "mine"),
        ("-- thing", "thing"),
    ],
)
def test_a_target_gives_its_server_a_name(target: str, name: str) -> None:
    (server,) = read_host_targets([target]).servers
    assert server.name == name


def test_two_servers_of_one_name_get_different_ones() -> None:
    assert [one.name for one in read_host_targets(["shop.py", "python shop.py"]).servers] == ["shop", "shop-2"]


def test_names_are_those_of_carrel_toml_and_files_are_passed_on(folder: Path) -> None:
    (folder / "carrel.toml").write_text('[servers.lamps]\ncommand = "lamps"\n')
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {}}))
    found = read_host_targets(["lamps", "mcp.json"])
    assert [(one.name, one.command) for one in found.servers] == [("lamps", "lamps")]
    assert found.files == [folder / "mcp.json"]
    with pytest.raises(ConfigError, match=r"no server in carrel\.toml or an application; did you mean 'lamps'"):
        read_host_targets(["lamp"])


def test_headers_are_for_urls_and_nothing_of_the_command_line_is_a_variable() -> None:
    web, program = read_host_targets(["https://example.org/${x}", "run ${HOME}"], ["Key: a${b}"]).servers
    assert (web.url, web.headers) == ("https://example.org/$${x}", {"Key": "a$${b}"})
    assert (program.args, program.headers) == (("$${HOME}",), {})
    with pytest.raises(ConfigError, match="a header is 'NAME: VALUE'"):
        read_host_targets([], ["nothing"])
