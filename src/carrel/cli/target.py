"""Targets of commands: the URL, source, configured name, folder, command or Python code of a server."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from carrel.errors import ConfigError
from carrel.near_names import near_path
from carrel.redaction import without_secrets

if TYPE_CHECKING:
    from carrel.host.config import ServerConfig

__all__ = ["CARREL", "ServerLocation", "ServerTarget", "is_url", "read_location", "resolve", "resolve_url", "split"]

#: The command that runs this Carrel. With ``-P``, Python does not import modules from the current folder.
#: Otherwise a file there, such as ``json.py``, would replace a module of the same name, and its code would run.
CARREL = (sys.executable, "-P", "-m", "carrel")
#: A URL without its scheme, such as ``localhost:8000/mcp``.
HOST_AND_PORT = re.compile(r"[A-Za-z0-9.-]+:\d+(/.*)?")


class ServerTarget(NamedTuple):
    """Server to connect to: its URL, or the command that starts it. ``name`` is the target without secrets.

    ``configured`` is the configuration of a server found by name, with all variables replaced.
    """

    name: str
    server: str | list[str]
    configured: ServerConfig | None = None


def resolve(target: str, *, variables: bool = True) -> ServerTarget:
    """Return the server for a URL, source, configured name, folder, command, Python file or module.

    Without ``variables``, the variables in the configuration of a named server are not replaced.

    Raises:
        ConfigError: the target does not have one of these forms.
    """
    if not target.strip():
        raise ConfigError("TARGET is empty: name a URL, a file, a folder or a server")
    found = of_url(target) or of_source(target) or of_name(target, variables) or of_folder(target) or of_command(target)
    found = found or of_file(target)
    return found._replace(name=without_secrets(found.name))


def resolve_url(target: str) -> str:
    """Return the URL of the server that a target names. Variables of its headers are not replaced.

    Raises:
        ConfigError: the target is no server, or a server without a URL.
    """
    found = resolve(target, variables=False)
    url = found.server if isinstance(found.server, str) else None
    if found.configured is not None and url is not None:
        from msgspec.structs import replace

        from carrel.cli.server_names import resolved_server

        url = resolved_server(replace(found.configured, headers={}, env={})).url
    if url is None:
        origin = "" if found.configured is None else f" ({found.configured.origin or 'carrel.toml'})"
        raise ConfigError(f"{found.name}{origin} has no URL: only servers over HTTP have logins")
    return url


def is_url(target: str) -> bool:
    """Return whether a target is the URL of a server."""
    return target.lower().startswith(("http://", "https://"))


class ServerLocation(NamedTuple):
    """Location of a server's code: the file or module as given, the absolute path of the file, and a name in it."""

    shown: str
    file: str | None
    name: str | None

    @property
    def absolute(self) -> str:
        """The location with the absolute path of its file."""
        return (self.file or self.shown) + (f":{self.name}" if self.name else "")

    @property
    def program(self) -> list[str]:
        """The arguments with which Python runs the code as a program."""
        return [self.file] if self.file else ["-m", self.shown]


def read_location(text: str) -> ServerLocation:
    """Parse ``FILE[:NAME]`` or ``MODULE[:NAME]``.

    Raises:
        ConfigError: there is no such file.
    """
    location, _, name = text.rpartition(":")
    if (
        not location or not name.isidentifier() or len(location) == 1 or Path(text).exists()
    ):  # C:\server.py has a colon, too
        location, name = text, ""
    path = Path(location).expanduser()
    if path.is_file():
        return ServerLocation(location, os.path.abspath(path), name or None)  # noqa: PTH100
    shown = without_secrets(text)
    if path.is_dir():
        raise ConfigError(
            f"{location} is a folder: name the file with the server, or share it with carrel serve {location}"
        )
    if is_url(text):
        raise ConfigError(f"{shown} is the URL of a server that runs already: name a Python file or a module")
    if of_source(text) is not None:
        raise ConfigError(f"{shown} is a source: share it with carrel serve, or name a Python file or a module")
    if "://" in text:
        raise ConfigError(f"{shown} is neither the URL of a server (http://, https://) nor a source")
    if HOST_AND_PORT.fullmatch(text):
        raise ConfigError(f"{text} is not a file; for a URL, write http://{text}")
    if path.suffix == ".py" or not all(part.isidentifier() for part in location.split(".")):
        missing = without_secrets(location)
        raise ConfigError(f"no such file: {missing}{near_path(os.path.abspath(path))}")  # noqa: PTH100
    return ServerLocation(location, None, name or None)


def of_url(target: str) -> ServerTarget | None:
    return ServerTarget(target.partition("?")[0], target) if is_url(target) else None


def of_folder(target: str) -> ServerTarget | None:
    folder = Path(target).expanduser()
    if not folder.is_dir():
        return None
    name = str(folder)  # without a leading ./, so that it may look like an option
    return ServerTarget(target, [*CARREL, "serve", f".{os.sep}{name}" if name.startswith("-") else name])


def of_source(target: str) -> ServerTarget | None:
    """Return a server that shares a source, such as ``git:.`` or ``sqlite:///shop.db``."""
    if ":" not in target or ".py:" in target or " " in target:
        return None
    from carrel.sources.registry import find, scheme_of

    scheme = scheme_of(target)
    if scheme == "file" and not target.lower().startswith("file:"):
        return None
    return ServerTarget(target, [*CARREL, "serve", target]) if find(scheme) is not None else None


def of_command(target: str) -> ServerTarget | None:
    if " " not in target or Path(target).exists():
        return None
    return ServerTarget(target, split(target))


def of_file(target: str) -> ServerTarget:
    location = read_location(target)
    if location.file is not None and Path(location.file).suffix != ".py":
        raise ConfigError(f"{target} is not a Python file; to connect to a program, write its command after --")
    return ServerTarget(target, [*CARREL, "run", location.absolute])


def of_name(target: str, variables: bool) -> ServerTarget | None:
    """Return the server with a name in carrel.toml or in the configuration of an application."""
    if not target.startswith("@") and ("/" in target or target.endswith(".py") or ".py:" in target):
        return None
    from carrel.cli.server_names import find_server, resolved_server

    server = find_server(target)
    if server is None:
        return None
    configured = resolved_server(server) if variables else server
    command = [configured.command, *configured.args] if configured.command is not None else []
    return ServerTarget(server.name, configured.url or command, configured)


def split(command: str) -> list[str]:
    """Split a command into words.

    Raises:
        ConfigError: the quoting is invalid.
    """
    try:
        return shlex.split(command, posix=sys.platform != "win32")
    except ValueError as error:
        raise ConfigError(f"{command!r} is not a command: {error}") from None
