"""Server endpoints of a client: a URL, a command (stdio), an application in this process, or a custom transport."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from carrel.errors import ConfigError
from carrel.transports.client.transport import Credentials, Transport

if TYPE_CHECKING:
    from carrel.transports.client.options import HTTPOptions, ProcessOptions
    from carrel.transports.server.application import HasEndpoint

__all__ = ["ClientEndpoint", "Target", "find_endpoint"]

Target: TypeAlias = "str | Sequence[str | os.PathLike[str]] | HasEndpoint | Callable[[], Transport]"


#: Numbers that distinguish servers in this process: memory addresses may be reused.
NUMBERS = count(1)


class ClientEndpoint(msgspec.Struct, frozen=True):
    """Server that a client connects to: factories of its transport, and credentials. ``name`` identifies the server."""

    name: str
    open: Callable[[], Transport]
    open_older: Callable[[], Transport] | None = None
    """Factory of the older transport (HTTP+SSE), for servers that do not support the newer one."""
    credentials: Credentials | None = None
    secrets: str = ""
    """Cache principal if there are no credentials: a digest of headers, or of environment variables."""
    remembered: bool = False
    """Whether the server's era is remembered for later clients of this process."""
    label: str | None = None
    """The name for display, if the user has set one."""

    @property
    def shown(self) -> str:
        """The name for display: without the query of a URL, which may contain secrets."""
        if self.label is not None:
            return self.label
        if self.name.lower().startswith(("http://", "https://")):
            return self.name.partition("?")[0]
        return self.name.partition(" (")[0] if self.name.startswith("in memory") else self.name


def find_endpoint(target: Target, *, http: HTTPOptions | None, process: ProcessOptions | None) -> ClientEndpoint:
    """Return the endpoint of ``target``.

    Raises:
        ConfigError: ``target`` is not valid, or an option does not apply to this kind of target.
    """
    if isinstance(target, str):
        if not target.lower().startswith(("http://", "https://")):
            raise ConfigError(
                f"{target[:200]!r} is not an http: or https: URL; a command is a list: ['python', 'server.py']"
            )
        reject(process=process)
        return _over_http(target, http)
    reject(http=http)
    if isinstance(target, Sequence) and not isinstance(target, bytes | bytearray):
        return _as_process(read_command(target), process)
    reject(process=process)
    if isinstance(target, type):
        raise ConfigError(f"{target.__name__} is a class: pass an object, such as {target.__name__}(…)")
    if callable(getattr(getattr(target, "endpoint", None), "answer", None)):
        app: Any = target

        def enter() -> Transport:
            from carrel.transports.memory import MemoryTransport

            return MemoryTransport(app)

        return ClientEndpoint(f"in memory ({next(NUMBERS)})", enter)
    if callable(target):
        return ClientEndpoint(getattr(target, "__name__", type(target).__name__), target)
    hint = f"; a command is a list: ['python', {os.fspath(target)!r}]" if isinstance(target, os.PathLike) else ""
    raise ConfigError(f"A client connects to a URL, a command or a server, not a {type(target).__name__}{hint}")


def read_command(parts: Sequence[Any]) -> list[str]:
    """Return the arguments of a command as strings.

    Raises:
        ConfigError: the command is empty, or an argument is neither a string nor a path.
    """
    if not parts:
        raise ConfigError("a command needs at least a program")
    for part in parts:
        if not isinstance(part, str | os.PathLike):
            raise ConfigError(f"The parts of a command must be text or paths, not {part!r}")
    return [os.fsdecode(part) for part in parts]


def reject(**options: object) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ConfigError(f"{' and '.join(given)}: not an option for this kind of server")


def digest(values: Mapping[str, str]) -> str:
    """Return a truncated SHA-256 digest of values that may be secret, or "" without values."""
    if not values:
        return ""
    from hashlib import sha256

    return sha256(repr(sorted(values.items())).encode()).hexdigest()[:32]


def _as_process(command: list[str], options: ProcessOptions | None) -> ClientEndpoint:
    from carrel.transports.client.options import ProcessOptions

    given = ProcessOptions() if options is None else options
    cwd = given.cwd

    def start() -> Transport:
        from carrel.transports.client.stdio import StdioTransport

        return StdioTransport(command, env=given.env, cwd=cwd, stderr=given.stderr, name=given.name)

    directory = "" if cwd is None else f" in {os.fspath(cwd)}"
    identity = " ".join(command) + directory
    return ClientEndpoint(identity, start, secrets=digest(given.env or {}), remembered=True, label=given.name)


def _over_http(url: str, given: HTTPOptions | None) -> ClientEndpoint:
    from carrel.transports.client.options import HTTPOptions

    options = HTTPOptions() if given is None else given

    def stream() -> Transport:
        from carrel.transports.client.http import HTTPTransport

        return HTTPTransport(url, options)

    def listen() -> Transport:
        from carrel.transports.client.http_sse import HTTPSSETransport

        return HTTPSSETransport(url, options)

    # A client certificate is a principal too: cached results must not reach clients with another certificate.
    identity = dict(options.all_headers)
    if options.client_certificate is not None:
        identity["client certificate"] = repr(options.client_certificate)
    return ClientEndpoint(url, stream, listen, options.credentials, digest(identity), remembered=True)
