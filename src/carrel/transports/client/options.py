"""Options of the client transports: HTTP (TLS, proxies, limits, headers, credentials) and stdio (the process)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from carrel.errors import ConfigError
from carrel.redaction import redacted

if TYPE_CHECKING:
    import ssl

    from carrel.transports.client.transport import Credentials

__all__ = ["HTTPOptions", "ProcessOptions"]


class HTTPOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a connection over HTTP.

    Args:
        auth: a bearer token, or credentials, for example from ``carrel.security.client``.
        headers: extra headers of every request; they never replace headers of the protocol.
        ca_file: PEM file of additional certificate authorities to trust, such as a private one.
        client_certificate: PEM file with a client certificate and its private key, or the two files as a pair.
        tls: TLS context to use instead of ``ca_file`` and ``client_certificate``. It has to verify certificates.
        proxy: URL of an HTTP proxy; None for the environment's proxy (HTTPS_PROXY …), "" for no proxy.
        connect_timeout: timeout for opening a connection, in seconds.
        read_timeout: seconds of silence after which a response fails, not for long-lived streams; None for no limit.
        connections: maximum number of concurrent connections, not counting long-lived streams.
        max_message: the longest message that is read, in bytes.

    Raises:
        ConfigError: a number is not positive, or ``tls`` is combined with ``ca_file`` or ``client_certificate``.
    """

    auth: Credentials | str | None = None
    headers: Mapping[str, str] = {}
    ca_file: str | os.PathLike[str] | None = None
    client_certificate: str | os.PathLike[str] | tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None
    tls: ssl.SSLContext | None = None
    proxy: str | None = None
    connect_timeout: float = 30.0
    read_timeout: float | None = None
    connections: int = 100
    max_message: int = 64 * 1024 * 1024

    def __repr__(self) -> str:
        return redacted(self, ("auth", "headers"))

    def __post_init__(self) -> None:
        for name in ("connect_timeout", "read_timeout", "connections", "max_message"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"{name}: {value!r} is not a positive number")
        if self.tls is not None and not (self.ca_file is None and self.client_certificate is None):
            raise ConfigError("tls: load the certificates into the context, instead of ca_file and client_certificate")
        auth = self.auth
        if isinstance(auth, str):
            if auth.lower().startswith("bearer "):
                raise ConfigError("auth: the token by itself, without 'Bearer' before it")
            if any(name.lower() == "authorization" for name in self.headers):
                raise ConfigError("auth: there is an Authorization header already")
        elif auth is not None and not all(callable(getattr(auth, name, None)) for name in ("headers", "rejected")):
            raise ConfigError(f"auth: a token, or credentials such as OAuth(), and not {type(auth).__name__}")

    @property
    def credentials(self) -> Credentials | None:
        """The credentials of ``auth``, or None if ``auth`` is None or a token."""
        return None if isinstance(self.auth, str) else self.auth

    @property
    def all_headers(self) -> Mapping[str, str]:
        """The extra headers, with the token of ``auth``, if it is one."""
        if isinstance(self.auth, str):
            return {**self.headers, "Authorization": f"Bearer {self.auth}"}
        return self.headers


class ProcessOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a server that is started as a process, on stdio.

    Args:
        env: environment variables, besides the few that are always passed on.
        cwd: working directory.
        stderr: called with each line that the server writes to its standard error.
        name: name of the server in errors; None for its program and its first argument.
    """

    env: Mapping[str, str] | None = None
    cwd: str | os.PathLike[str] | None = None
    stderr: Callable[[str], None] | None = None
    name: str | None = None

    def __repr__(self) -> str:
        return redacted(self, ("env",))
