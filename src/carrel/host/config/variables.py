"""Replace the references in a server's configuration when the host connects to the server.

The syntax is the same as in ``carrel.references``; in addition, ``${input:ID}`` is a value that the user enters once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec

from carrel.errors import ConfigError
from carrel.host.config.inputs import Inputs
from carrel.host.config.server_config import ServerConfig
from carrel.references import look_up, read_text, references_in, substitute

__all__ = ["resolve"]

#: Matches a line in a file with environment variables.
ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*")


async def resolve(
    server: ServerConfig, *, inputs: Inputs | None = None, environment: Mapping[str, str] | None = None
) -> ServerConfig:
    """Return a configuration with all references replaced.

    Raises:
        ConfigError: a reference has no value; the message has its location.
    """
    workspace = server.workspace or str(Path.cwd())
    values: dict[str, str] = {}
    for location, name in _names(server):
        kind, _, id = name.partition(":")
        if kind == "input":
            values[name] = await (inputs or Inputs()).value(id, server)
            continue
        find = partial(look_up, name, workspace, environment=environment)
        try:
            values[name] = await asyncio.to_thread(find) if kind == "keyring" else find()
        except ConfigError as error:
            raise ConfigError(f"{location}: {error}") from None

    def replaced(text: str | None) -> str | None:
        return None if text is None else substitute(text, values.__getitem__)

    def table(given: Mapping[str, str]) -> dict[str, str]:
        return {key: replaced(text) or "" for key, text in given.items()}

    env_file = replaced(server.env_file)
    env = table(server.env)
    if env_file is not None:
        env = read_env_file(Path(workspace, env_file)) | env
    return msgspec.structs.replace(
        server,
        command=replaced(server.command),
        args=tuple(replaced(one) or "" for one in server.args),
        env=env,
        env_file=None,
        cwd=_absolute(replaced(server.cwd), workspace),
        url=replaced(server.url),
        headers=table(server.headers),
    )


def read_env_file(file: Path) -> dict[str, str]:
    """Read the environment variables in a file: one ``KEY=VALUE`` per line, with or without quotes around the value.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        text = read_text(file)
    except ConfigError as error:
        raise ConfigError(f"env_file: {error}") from None
    found: dict[str, str] = {}
    for line in text.splitlines():
        setting = ENV_LINE.fullmatch(line)
        if setting is not None:
            value = setting[2]
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            found[setting[1]] = value[1:-1] if quoted else value
    return found


def _absolute(folder: str | None, workspace: str) -> str | None:
    return None if folder is None else str(Path(workspace, Path(folder).expanduser()))


def _names(server: ServerConfig) -> list[tuple[str, str]]:
    """Return the references in a configuration, without ``${`` and ``}``, each with its location."""
    return [(location, name) for location, text in _texts(server) for name in references_in(text)]


def _texts(server: ServerConfig) -> list[tuple[str, str]]:
    """Return the texts of a configuration that may contain references, with their locations."""
    found = [("args", text) for text in server.args]
    found += [(f"env.{key}", text) for key, text in server.env.items()]
    found += [(f"headers.{key}", text) for key, text in server.headers.items()]
    single = {"command": server.command, "cwd": server.cwd, "url": server.url, "env_file": server.env_file}
    return found + [(location, text) for location, text in single.items() if text is not None]
