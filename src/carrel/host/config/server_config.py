"""ServerConfig: how to start or connect to one server, independent of the application and its file format."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from carrel.errors import ConfigError

if TYPE_CHECKING:
    from carrel.transports.server.application import HasEndpoint
else:
    HasEndpoint = Any  # programs that only read configurations do not load it

__all__ = ["ConfigFile", "ConfigOrigin", "ConfigProblem", "Input", "Isolation", "ServerConfig", "TransportName"]

TransportName: TypeAlias = Literal["stdio", "http", "sse", "memory"]
Isolation: TypeAlias = Literal["auto", "shared", "client", "principal"]
#: Matches an input variable in a text.
INPUT = re.compile(r"\$\{input:([^{}]*)\}")


class ConfigOrigin(msgspec.Struct, frozen=True):
    """Source of a configuration: the application, its file, and the line number if known."""

    application: str
    file: str
    line: int | None = None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


class Input(msgspec.Struct, frozen=True):
    """Value that the user has to enter for ``${input:ID}`` in a configuration. ``options`` are the choices, if any."""

    id: str
    description: str | None = None
    password: bool = False
    default: str | None = None
    options: tuple[str, ...] = ()


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of one server: a command to start, a URL, or a server in this process.

    Texts may contain ``${VAR}``, ``${VAR:-default}``, ``${env:VAR}``, ``${input:ID}``, ``${workspaceFolder}`` and
    ``${userHome}``, which ``resolve`` replaces when the host connects to the server; ``$${`` is an escape for ``${``.

    Args:
        name: name of the server, unique within a host.
        command, args, env, cwd: the program to start, its arguments, environment variables and working directory.
        env_file: file with additional environment variables, one ``KEY=VALUE`` per line.
        url, headers: URL of an HTTP server, and headers to send.
        app: a ``carrel.Server`` in this process.
        transport: "stdio", "http" (Streamable HTTP, with a fallback to HTTP+SSE), "sse" or "memory" (for ``app``).
        disabled: list the server, but do not connect to it.
        timeout: timeout of a request in seconds; None for the default of the host.
        start_timeout: timeout for connecting in seconds; None for the default of the host.
        isolation: upstream sessions of a gateway: "shared" for one session for all clients, "client" for one per client
            session, "principal" for one per authenticated caller, "auto" for "shared" if the server is stateless
            (2026-07-28), and "client" otherwise.
        revision: the only protocol revision to use; None for the newest revision that both sides support.
        tags: words for selecting servers.
        inputs: the inputs that texts refer to.
        origin: source of the configuration.
        workspace: value of ``${workspaceFolder}``.
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    env_file: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = {}
    app: HasEndpoint | None = None
    transport: TransportName = "stdio"
    disabled: bool = False
    timeout: float | None = None
    start_timeout: float | None = None
    isolation: Isolation = "auto"
    revision: str | None = None
    tags: tuple[str, ...] = ()
    inputs: Mapping[str, Input] = {}
    origin: ConfigOrigin | None = None
    workspace: str | None = None

    def __post_init__(self) -> None:
        if [self.command, self.url, self.app].count(None) != 2:
            raise ConfigError(f"server {self.name!r}: give a command or a url, and not both")
        if (self.app is not None) != (self.transport == "memory"):
            raise ConfigError(f"server {self.name!r}: a server in this process has the transport memory")
        if self.url is not None and self.transport == "stdio":
            raise ConfigError(f"server {self.name!r}: a url is reached with the transport http or sse")

    def __repr__(self) -> str:
        return f"ServerConfig({self.name!r}, {self.shown!r})"  # omit arguments and values, which may be secret

    @property
    def shown(self) -> str:
        """The command, or the URL without its query, for display."""
        return self.command or (self.url or "in this process").partition("?")[0]

    def same_as(self, other: ServerConfig) -> bool:
        """Return whether both configurations describe the same server, regardless of their source."""
        return self.identity == other.identity

    @property
    def identity(self) -> Hashable:
        """A value that is equal for configurations of the same server, regardless of their source.

        Inputs and the project folder are included only if a text refers to them.
        """
        single = (self.command, self.cwd, self.url, self.env_file)
        texts = "\0".join((*filter(None, single), *self.args, *self.env.values(), *self.headers.values()))
        inputs = {id: self.inputs.get(id) for id in INPUT.findall(texts)}
        relative = any(path is not None and not Path(path).is_absolute() for path in (self.cwd, self.env_file))
        workspace = self.workspace if relative or "${workspaceFolder" in texts or "${file:" in texts else None
        plain = msgspec.structs.replace(self, origin=None, inputs=inputs, workspace=workspace)
        return tuple(
            tuple(sorted(value.items())) if isinstance(value, Mapping) else value
            for value in msgspec.structs.astuple(plain)
        )


class ConfigProblem(msgspec.Struct, frozen=True):
    """Error in a configuration file: in one entry, or in the whole file. It contains no values of the file."""

    file: str
    message: str
    entry: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        location = self.file if self.line is None else f"{self.file}:{self.line}"
        return (
            f"{location}: {self.message}"
            if self.entry is None
            else f"{location}: server {self.entry!r}: {self.message}"
        )


class ConfigFile(msgspec.Struct, frozen=True):
    """Result of reading a configuration file: its valid servers, and the problems."""

    application: str
    file: Path
    servers: Sequence[ServerConfig] = ()
    problems: Sequence[ConfigProblem] = ()
