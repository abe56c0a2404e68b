"""Where each application keeps its servers, on every operating system."""

import os
from pathlib import Path

import pytest

from carrel.errors import ConfigError
from carrel.host.config.applications import CLIENTS, locate

CLAUDE = "claude_desktop_config.json"


def unix(home: Path) -> dict[str, str]:
    return {"HOME": str(home)}


def windows(home: Path) -> dict[str, str]:
    return {
        "USERPROFILE": str(home),
        "APPDATA": str(home / "AppData" / "Roaming"),
        "LOCALAPPDATA": str(home / "AppData" / "Local"),
    }


@pytest.mark.parametrize(
    ("client", "platform", "expected"),
    [
        ("claude-desktop", "darwin", f"Library/Application Support/Claude/{CLAUDE}"),
        ("claude-desktop", "linux", f".config/Claude/{CLAUDE}"),
        ("claude-desktop", "win32", f"AppData/Roaming/Claude/{CLAUDE}"),
        ("vscode", "darwin", "Library/Application Support/Code/User/mcp.json"),
        ("vscode", "linux", ".config/Code/User/mcp.json"),
        ("vscode", "win32", "AppData/Roaming/Code/User/mcp.json"),
        ("cursor", "darwin", ".cursor/mcp.json"),
        ("cursor", "linux", ".cursor/mcp.json"),
        ("cursor", "win32", ".cursor/mcp.json"),
        ("zed", "darwin", ".config/zed/settings.json"),
        ("zed", "linux", ".config/zed/settings.json"),
        ("zed", "win32", "AppData/Roaming/Zed/settings.json"),
        *(
            (client, platform, place)
            for platform in ("darwin", "linux", "win32")
            for client, place in {
                "claude-code": ".claude.json",
                "windsurf": ".codeium/windsurf/mcp_config.json",
                "gemini-cli": ".gemini/settings.json",
                "codex": ".codex/config.toml",
            }.items()
        ),
    ],
)
def test_each_application_has_its_place_on_each_system(tmp_path, client, platform, expected):
    environment = windows(tmp_path) if platform == "win32" else unix(tmp_path)
    assert locate(CLIENTS[client], platform, environment) == tmp_path / expected


@pytest.mark.parametrize("client", ["claude-desktop", "vscode"])
def test_xdg_config_home_moves_the_files_on_linux_only(tmp_path, client):
    environment = unix(tmp_path) | {"XDG_CONFIG_HOME": str(tmp_path / "elsewhere")}
    assert (tmp_path / "elsewhere") in locate(CLIENTS[client], "linux", environment).parents
    assert (tmp_path / "elsewhere") not in locate(CLIENTS[client], "darwin", environment).parents


def test_a_relative_xdg_config_home_is_ignored_as_its_specification_asks(tmp_path):
    environment = unix(tmp_path) | {"XDG_CONFIG_HOME": "relative"}
    assert locate(CLIENTS["vscode"], "linux", environment) == tmp_path / ".config/Code/User/mcp.json"


def test_windows_without_appdata_uses_the_profile(tmp_path):
    environment = {"USERPROFILE": str(tmp_path)}
    assert locate(CLIENTS["claude-desktop"], "win32", environment) == tmp_path / f"AppData/Roaming/Claude/{CLAUDE}"


def test_portable_vscode_keeps_its_files_with_it(tmp_path):
    environment = unix(tmp_path) | {"VSCODE_PORTABLE": str(tmp_path / "stick")}
    assert locate(CLIENTS["vscode"], "linux", environment) == tmp_path / "stick/user-data/User/mcp.json"


def test_claude_as_a_windows_package_has_a_place_of_its_own(tmp_path):
    package = tmp_path / "AppData/Local/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude"
    package.mkdir(parents=True)
    assert locate(CLIENTS["claude-desktop"], "win32", windows(tmp_path)) == package / CLAUDE


def test_of_several_claude_files_the_one_written_last_is_in_use(tmp_path):
    roaming = tmp_path / "AppData/Roaming/Claude" / CLAUDE
    package = tmp_path / "AppData/Local/Packages/Claude_abc/LocalCache/Roaming/Claude" / CLAUDE
    for file in (roaming, package):
        file.parent.mkdir(parents=True)
        file.write_text("{}")
    os.utime(package, (1_000, 1_000))
    os.utime(roaming, (2_000, 2_000))
    assert locate(CLIENTS["claude-desktop"], "win32", windows(tmp_path)) == roaming
    os.utime(package, (3_000, 3_000))
    assert locate(CLIENTS["claude-desktop"], "win32", windows(tmp_path)) == package


@pytest.mark.parametrize(("platform", "variable"), [("linux", "HOME"), ("darwin", "HOME"), ("win32", "USERPROFILE")])
@pytest.mark.parametrize("client", [client for client in CLIENTS if client != "mcp.json"])
def test_without_a_home_the_error_names_the_variable_and_the_way_out(client, platform, variable):
    with pytest.raises(ConfigError, match=f"{variable} is not set.*--config"):
        locate(CLIENTS[client], platform, {})


def test_an_entry_says_its_type_only_where_the_application_wants_it():
    assert CLIENTS["vscode"].command("carrel", ["serve"]) == {"type": "stdio", "command": "carrel", "args": ["serve"]}
    assert CLIENTS["vscode"].remote("http://x/mcp") == {"type": "http", "url": "http://x/mcp"}
    assert CLIENTS["cursor"].command("carrel", ["serve"]) == {"command": "carrel", "args": ["serve"]}
    assert CLIENTS["cursor"].remote("http://x/mcp") == {"url": "http://x/mcp"}
    assert CLIENTS["codex"].command("carrel", [], {"A": "b"}) == {"command": "carrel", "args": [], "env": {"A": "b"}}


def test_a_url_is_written_in_the_syntax_of_each_application():
    written = {name: client.remote("http://x/mcp") for name, client in CLIENTS.items() if client.url is not None}
    typed, plain = {"type": "http", "url": "http://x/mcp"}, {"url": "http://x/mcp"}
    assert written == {
        "claude-code": typed,
        "vscode": typed,
        "cursor": plain,
        "zed": plain,
        "windsurf": {"serverUrl": "http://x/mcp"},
        "gemini-cli": {"httpUrl": "http://x/mcp"},
        "codex": plain,
        "mcp.json": typed,
    }


def test_codex_home_and_a_plain_file_are_where_they_are_said_to_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert locate(CLIENTS["codex"], "linux", {"CODEX_HOME": "/opt/codex"}) == Path("/opt/codex/config.toml")
    assert locate(CLIENTS["mcp.json"], "linux", {}) == tmp_path / "mcp.json"
