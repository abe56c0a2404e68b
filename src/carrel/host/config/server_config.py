"""ServerConfig: how to start or reach one server, whatever file and application it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from carrel.errors import ConfigError

__all__ = ["ConfigFile", "Input", "Isolation", "Origin", "Problem", "ServerConfig", "TransportName"]

TransportName: TypeAlias = Literal["stdio", "http", "sse"]
Isolation: TypeAlias = Literal["auto", "shared", "client", "principal"]


class Origin(msgspec.Struct, frozen=True):
    """Where a configuration was read: the application, its file, and the line, if it is known."""

    application: str
    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Input(msgspec.Struct, frozen=True):
    """Value that a configuration asks the user for: ``${input:ID}``. ``options`` are the choices, if there are any."""

    id: str
    description: str | None = None
    password: bool = False
    default: str | None = None
    options: tuple[str, ...] = ()


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of one server: a command to start, or a URL.

    Texts may hold ``${VAR}``, ``${VAR:-default}``, ``${env:VAR}``, ``${input:ID}``, ``${workspaceFolder}`` and
    ``${userHome}``, which ``resolve`` replaces when the server is connected to; ``$${`` stands for ``${``.

    Args:
        name: name of the server, unique within a host.
        command, args, env, cwd: the program to start, its arguments, environment variables and working directory.
        env_file: file of more environment variables, a ``KEY=VALUE`` on each line.
        url, headers: the server to reach over HTTP.
        transport: "stdio", "http" (Streamable HTTP, or HTTP+SSE where that is refused) or "sse".
        disabled: the server is listed, and not connected to.
        timeout: seconds that an answer may take; None for the default of the host.
        start_timeout: seconds that connecting may take; None for the default of the host.
        isolation: sessions of a gateway: "shared" for one for all of its clients, "client" for one per session of a
            client, "principal" for one per authenticated caller, "auto" for "shared" where the server is stateless
            (2026-07-28) and "client" elsewhere.
        tags: words to select servers by.
        inputs: the inputs that texts name.
        origin: where the configuration comes from.
        workspace: folder that ``${workspaceFolder}`` stands for.
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    env_file: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = {}
    transport: TransportName = "stdio"
    disabled: bool = False
    timeout: float | None = None
    start_timeout: float | None = None
    isolation: Isolation = "auto"
    tags: tuple[str, ...] = ()
    inputs: Mapping[str, Input] = {}
    origin: Origin | None = None
    workspace: str | None = None

    def __post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise ConfigError(f"server {self.name!r}: give a command or a url, and not both")
        if self.url is not None and self.transport == "stdio":
            raise ConfigError(f"server {self.name!r}: a url is reached with the transport http or sse")

    def __repr__(self) -> str:
        return f"ServerConfig({self.name!r}, {self.shown!r})"  # no arguments and values, which may be secret

    @property
    def shown(self) -> str:
        """The program, or the URL up to its query: what may be shown."""
        return self.command or (self.url or "").partition("?")[0]

    def same_as(self, other: ServerConfig) -> bool:
        """Return whether both describe the same server, wherever they were read."""
        return msgspec.structs.replace(self, origin=None) == msgspec.structs.replace(other, origin=None)


class Problem(msgspec.Struct, frozen=True):
    """Error in a configuration file: of one entry, or of the whole file. It holds no values of the file."""

    file: str
    message: str
    entry: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}" if self.entry is None else f"{place}: server {self.entry!r}: {self.message}"


class ConfigFile(msgspec.Struct, frozen=True):
    """Configuration file that was read: its servers, and what is wrong with the others."""

    application: str
    file: Path
    servers: Sequence[ServerConfig] = ()
    problems: Sequence[Problem] = ()
