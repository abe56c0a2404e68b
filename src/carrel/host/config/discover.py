"""Discovery of MCP servers that are configured on this machine, in the configuration files of all applications."""

from __future__ import annotations

import os
import sys
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path

import msgspec

from carrel.errors import ConfigError
from carrel.host.config.applications import CLIENTS, locate
from carrel.host.config.read import read_file
from carrel.host.config.server_config import ConfigFile, ServerConfig

__all__ = ["discover", "unique"]


def discover(
    *, workspace: Path | None = None, platform: str = sys.platform, environment: Mapping[str, str] | None = None
) -> list[ConfigFile]:
    """Find the applications' configuration files on this machine, and return them with their servers.

    This includes the user's files, and the files of the project in ``workspace`` (by default, the working directory).
    ``environment`` has the variables for locating the files: HOME, XDG_CONFIG_HOME, APPDATA …
    """
    environment = os.environ if environment is None else environment
    workspace = (Path.cwd() if workspace is None else workspace).absolute()
    found: dict[Path, ConfigFile] = {}
    for name, client in CLIENTS.items():
        locations: list[tuple[Path, str | None]] = []
        if name != "mcp.json":
            try:
                locations.append((locate(client, platform, environment), None))
            except ConfigError:
                continue  # there is no home directory
        if client.workspace is not None:
            locations.append((workspace / client.workspace, str(workspace)))
        for file, folder in locations:
            if file.is_file() and file not in found:
                found[file] = read_file(file, name, workspace=folder)
    return [file for file in found.values() if file.servers or file.problems]


def unique(files: Iterable[ConfigFile]) -> list[ServerConfig]:
    """Return the servers in some files under unique names, without duplicates.

    If two different servers have the same name, the name of the later server gets the name of its application as a
    suffix, and a number if necessary.
    """
    found: dict[str, ServerConfig] = {}
    identities: set[Hashable] = set()
    numbers: dict[str, int] = {}
    for file in files:
        for server in file.servers:
            if server.identity in identities:
                continue
            identities.add(server.identity)
            name, other = server.name, f"{server.name}-{file.application}"
            while name in found:
                number = numbers[other] = numbers.get(other, 0) + 1
                name = other if number == 1 else f"{other}-{number}"
            found[name] = msgspec.structs.replace(server, name=name)
    return list(found.values())
