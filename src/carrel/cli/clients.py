"""Client applications of ``carrel install``: locations and formats of their configuration files.

Locations, according to the applications' own documentation:

- Claude Desktop: https://modelcontextprotocol.io/docs/develop/connect-local-servers
- VS Code: https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
- Cursor: https://cursor.com/docs/context/mcp
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from carrel.errors import ConfigError

__all__ = ["CLIENTS", "Client", "locate"]


class Client(NamedTuple):
    """Client application. ``section`` is the key of its servers, ``workspace`` its file inside a project (or None)."""

    name: str
    title: str
    section: str
    comments: bool
    typed: bool
    workspace: str | None
    speaks_http: bool
    next_step: str

    def command(self, command: str, arguments: list[str]) -> dict[str, Any]:
        """Return the entry of a stdio server, which the application starts itself."""
        entry: dict[str, Any] = {"type": "stdio"} if self.typed else {}
        return entry | {"command": command, "args": arguments}

    def remote(self, url: str) -> dict[str, Any]:
        """Return the entry of a running HTTP server."""
        entry: dict[str, Any] = {"type": "http"} if self.typed else {}
        return entry | {"url": url}


CLIENTS = {
    client.name: client
    for client in (
        Client(
            name="claude-desktop",
            title="Claude Desktop",
            section="mcpServers",
            comments=False,
            typed=False,
            workspace=None,
            speaks_http=False,
            next_step="Quit Claude Desktop completely and open it again. "
            "The server is then listed in Settings > Developer.",
        ),
        Client(
            name="vscode",
            title="VS Code",
            section="servers",
            comments=True,
            typed=True,
            workspace=".vscode/mcp.json",
            speaks_http=True,
            next_step="In VS Code, run 'MCP: List Servers' from the command palette and start the server there. "
            "Its resources are under Add Context > MCP Resources in the chat.",
        ),
        Client(
            name="cursor",
            title="Cursor",
            section="mcpServers",
            comments=True,
            typed=False,
            workspace=".cursor/mcp.json",
            speaks_http=True,
            next_step="In Cursor, open Settings > MCP and switch the server on.",
        ),
    )
}


def locate(client: Client, platform: str, environment: Mapping[str, str]) -> Path:
    """Return the path of the user's configuration file of ``client``, which need not exist.

    ``platform`` is a value of ``sys.platform``, ``environment`` the process's environment variables.

    Raises:
        ConfigError: the environment does not name the home directory.
    """
    if client.name == "cursor":
        return home(platform, environment) / ".cursor" / "mcp.json"
    if client.name == "vscode":
        if portable := environment.get("VSCODE_PORTABLE"):
            return Path(portable, "user-data", "User", "mcp.json")
        return application_data(platform, environment) / "Code" / "User" / "mcp.json"
    folders = [application_data(platform, environment) / "Claude"]
    if platform == "win32":
        folders = packaged_claude(environment) + folders
    return most_used([folder / "claude_desktop_config.json" for folder in folders])


def home(platform: str, environment: Mapping[str, str]) -> Path:
    variable = "USERPROFILE" if platform == "win32" else "HOME"
    if not environment.get(variable):
        raise ConfigError(f"{variable} is not set, so there is no telling where your files are; use --config FILE")
    return Path(environment[variable])


def application_data(platform: str, environment: Mapping[str, str]) -> Path:
    """Return the folder of application settings."""
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
    """Return the most recently modified file (the one the application uses), or else the first likely one."""
    existing = [file for file in files if file.is_file()]
    if existing:
        return max(existing, key=lambda file: file.stat().st_mtime)
    return next((file for file in files if file.parent.is_dir()), files[0])
