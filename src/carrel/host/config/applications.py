"""Client applications: locations and formats of their configuration files for MCP servers.

Locations and formats, according to the documentation of each application:

- Claude Desktop: https://modelcontextprotocol.io/docs/develop/connect-local-servers
- Claude Code: https://code.claude.com/docs/en/mcp
- VS Code: https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
- Cursor: https://cursor.com/docs/context/mcp
- Zed: https://zed.dev/docs/ai/mcp
- Windsurf: https://docs.windsurf.com/windsurf/cascade/mcp
- Gemini CLI: https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md
- Codex: https://developers.openai.com/codex/mcp
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from carrel.errors import ConfigError

__all__ = ["CLIENTS", "URL_KEYS", "ClientApplication", "locate"]


class ClientApplication(NamedTuple):
    """Client application.

    ``section`` is the key of the section with the servers, ``workspace`` the path of the file inside a project (None if
    not supported), ``url`` the key for the URL of a remote server (None if not supported), ``typed`` whether an entry
    has a key for the transport.
    """

    name: str
    title: str
    section: str
    next_step: str
    format: Literal["json", "jsonc", "toml"] = "jsonc"
    typed: bool = False
    workspace: str | None = None
    url: str | None = "url"

    def command(self, command: str, arguments: list[str], env: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the entry for a stdio server, which the application starts as a process."""
        entry: dict[str, Any] = {"type": "stdio"} if self.typed else {}
        entry |= {"command": command, "args": arguments}
        return entry | {"env": dict(env)} if env else entry

    def remote(self, url: str) -> dict[str, Any]:
        """Return the entry for a running HTTP server.

        Raises:
            ConfigError: the application's file does not support URLs.
        """
        if self.url is None:
            raise ConfigError(
                f"{self.title} reads only commands from its configuration file: give it a file or a folder, "
                "or add the URL in its settings, under Connectors (which takes servers on the internet)"
            )
        entry: dict[str, Any] = {"type": "http"} if self.typed else {}
        return entry | {self.url: url}


CLIENTS = {
    client.name: client
    for client in (
        ClientApplication(
            name="claude-desktop",
            title="Claude Desktop",
            section="mcpServers",
            format="json",
            url=None,
            next_step="Quit Claude Desktop completely and open it again. "
            "The server is then listed in Settings > Developer.",
        ),
        ClientApplication(
            name="claude-code",
            title="Claude Code",
            section="mcpServers",
            format="json",
            typed=True,
            workspace=".mcp.json",
            next_step="Start Claude Code again; /mcp shows the server. One in a project it asks about first.",
        ),
        ClientApplication(
            name="vscode",
            title="VS Code",
            section="servers",
            typed=True,
            workspace=".vscode/mcp.json",
            next_step="In VS Code, run 'MCP: List Servers' from the command palette and start the server there. "
            "Its resources are under Add Context > MCP Resources in the chat.",
        ),
        ClientApplication(
            name="cursor",
            title="Cursor",
            section="mcpServers",
            workspace=".cursor/mcp.json",
            next_step="In Cursor, open Settings > MCP and switch the server on.",
        ),
        ClientApplication(
            name="zed",
            title="Zed",
            section="context_servers",
            workspace=".zed/settings.json",
            next_step="In Zed, the settings of the Agent Panel show the server, with a green dot once it runs.",
        ),
        ClientApplication(
            name="windsurf",
            title="Windsurf",
            section="mcpServers",
            format="json",
            url="serverUrl",
            next_step="In Windsurf, press refresh in the MCP settings of Cascade.",
        ),
        ClientApplication(
            name="gemini-cli",
            title="Gemini CLI",
            section="mcpServers",
            workspace=".gemini/settings.json",
            url="httpUrl",  # there, "url" means HTTP+SSE
            next_step="Start Gemini CLI again; /mcp shows the server.",
        ),
        ClientApplication(
            name="codex",
            title="Codex",
            section="mcp_servers",
            format="toml",
            workspace=".codex/config.toml",
            next_step="Start Codex again; /mcp shows the server. A project's file is read once you trust the project.",
        ),
        ClientApplication(
            name="mcp.json",
            title="an mcp.json",
            section="mcpServers",
            format="json",
            typed=True,
            workspace="mcp.json",
            next_step="Give the file to an application that reads this format.",
        ),
    )
}
#: Keys that applications use for the URL of a remote server.
URL_KEYS = tuple(dict.fromkeys(client.url for client in CLIENTS.values() if client.url is not None))


def locate(client: ClientApplication, platform: str, environment: Mapping[str, str]) -> Path:
    """Return the path of the user's configuration file for ``client``. The file may not exist.

    ``platform`` is a value of ``sys.platform``, ``environment`` the process's environment variables.

    Raises:
        ConfigError: the environment variable for the home directory is not set.
    """
    name = client.name
    if name == "mcp.json":
        return Path("mcp.json").absolute()
    if name == "vscode":
        if portable := environment.get("VSCODE_PORTABLE"):
            return Path(portable, "user-data", "User", "mcp.json")
        return application_data(platform, environment) / "Code" / "User" / "mcp.json"
    if name == "zed":
        if platform == "darwin":
            return home(platform, environment) / ".config" / "zed" / "settings.json"
        folder = "Zed" if platform == "win32" else "zed"
        return application_data(platform, environment) / folder / "settings.json"
    if name == "codex" and (folder := environment.get("CODEX_HOME", "")):
        return Path(folder, "config.toml")
    if name in IN_HOME:
        return home(platform, environment) / IN_HOME[name]
    folders = [application_data(platform, environment) / "Claude"]
    if platform == "win32":
        folders = packaged_claude(environment) + folders
    return most_used([folder / "claude_desktop_config.json" for folder in folders])


#: Files with the same path below the home directory on every platform.
IN_HOME = {
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "gemini-cli": ".gemini/settings.json",
    "codex": ".codex/config.toml",
}


def home(platform: str, environment: Mapping[str, str]) -> Path:
    variable = "USERPROFILE" if platform == "win32" else "HOME"
    if not environment.get(variable):
        raise ConfigError(f"{variable} is not set, so there is no telling where your files are; use --config FILE")
    return Path(environment[variable])


def application_data(platform: str, environment: Mapping[str, str]) -> Path:
    """Return the platform's folder for application settings."""
    if platform == "darwin":
        return home(platform, environment) / "Library" / "Application Support"
    if platform == "win32":
        roaming = environment.get("APPDATA")
        return Path(roaming) if roaming else home(platform, environment) / "AppData" / "Roaming"
    configuration = environment.get("XDG_CONFIG_HOME", "")
    return Path(configuration) if configuration.startswith("/") else home(platform, environment) / ".config"


def packaged_claude(environment: Mapping[str, str]) -> list[Path]:
    """Return the folders of Claude Desktop installed as a Windows package, which does not use %APPDATA%\\Claude."""
    local = environment.get("LOCALAPPDATA")
    if not local:
        return []
    packages = sorted(Path(local, "Packages").glob("Claude_*"))
    data = sorted(Path(local, "Claude-Data").glob("[Cc]laude*"))
    return [*data, *(package / "LocalCache" / "Roaming" / "Claude" for package in packages)]


def most_used(files: list[Path]) -> Path:
    """Return the most recently modified file, or the first file whose folder exists, or the first file."""
    existing = [file for file in files if file.is_file()]
    if existing:
        return max(existing, key=lambda file: file.stat().st_mtime)
    return next((file for file in files if file.parent.is_dir()), files[0])
