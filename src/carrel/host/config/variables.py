"""Variables in configurations, replaced when the host connects to a server, so that configurations hold no secrets.

${VAR}  ${env:VAR}       environment variable; an error if it is not set
${VAR:-default}          the same, with a default for one that is not set or empty
${input:ID}              value that the user has to enter once
${workspaceFolder}       folder of the project; ${workspaceFolderBasename} its name
${userHome}              home directory; ${/} or ${pathSeparator} what separates folders
$${                      the characters ${
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from carrel.errors import ConfigError
from carrel.host.config.inputs import Inputs
from carrel.host.config.server_config import ServerConfig
from carrel.regular_file import read_regular

__all__ = ["inputs_of", "resolve"]

VARIABLE = re.compile(r"\$(?P<literal>\$\{)|\$\{(?P<name>[^{}]*)\}")
NAME = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][\w()]*)(?::-(?P<default>.*))?", re.DOTALL)
#: Matches a line in a file with environment variables.
ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*")


def inputs_of(server: ServerConfig) -> list[str]:
    """Return the ids of the inputs that a configuration refers to, without duplicates."""
    found = [name.removeprefix("input:") for _, name in _names(server) if name.startswith("input:")]
    return list(dict.fromkeys(found))


async def resolve(
    server: ServerConfig, *, inputs: Inputs | None = None, environment: Mapping[str, str] | None = None
) -> ServerConfig:
    """Return a configuration with all variables replaced.

    Raises:
        ConfigError: a variable has no value; the message has its name and location.
    """
    environment = os.environ if environment is None else environment
    workspace = server.workspace or str(Path.cwd())
    values: dict[str, str] = {}
    for location, name in _names(server):
        kind, _, remaining = name.partition(":")
        if kind == "input":
            values[name] = await (inputs or Inputs()).value(remaining, server)
        elif kind == "keyring":
            values[name] = await asyncio.to_thread(read_keyring, location, remaining)
        elif kind == "file":
            values[name] = read_text(location, Path(workspace, remaining))

    def replaced(location: str, text: str | None) -> str | None:
        return None if text is None else VARIABLE.sub(lambda found: _value(found, location), text)

    def _value(found: re.Match[str], location: str) -> str:
        if found["literal"]:
            return "${"
        name = found["name"]
        if name in values:
            return values[name]
        fixed = {
            "workspaceFolder": workspace,
            "workspaceFolderBasename": Path(workspace).name,
            "userHome": str(Path(environment.get("HOME") or environment.get("USERPROFILE") or Path.home())),
            "pathSeparator": os.sep,
            "/": os.sep,
        }.get(name)
        if fixed is not None:
            return fixed
        variable = NAME.fullmatch(name)
        if variable is None:
            raise ConfigError(f"{location}: there is no variable ${{{name[:100]}}}")
        value = environment.get(variable["name"])
        if variable["default"] is not None:
            return value or variable["default"]
        if value is None:
            raise ConfigError(f"{location}: the environment variable {variable['name']} is not set")
        return value

    def table(location: str, given: Mapping[str, str]) -> dict[str, str]:
        return {key: replaced(f"{location}.{key}", text) or "" for key, text in given.items()}

    env_file = replaced("env_file", server.env_file)
    env = table("env", server.env)
    if env_file is not None:
        env = read_env_file(Path(workspace, env_file)) | env
    return msgspec.structs.replace(
        server,
        command=replaced("command", server.command),
        args=tuple(replaced("args", one) or "" for one in server.args),
        env=env,
        env_file=None,
        cwd=_absolute(replaced("cwd", server.cwd), workspace),
        url=replaced("url", server.url),
        headers=table("headers", server.headers),
    )


def read_env_file(file: Path) -> dict[str, str]:
    """Read the environment variables in a file: one ``KEY=VALUE`` per line, with or without quotes around the value.

    Raises:
        ConfigError: the file cannot be read.
    """
    found: dict[str, str] = {}
    for line in read_text("env_file", file).splitlines():
        setting = ENV_LINE.fullmatch(line)
        if setting is not None:
            value = setting[2]
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            found[setting[1]] = value[1:-1] if quoted else value
    return found


def read_text(location: str, file: Path) -> str:
    """Return the text of a file, without the final line break.

    Raises:
        ConfigError: the file cannot be read; ``location`` is the location of the reference for the message.
    """
    try:
        text = read_regular(file.expanduser()).decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise ConfigError(f"{location}: {file} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{location}: {file} cannot be read: it is not UTF-8 text") from None
    return text.removesuffix("\n")


def read_keyring(location: str, name: str) -> str:
    """Return the entry SERVICE/NAME of the keyring.

    Raises:
        ConfigError: there is no such entry, or the package keyring is not installed.
    """
    try:
        import keyring
    except ModuleNotFoundError:
        raise ConfigError(
            f"{location}: ${{keyring:…}} needs the package keyring: pip install 'carrel[keyring]'"
        ) from None
    service, _, user = name.rpartition("/")
    try:
        found = keyring.get_password(service, user)
    except Exception as error:  # backends raise arbitrary exceptions
        raise ConfigError(f"{location}: the keyring cannot be read: {error}") from None
    if found is None:
        raise ConfigError(f"{location}: the keyring has no entry {service}/{user}")
    return found


def _absolute(folder: str | None, workspace: str) -> str | None:
    return None if folder is None else str(Path(workspace, Path(folder).expanduser()))


def _names(server: ServerConfig) -> list[tuple[str, str]]:
    """Return the variables in a configuration, without ``${`` and ``}``, each with its location."""
    return [
        (location, found["name"])
        for location, text in _texts(server)
        for found in VARIABLE.finditer(text)
        if found["name"] is not None
    ]


def _texts(server: ServerConfig) -> list[tuple[str, str]]:
    """Return the texts of a configuration that may contain variables, with their locations."""
    found = [("args", text) for text in server.args]
    found += [(f"env.{key}", text) for key, text in server.env.items()]
    found += [(f"headers.{key}", text) for key, text in server.headers.items()]
    single = {"command": server.command, "cwd": server.cwd, "url": server.url, "env_file": server.env_file}
    return found + [(location, text) for location, text in single.items() if text is not None]
