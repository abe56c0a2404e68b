"""Targets of commands that use many servers: URLs, commands, files, folders, names of servers, configuration files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from carrel.cli.target import ServerTarget, resolve, split
from carrel.cli.values import header
from carrel.errors import ConfigError
from carrel.host.config import ServerConfig

__all__ = ["COMMAND", "HostTargets", "read_host_targets"]

#: ``NAME=TARGET`` gives a server a name. URLs have no ``=`` before their colon.
NAMED = re.compile(r"([A-Za-z0-9][\w.-]*)=(.+)", re.DOTALL)
CONFIGURATIONS = (".json", ".jsonc", ".toml")
#: Prefix of a target that is a command, even if the command is a single word.
COMMAND = "-- "


class HostTargets(NamedTuple):
    """Servers from the command line, and configuration files with more servers. An open host follows changes of the
    files.
    """

    servers: list[ServerConfig]
    files: list[Path]


def read_host_targets(targets: Iterable[str], headers: Sequence[str] = ()) -> HostTargets:
    """Return the servers named by targets. ``headers`` ("NAME: VALUE") are sent to URL targets.

    Raises:
        ConfigError: a target has no valid form, or a header is invalid.
    """
    found = HostTargets([], [])
    pairs = {name: _literal(value) for name, value in map(header, headers)}
    for target in targets:
        match = NAMED.fullmatch(target)
        name, location = (match[1], match[2]) if match else ("", target)
        file = Path(location).expanduser()
        if (
            file.suffix in CONFIGURATIONS
            and " " not in location
            and not location.lower().startswith(("http:", "https:"))
        ):
            if not file.is_file():
                raise ConfigError(f"there is no configuration file {location}")
            found.files.append(file.absolute())
            continue
        if location.startswith(COMMAND):
            location = location.removeprefix(COMMAND)
            words = split(location)
            server = _given(ServerTarget(words[0], words), location, pairs)
        else:
            found_target = resolve(location, variables=False)
            server = found_target.configured or _given(found_target, location, pairs)
        found.servers.append(_unique(msgspec.structs.replace(server, name=name or server.name), found.servers))
    return found


def _given(target: ServerTarget, location: str, headers: dict[str, str]) -> ServerConfig:
    """Return the configuration of a server given as a URL or a command.

    A command inherits only the few environment variables that a host passes to servers: no model API keys, for example.
    """
    if isinstance(target.server, str):
        name = (urlsplit(target.server).hostname or "server").removeprefix("www.")
        return ServerConfig(name=name, url=_literal(target.server), transport="http", headers=headers)
    command, *arguments = map(_literal, target.server)
    return ServerConfig(name=_name_of(target, location), command=command, args=tuple(arguments))


def _name_of(target: ServerTarget, location: str) -> str:
    """Derive a name from a command: the script or package that it runs, else the program."""
    words = location.split() if " " in location else [location]
    scripts = [word for word in words if Path(word.partition(":")[0]).suffix in (".py", ".js", ".ts")]
    plain = [word for word in words[1:] if not word.startswith("-")]
    runner = Path(words[0]).stem in ("npx", "uvx", "bunx", "pipx", "node", "python", "python3", "uv")
    chosen = (scripts or (plain[:1] if runner else []) or words[:1])[0]
    stem = re.split(r"[\\/]", chosen.rstrip("\\/"))[-1].partition("@")[0].partition(":")[0]
    stem = re.sub(r"\.(py|js|ts|exe)$", "", stem)
    return re.sub(r"[^\w.-]+", "-", stem).strip("-.") or target.name


def _unique(server: ServerConfig, others: Sequence[ServerConfig]) -> ServerConfig:
    names = {other.name for other in others}
    name, number = server.name, 1
    while name in names:
        number += 1
        name = f"{server.name}-{number}"
    return msgspec.structs.replace(server, name=name)


def _literal(text: str) -> str:
    """Escape command-line text for a configuration. The shell has already expanded variables."""
    return text.replace("${", "$${")
