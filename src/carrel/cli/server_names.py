"""Lookup of servers by name in ./carrel.toml and in the configurations of applications."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from carrel.errors import ConfigError
from carrel.host.config import ConfigFile, ServerConfig, discover, read_file
from carrel.host.config.inputs import Inputs
from carrel.host.config.server_config import Input
from carrel.host.config.variables import resolve
from carrel.near_names import did_you_mean
from carrel.printable import printable

__all__ = ["MARK", "find_server", "names_of_servers", "resolved_server"]

#: Prefix of a target that can only be a server name.
MARK = "@"


def configurations() -> list[ConfigFile]:
    """Return the configurations on this machine: ./carrel.toml, then the configurations of applications."""
    own = read_file(Path("carrel.toml"))
    return [own, *discover()]


def names_of_servers(files: Sequence[ConfigFile] | None = None) -> dict[str, list[ServerConfig]]:
    """Return all servers by name, with the servers of ./carrel.toml first. A name may have several different servers.

    If a name has several servers, each is also listed with the application as a suffix: ``github-cursor``.
    """
    found: dict[str, list[ServerConfig]] = {}
    for file in configurations() if files is None else files:
        for server in file.servers:
            others = found.setdefault(server.name, [])
            if not any(one.same_as(server) for one in others):
                others.append(server)
    for name, servers in list(found.items()):
        for server in servers if len(servers) > 1 else ():
            application = server.origin.application if server.origin is not None else "carrel"
            found.setdefault(f"{name}-{application}", []).append(server)
    return found


def find_server(target: str) -> ServerConfig | None:
    """Return the server named by a target, ``@NAME`` or NAME, or None if the target is not a server name.

    A server in ./carrel.toml takes precedence over servers of applications.

    Raises:
        ConfigError: the name is unknown, ambiguous, also a file, or the server is disabled.
    """
    name = target.removeprefix(MARK)
    if not target.startswith(MARK) and not is_plain(target):
        return None
    files = configurations()
    servers = names_of_servers(files)
    found = servers.get(name, [])
    if not found:
        if not target.startswith(MARK) and is_module(name):
            return None
        problem = next((str(each) for file in files for each in file.problems if each.entry in (name, None)), None)
        raise ConfigError(unknown(name, list(servers)) + (f" ({problem})" if problem else ""))
    if not target.startswith(MARK) and (clash := describe_path(name)) is not None:
        raise ConfigError(
            f"{name} is {clash}, and a server of {shown_origin(found[0])}: write ./{clash_name(name)} or @{name}"
        )
    chosen = found[0]
    if len(found) > 1 and not is_own(chosen):
        every = " or ".join(f"{name}-{application_of(one)} ({shown_origin(one)})" for one in found)
        raise ConfigError(f"there are {len(found)} different servers {name!r}: write {every}")
    if chosen.disabled:
        raise ConfigError(f"the server {name!r} is disabled in {shown_origin(chosen)}")
    return chosen


def resolved_server(server: ServerConfig) -> ServerConfig:
    """Return a configuration with all variables replaced. Prompts for inputs that are not in the keyring.

    Raises:
        ConfigError: a variable has no value. The message names the variable and its location.
    """
    can_ask = sys.stdin is not None and sys.stdin.isatty()
    return asyncio.run(resolve(server, inputs=Inputs(ask_for_input if can_ask else None)))


async def ask_for_input(wanted: Input, server: ServerConfig) -> str | None:
    """Prompt for an input at the terminal. Passwords are not echoed."""
    about = printable(f"{server.name} needs {wanted.description or wanted.id}: ", 300)

    def read() -> str:
        if wanted.password:
            import getpass

            return getpass.getpass(about)
        return input(about)

    return await asyncio.to_thread(read) or wanted.default


def is_plain(target: str) -> bool:
    """Return whether a target is a name, not a path, a URL or a file with a colon."""
    return not any(mark in target for mark in "/\\: ") and target not in ("", ".", "..") and not target.endswith(".py")


def is_module(name: str) -> bool:
    """Return whether a name is a module in this folder or an installed module."""
    head = name.partition(".")[0]
    if describe_path(name) is not None or describe_path(head) is not None:
        return True
    try:
        return head.isidentifier() and importlib.util.find_spec(head) is not None
    except (ImportError, ValueError):
        return False


def describe_path(name: str) -> str | None:
    """Describe the file, folder or module with this name in the current folder. Return None if it does not exist."""
    if Path(name).is_dir():
        return "a folder here"
    if Path(name).exists():
        return "a file here"
    return "a module here" if Path(f"{name}.py").exists() else None


def clash_name(name: str) -> str:
    """Return the name by which a target selects the file or folder instead of the server."""
    return name if Path(name).exists() else f"{name}.py"


def unknown(name: str, names: list[str]) -> str:
    """Return the error message for an unknown name."""
    known = printable(", ".join(sorted(names)), 300)
    hint = did_you_mean(name, names) or (f"; there are: {known}" if names else "; no server is configured")
    locations = "no file, folder or module, and no server in carrel.toml or an application"
    return f"{name!r} is {locations}{hint}"


def is_own(server: ServerConfig) -> bool:
    return application_of(server) == "carrel"


def application_of(server: ServerConfig) -> str:
    return "carrel" if server.origin is None else server.origin.application


def shown_origin(server: ServerConfig) -> str:
    """Return the location where a server is configured."""
    return "carrel.toml" if server.origin is None else str(server.origin)
