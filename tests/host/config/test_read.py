"""Configuration files of every application, read into one form; bad entries, which leave the others alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from carrel import Server
from carrel.errors import ConfigError
from carrel.host.config import ConfigFile, ServerConfig, discover, read_file, unique

STDIO = {"command": "npx", "args": ["-y", "server"], "env": {"A": "b"}}


def written(file: Path, content: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return file


def only(found: ConfigFile) -> ServerConfig:
    assert not found.problems
    [server] = found.servers
    return server


@pytest.mark.parametrize(
    ("place", "section"),
    [
        ("claude_desktop_config.json", "mcpServers"),
        (".claude.json", "mcpServers"),
        (".mcp.json", "mcpServers"),
        ("mcp.json", "mcpServers"),
        (".cursor/mcp.json", "mcpServers"),
        (".codeium/windsurf/mcp_config.json", "mcpServers"),
        (".gemini/settings.json", "mcpServers"),
        (".vscode/mcp.json", "servers"),
        (".zed/settings.json", "context_servers"),
    ],
)
def test_a_command_is_read_from_the_file_of_each_application(tmp_path: Path, place: str, section: str) -> None:
    server = only(read_file(written(tmp_path / place, {"other": 1, section: {"one": STDIO}})))
    assert (server.name, server.command, server.args, server.env) == ("one", "npx", ("-y", "server"), {"A": "b"})
    assert server.transport == "stdio"
    assert server.origin is not None
    assert server.origin.line == 4


@pytest.mark.parametrize(
    ("place", "section", "entry", "transport"),
    [
        (".mcp.json", "mcpServers", {"type": "http", "url": "http://x/mcp"}, "http"),
        (".mcp.json", "mcpServers", {"type": "sse", "url": "http://x/mcp"}, "sse"),
        (".mcp.json", "mcpServers", {"type": "streamable-http", "url": "http://x/mcp"}, "http"),
        (".cursor/mcp.json", "mcpServers", {"url": "http://x/mcp"}, "http"),
        ("mcp_config.json", "mcpServers", {"serverUrl": "http://x/mcp"}, "http"),
        (".gemini/settings.json", "mcpServers", {"httpUrl": "http://x/mcp"}, "http"),
        (".gemini/settings.json", "mcpServers", {"url": "http://x/mcp"}, "sse"),
        (".vscode/mcp.json", "servers", {"type": "http", "url": "http://x/mcp"}, "http"),
        (".zed/settings.json", "context_servers", {"url": "http://x/mcp"}, "http"),
    ],
)
def test_a_url_is_read_from_the_file_of_each_application(
    tmp_path: Path, place: str, section: str, entry: Any, transport: str
) -> None:
    entry = {**entry, "headers": {"X-Key": "k"}}
    server = only(read_file(written(tmp_path / place, {section: {"one": entry}})))
    assert (server.url, server.headers, server.transport) == ("http://x/mcp", {"X-Key": "k"}, transport)


def test_the_projects_of_claude_code_have_servers_of_their_own(tmp_path: Path) -> None:
    projects = {"/home/me/a": {"mcpServers": {"local": STDIO, "off": STDIO}, "disabledMcpServers": ["off"]}}
    found = read_file(written(tmp_path / ".claude.json", {"mcpServers": {"mine": STDIO}, "projects": projects}))
    assert [(one.name, one.workspace, one.disabled) for one in found.servers] == [
        ("mine", None, False),
        ("local", "/home/me/a", False),
        ("off", "/home/me/a", True),
    ]
    assert [one.cwd for one in found.servers] == [None, "/home/me/a", "/home/me/a"]


def test_a_file_of_a_project_knows_the_folder_of_the_project(tmp_path: Path) -> None:
    assert only(read_file(written(tmp_path / ".mcp.json", {"mcpServers": {"one": STDIO}}))).workspace == str(tmp_path)
    text = "[servers.one]\ncommand = 'x'\n"
    assert only(read_file(written(tmp_path / "carrel.toml", text))).workspace == str(tmp_path)


def test_comments_and_trailing_commas_are_read(tmp_path: Path) -> None:
    text = '{\n  // mine\n  "servers": {"one": {"command": "x",},},\n}'
    assert only(read_file(written(tmp_path / ".vscode/mcp.json", text))).command == "x"


def test_inputs_of_vs_code_belong_to_the_servers_of_their_file(tmp_path: Path) -> None:
    inputs = [
        {"type": "promptString", "id": "key", "description": "The key", "password": True},
        {"type": "pickString", "id": "zone", "options": ["a", "b"], "default": "a"},
        {"type": "command", "id": "other", "command": "x"},
    ]
    found = read_file(written(tmp_path / ".vscode/mcp.json", {"servers": {"one": STDIO}, "inputs": inputs}))
    assert [problem.message for problem in found.problems] == [
        "input 'other': it is of a type that only the application itself can ask for"
    ]
    [server] = found.servers
    assert server.inputs["key"].password
    assert server.inputs["zone"].options == ("a", "b")


def test_zed_has_an_older_form_and_settings_of_extensions(tmp_path: Path) -> None:
    old = {"command": {"path": "npx", "args": ["server"], "env": {"A": "b"}}, "settings": {}}
    content = {"context_servers": {"old": old, "extension": {"settings": {"x": 1}}, "off": {**STDIO, "enabled": False}}}
    first, second = read_file(written(tmp_path / ".zed/settings.json", content)).servers
    assert (first.name, first.command, first.args, first.env) == ("old", "npx", ("server",), {"A": "b"})
    assert (second.name, second.disabled) == ("off", True)


def test_codex_is_read_from_toml(tmp_path: Path) -> None:
    text = """
    [mcp_servers.local]
    command = "npx"
    args = ["server"]
    env_vars = ["TOKEN"]
    startup_timeout_sec = 20
    tool_timeout_sec = 45

    [mcp_servers."far away"]
    url = "https://x/mcp"
    bearer_token_env_var = "TOKEN"
    http_headers = { X-A = "a" }
    env_http_headers = { X-B = "B" }
    enabled = false
    """
    local, far = read_file(written(tmp_path / ".codex/config.toml", text)).servers
    assert (local.env, local.timeout, local.start_timeout) == ({"TOKEN": "${TOKEN:-}"}, 45, 20)
    assert far.headers == {"X-A": "a", "X-B": "${B}", "Authorization": "Bearer ${TOKEN}"}
    assert far.disabled
    assert far.origin is not None
    assert far.origin.line == 9


def test_carrel_toml_has_everything(tmp_path: Path) -> None:
    text = """
    [share]
    paths = ["."]

    [inputs.key]
    description = "The key"
    password = true

    [servers.shop]
    command = ["python", "shop.py"]
    args = ["--fast"]
    env = { KEY = "${input:key}", PORT = 8080 }
    cwd = "${workspaceFolder}"
    env_file = ".env"
    timeout = 5
    start_timeout = 2.5
    isolation = "client"
    revision = "2025-11-25"
    tags = ["work", "sql"]

    [servers.far]
    url = "https://x/mcp"
    transport = "sse"
    disabled = true
    """
    shop, far = read_file(written(tmp_path / "carrel.toml", text)).servers
    assert (shop.command, shop.args, shop.cwd) == ("python", ("shop.py", "--fast"), "${workspaceFolder}")
    assert shop.env == {"KEY": "${input:key}", "PORT": "8080"}
    assert (shop.timeout, shop.start_timeout, shop.isolation, shop.tags) == (5, 2.5, "client", ("work", "sql"))
    assert shop.revision == "2025-11-25"
    assert shop.inputs["key"].description == "The key"
    assert (far.url, far.transport, far.disabled) == ("https://x/mcp", "sse", True)


@pytest.mark.parametrize(("application", "seconds"), [(".gemini/settings.json", 30), (".cursor/mcp.json", 30_000)])
def test_time_limits_are_in_the_unit_of_the_application(tmp_path: Path, application: str, seconds: float) -> None:
    content = {"mcpServers": {"one": {**STDIO, "timeout": 30_000}}}
    assert only(read_file(written(tmp_path / application, content))).timeout == seconds


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("claude_desktop_config.json", "${HOME} $X", "$${HOME} $X"),
        (".gemini/settings.json", "$X-${Y}", "${X:-$X}-${Y}"),
        (".cursor/mcp.json", "${env:X} $X", "${env:X} $X"),
    ],
)
def test_variables_mean_what_they_mean_in_their_application(
    tmp_path: Path, place: str, text: str, expected: str
) -> None:
    content = {"mcpServers": {"one": {"command": "x", "args": [text]}}}
    assert only(read_file(written(tmp_path / place, content))).args == (expected,)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"comand": "x"}, "a command or a url is missing; there is 'comand'; did you mean 'command'?"),
        ({"command": "x", "url": "http://x"}, "it has both a command and url; give one of them"),
        ({"command": "x", "args": "secret"}, "args: a list of texts is expected, not a text"),
        ({"command": "x", "env": {"A": ["secret"]}}, "env.A: a text is expected, not a list"),
        ({"command": 5}, "command: a text is expected, not a number"),
        (
            {"command": "x", "revision": "2025-11-24"},
            "there is no revision '2025-11-24'; they are 2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05",
        ),
        ({"command": "x", "type": "studio"}, "transport: stdio, http or sse is expected; did you mean 'stdio'?"),
        ({"command": "x", "type": "http"}, "the transport is http, which goes with a url"),
        ({"command": "x", "timeout": -1}, "timeout: a number above 0 is expected, not a number"),
        ({"command": "x", "disabled": "yes"}, "disabled: true or false is expected, not a text"),
        ("secret", "an object with a command or a url is expected, not a text"),
    ],
)
def test_a_bad_entry_is_named_and_the_others_are_read(tmp_path: Path, entry: Any, message: str) -> None:
    file = written(tmp_path / "mcp.json", {"mcpServers": {"bad": entry, "good": STDIO}})
    found = read_file(file)
    assert [server.name for server in found.servers] == ["good"]
    [problem] = found.problems
    assert str(problem) == f"{file}:3: server 'bad': {message}"
    assert "secret" not in str(problem)


def test_a_key_that_carrel_toml_does_not_have_is_an_error_with_the_near_one(tmp_path: Path) -> None:
    [problem] = read_file(written(tmp_path / "carrel.toml", "[servers.a]\ncommand = 'x'\narguments = []\n")).problems
    assert problem.message == "there is no key 'arguments'; did you mean 'args'?"
    [problem] = read_file(written(tmp_path / "carrel.toml", "[servers.a]\ncommand = 'x'\nargz = []\n")).problems
    assert (problem.message, problem.line) == ("there is no key 'argz'; did you mean 'args'?", 1)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("mcp.json", "{", "line 1, column 2"),
        ("mcp.json", "[]", "an object is expected"),
        ("mcp.json", '{"mcpServers": []}', "the servers are an object, by their names"),
        ("mcp.json", '{"mcpServer": {}}', "it has no mcpServers; did you mean 'mcpServers'?"),
        ("carrel.toml", "[servers", "at the end of a table declaration"),
    ],
)
def test_a_bad_file_is_one_problem(tmp_path: Path, name: str, text: str, message: str) -> None:
    file = written(tmp_path / name, text)
    [problem] = read_file(file).problems
    assert message in str(problem)
    assert str(file) in str(problem)


def test_a_file_that_is_not_there_has_no_servers(tmp_path: Path) -> None:
    assert not read_file(tmp_path / "mcp.json").servers


def test_a_configuration_shows_no_values() -> None:
    server = ServerConfig(name="a", url="https://x/mcp?key=secret", headers={"K": "secret"}, transport="http")
    assert "secret" not in repr(server)
    with pytest.raises(ConfigError, match="server 'a': give a command or a url"):
        ServerConfig(name="a")


# Discovery


def test_all_files_of_the_user_and_of_the_project_are_discovered(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    written(home / ".config/Claude/claude_desktop_config.json", {"mcpServers": {"desk": STDIO}})
    written(home / ".cursor/mcp.json", {"mcpServers": {"cursor": STDIO}})
    written(home / ".config/Code/User/mcp.json", {"servers": {"code": STDIO}})
    written(home / ".gemini/settings.json", {"theme": "dark"})
    written(home / ".codex/config.toml", "[mcp_servers.codex]\ncommand = 'x'\n")
    written(project / ".mcp.json", {"mcpServers": {"shared": {**STDIO, "cwd": "${workspaceFolder}"}}})
    found = discover(workspace=project, platform="linux", environment={"HOME": str(home)})
    assert {file.application: [server.name for server in file.servers] for file in found} == {
        "claude-desktop": ["desk"],
        "claude-code": ["shared"],
        "vscode": ["code"],
        "cursor": ["cursor"],
        "codex": ["codex"],
    }
    assert next(file for file in found if file.application == "claude-code").servers[0].workspace == str(project)


def test_servers_of_several_files_have_unique_names_and_the_same_one_is_taken_once(tmp_path: Path) -> None:
    files = [
        read_file(written(tmp_path / ".cursor/mcp.json", {"mcpServers": {"git": STDIO}})),
        read_file(written(tmp_path / ".vscode/mcp.json", {"servers": {"git": STDIO}})),
        read_file(written(tmp_path / ".zed/settings.json", {"context_servers": {"git": {"command": "other"}}})),
    ]
    assert [server.name for server in unique(files)] == ["git", "git-zed"]


def test_a_server_in_this_process_is_one_of_three_kinds():
    app = Server("notes")
    config = ServerConfig(name="notes", app=app, transport="memory")
    assert config.shown == "in this process"
    assert config.same_as(ServerConfig(name="notes", app=app, transport="memory"))
    assert not config.same_as(ServerConfig(name="notes", app=Server("notes"), transport="memory"))
    with pytest.raises(ConfigError, match="transport memory"):
        ServerConfig(name="notes", app=app)
    with pytest.raises(ConfigError, match="transport memory"):
        ServerConfig(name="notes", command="x", transport="memory")
    with pytest.raises(ConfigError, match="not both"):
        ServerConfig(name="notes", app=app, command="x", transport="memory")
