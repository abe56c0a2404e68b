"""Parser for carrel.toml and the configuration files of other applications.

    mcpServers          Claude Desktop, Claude Code (its projects too), Cursor, Windsurf, Gemini CLI, .mcp.json
    servers, inputs     VS Code
    context_servers     Zed
    [mcp_servers.NAME]  Codex
    [servers.NAME]      carrel.toml, with [inputs.ID]

An invalid entry is reported as a problem; the other entries are still read.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from carrel.errors import ConfigError
from carrel.host.config.applications import CLIENTS
from carrel.host.config.entries import read_entry, read_input
from carrel.host.config.jsonc import JsoncDocument, JsoncError
from carrel.host.config.server_config import ConfigFile, ConfigOrigin, ConfigProblem, Input, ServerConfig
from carrel.near_names import did_you_mean
from carrel.regular_file import read_regular

__all__ = ["application_of", "read_file"]

#: Section with the servers in carrel.toml; section with the inputs in carrel.toml and in VS Code's files.
SERVERS, INPUTS = "servers", "inputs"
#: Sections with servers, and the application to assume if only the section identifies it.
SECTIONS = {"mcpServers": "mcp.json", "servers": "vscode", "context_servers": "zed", "mcp_servers": "codex"}
#: File names, and below folder names, that identify the application.
NAMES = {
    "carrel.toml": "carrel",
    "claude_desktop_config.json": "claude-desktop",
    ".claude.json": "claude-code",
    ".mcp.json": "claude-code",
    "mcp_config.json": "windsurf",
}
#: Names of files that are in a project's folder.
IN_PROJECT = ("carrel.toml", ".mcp.json", "mcp.json")
FOLDERS = {".vscode": "vscode", ".cursor": "cursor", ".zed": "zed", "zed": "zed", ".gemini": "gemini-cli"}


def application_of(file: Path) -> str | None:
    """Identify the application of a file by its name and folder, or return None."""
    if file.name in NAMES:
        return NAMES[file.name]
    if file.suffix == ".toml":
        return "codex" if file.parent.name == ".codex" else "carrel"
    return FOLDERS.get(file.parent.name)


def read_file(file: Path, application: str | None = None, *, workspace: str | None = None) -> ConfigFile:
    """Read the servers in a configuration file. If the file does not exist, there are no servers.

    ``application`` is a key of ``applications.CLIENTS`` or "carrel"; None detects it from the file. ``workspace`` is
    the project folder of the file; for carrel.toml and .mcp.json, the default is the folder of the file.
    """
    file = file.absolute()
    application = application or application_of(file)
    if workspace is None and (application == "carrel" or file.name in IN_PROJECT):
        workspace = str(file.parent.parent if file.parent.name in FOLDERS else file.parent)
    reader = _ServersReader(file, application or "mcp.json", workspace)
    try:
        text = read_regular(file).decode("utf-8-sig")
    except FileNotFoundError:
        return reader.result()
    except OSError as error:
        return reader.failed(f"it cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        return reader.failed("it is not UTF-8 text")
    try:
        if file.suffix == ".toml":
            reader.read_toml(text)
        elif text.strip():
            reader.read_json(JsoncDocument(text), known=application is not None)
    except (JsoncError, tomllib.TOMLDecodeError) as error:
        return reader.failed(str(error))
    return reader.result()


class _ServersReader:
    """Reader for one file, which collects servers and problems."""

    def __init__(self, file: Path, application: str, workspace: str | None) -> None:
        self.file = file
        self.application = application
        self.workspace = workspace
        self.servers: list[ServerConfig] = []
        self.problems: list[ConfigProblem] = []

    def result(self) -> ConfigFile:
        return ConfigFile(self.application, self.file, self.servers, self.problems)

    def failed(self, message: str) -> ConfigFile:
        self.problems.append(ConfigProblem(str(self.file), message))
        return self.result()

    def read_toml(self, text: str) -> None:
        data = tomllib.loads(text)
        section = SERVERS if self.application == "carrel" else CLIENTS[self.application].section
        inputs = data.get(INPUTS, {}) if self.application == "carrel" else {}
        listed = [{"id": id, **one} for id, one in inputs.items() if isinstance(one, dict)]
        lines: dict[str, int] = {}
        for number, line in enumerate(text.splitlines(), 1):
            found = re.match(rf"""\s*\[{section}\.(?:"([^"]+)"|'([^']+)'|([\w-]+))\s*\]""", line)
            if found is not None:
                lines.setdefault(found[1] or found[2] or found[3], number)
        self._read(data.get(section), lines, self._inputs(listed))

    def read_json(self, document: JsoncDocument, *, known: bool) -> None:
        if not isinstance(document.data, dict):
            self.problems.append(ConfigProblem(str(self.file), "an object is expected"))
            return
        section = CLIENTS[self.application].section
        if section not in document.data:
            others = [name for name in SECTIONS if name in document.data]
            if others:
                section, self.application = others[0], self.application if known else SECTIONS[others[0]]
        if section not in document.data and "projects" not in document.data:
            near = [hint for key in document.data if (hint := did_you_mean(key, SECTIONS))]
            if near:
                self.problems.append(ConfigProblem(str(self.file), f"it has no {section}{near[0]}"))
            return
        inputs = self._inputs(document.data.get(INPUTS) or ())
        self._read(document.data.get(section), lines_of(document, (section,)), inputs)
        if self.application == "claude-code" and isinstance(document.data.get("projects"), dict):
            for folder, project in document.data["projects"].items():
                if isinstance(project, dict) and project.get(section):
                    self.workspace = folder
                    lines = lines_of(document, ("projects", folder, section))
                    self._read(project[section], lines, {}, project.get("disabledMcpServers") or (), folder)

    def _inputs(self, given: Any) -> dict[str, Input]:
        inputs: dict[str, Input] = {}
        for one in given if isinstance(given, list) else ():
            try:
                found = read_input(one)
            except ConfigError as error:
                self.problems.append(ConfigProblem(str(self.file), str(error)))
            else:
                inputs[found.id] = found
        return inputs

    def _read(
        self,
        entries: Any,
        lines: Mapping[str, int],
        inputs: Mapping[str, Input],
        disabled: Iterable[str] = (),
        folder: str | None = None,
    ) -> None:
        if entries is None:
            return
        if not isinstance(entries, dict):
            self.problems.append(ConfigProblem(str(self.file), "the servers are an object, by their names"))
            return
        for name, entry in entries.items():
            if self.application == "zed" and isinstance(entry, dict) and not {"command", "url"} & entry.keys():
                continue  # settings of a Zed extension, which provides the command
            origin = ConfigOrigin(self.application, str(self.file), lines.get(name))
            if name in disabled and isinstance(entry, dict):
                entry = {**entry, "disabled": True}
            if folder is not None and isinstance(entry, dict) and "command" in entry:
                entry = {"cwd": folder, **entry}
            try:
                self.servers.append(
                    read_entry(name, entry, self.application, origin=origin, inputs=inputs, workspace=self.workspace)
                )
            except ConfigError as error:
                self.problems.append(ConfigProblem(str(self.file), str(error), name, origin.line))


def lines_of(document: JsoncDocument, path: tuple[str, ...]) -> dict[str, int]:
    """Return the line numbers of the members of the object at a path."""
    start = document.start
    for key in path:
        member = document.find(start, key)
        if member is None:
            return {}
        start = member.value
    lines: dict[str, int] = {}
    line, position = 1, 0
    for member in document.members(start) or ():
        line += document.text.count("\n", position, member.start)
        position = member.start
        lines[member.key] = line
    return lines
