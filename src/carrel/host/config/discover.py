"""Discovery of the servers that are configured on this machine, in the files of all applications."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
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
    """Return the configuration files of applications that exist on this machine, with their servers.

    They are those of the user, and those of the project in ``workspace`` (by default, the working directory).
    ``environment`` has HOME, XDG_CONFIG_HOME, APPDATA …, by which the files are found.
    """
    environment = os.environ if environment is None else environment
    workspace = (Path.cwd() if workspace is None else workspace).absolute()
    found: dict[Path, ConfigFile] = {}
    for name, client in CLIENTS.items():
        places: list[tuple[Path, str | None]] = []
        if name != "mcp.json":
            try:
                places.append((locate(client, platform, environment), None))
            except ConfigError:
                continue  # there is no home directory
        if client.workspace is not None:
            places.append((workspace / client.workspace, str(workspace)))
        for file, folder in places:
            if file.is_file() and file not in found:
                found[file] = read_file(file, name, workspace=folder)
    return [file for file in found.values() if file.servers or file.problems]


def unique(files: Iterable[ConfigFile]) -> list[ServerConfig]:
    """Return the servers of files under unique names, without those that are the same in several.

    Of different servers with one name, the later gets the name of its application, and a number if need be.
    """
    found: dict[str, ServerConfig] = {}
    for file in files:
        for server in file.servers:
            same = [one for one in found.values() if one.same_as(msgspec.structs.replace(server, name=one.name))]
            if any(one.name.startswith(server.name) for one in same):
                continue
            name, number = server.name, 1
            while name in found:
                number += 1
                name = f"{server.name}-{file.application}" + (f"-{number - 1}" if number > 2 else "")
            found[name] = msgspec.structs.replace(server, name=name)
    return list(found.values())
