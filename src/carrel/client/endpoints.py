"""Where a server is: a URL, a command, an application in this process, or a transport of somebody's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from carrel.errors import ConfigError
from carrel.transports.client.transport import Credentials, Transport

if TYPE_CHECKING:
    from carrel.transports.server.application import Application

__all__ = ["ServerEndpoint", "Target", "find_endpoint"]

Target: TypeAlias = "str | Sequence[str | os.PathLike[str]] | Application | Callable[[], Transport]"


#: What tells servers in this process apart: an address in memory may be that of another one later.
NUMBERS = count(1)


class ServerEndpoint(msgspec.Struct, frozen=True):
    """How to get to a server. ``name`` tells it from others."""

    name: str
    open: Callable[[], Transport]
    open_older: Callable[[], Transport] | None = None
    """The transport of before, if the server does not know this one."""
    credentials: Credentials | None = None
    secrets: str = ""
    """What tells one who asks from another where there are no credentials: a digest of headers, or of variables."""
    remembered: bool = False
    """What is found out about the server holds for the next client too."""

    @property
    def shown(self) -> str:
        """The name as it may be shown: without the query of a URL, which may have secrets in it."""
        if self.name.lower().startswith(("http://", "https://")):
            return self.name.partition("?")[0]
        return self.name.partition(" (")[0] if self.name.startswith("in memory") else self.name


def find_endpoint(
    target: Target,
    *,
    headers: Mapping[str, str] | None,
    auth: Credentials | str | None,
    env: Mapping[str, str] | None,
    cwd: str | os.PathLike[str] | None,
    stderr: Callable[[str], None] | None,
) -> ServerEndpoint:
    """Return how to get to ``target``.

    Raises:
        ConfigError: it is nothing that a client can get to, or an option is not for its kind.
    """
    if isinstance(target, str):
        if not target.lower().startswith(("http://", "https://")):
            raise ConfigError(
                f"{target[:200]!r} is not an http: or https: URL; a command is a list: ['python', 'server.py']"
            )
        refuse(env=env, cwd=cwd, stderr=stderr)
        return _over_http(target, headers or {}, auth)
    refuse(headers=headers, auth=auth)
    if isinstance(target, Sequence) and not isinstance(target, bytes | bytearray):
        command = read_command(target)

        def start() -> Transport:
            from carrel.transports.client.stdio import StdioTransport

            return StdioTransport(command, env=env, cwd=cwd, stderr=stderr)

        place = "" if cwd is None else f" in {os.fspath(cwd)}"
        return ServerEndpoint(" ".join(command) + place, start, secrets=digest(env or {}), remembered=True)
    refuse(env=env, cwd=cwd, stderr=stderr)
    if isinstance(target, type):
        raise ConfigError(f"{target.__name__} is a class: a client asks an object of it, such as {target.__name__}(…)")
    if callable(getattr(target, "answer", None)) and callable(getattr(target, "connect", None)):
        app: Any = target

        def enter() -> Transport:
            from carrel.transports.memory import MemoryTransport

            return MemoryTransport(app)

        return ServerEndpoint(f"in memory ({next(NUMBERS)})", enter)
    if callable(target):
        return ServerEndpoint(getattr(target, "__name__", type(target).__name__), target)
    hint = f"; a command is a list: ['python', {os.fspath(target)!r}]" if isinstance(target, os.PathLike) else ""
    raise ConfigError(f"A client asks a URL, a command or a server, and not a {type(target).__name__}{hint}")


def read_command(parts: Sequence[Any]) -> list[str]:
    """Return a command as text.

    Raises:
        ConfigError: it has no parts, or one that is neither text nor a path.
    """
    if not parts:
        raise ConfigError("a command has at least the name of a program")
    for part in parts:
        if not isinstance(part, str | os.PathLike):
            raise ConfigError(f"The parts of a command are text and paths, and {part!r} is neither")
    return [os.fsdecode(part) for part in parts]


def refuse(**options: Any) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ConfigError(f"{' and '.join(given)}: not an option for such a server")


def digest(values: Mapping[str, str]) -> str:
    """Return what stands for values that may be secret."""
    if not values:
        return ""
    from hashlib import sha256

    return sha256(repr(sorted(values.items())).encode()).hexdigest()[:32]


def _over_http(url: str, headers: Mapping[str, str], auth: Credentials | str | None) -> ServerEndpoint:
    if isinstance(auth, str):
        if auth.lower().startswith("bearer "):
            raise ConfigError("auth: the token by itself, without 'Bearer' before it")
        if any(name.lower() == "authorization" for name in headers):
            raise ConfigError("auth: there is an Authorization header already")
        headers, auth = {**headers, "Authorization": f"Bearer {auth}"}, None
    if auth is not None and not (callable(getattr(auth, "headers", None)) and callable(getattr(auth, "refused", None))):
        raise ConfigError(f"auth: a token, or credentials such as OAuth(), and not {type(auth).__name__}")
    credentials = auth

    def stream() -> Transport:
        from carrel.transports.client.http import HTTPTransport

        return HTTPTransport(url, headers=headers, credentials=credentials)

    def listen() -> Transport:
        from carrel.transports.client.http_sse import HTTPSSETransport

        return HTTPSSETransport(url, headers=headers, credentials=credentials)

    return ServerEndpoint(url, stream, listen, credentials, digest(headers), remembered=True)
