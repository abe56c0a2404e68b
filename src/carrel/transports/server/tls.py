"""TLS of the HTTP server: certificates that are read again when their files change, and TLS handshakes with limits.

The asyncio server of uvicorn would begin a connection after its handshake, so connections without a handshake would be
outside of all limits. Here, connections are in the table of connections from the beginning.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.errors import ConfigError
from carrel.file_changes import FileChanges
from carrel.log import Log
from carrel.transports.server.authorizer import address_group
from carrel.transports.server.connections import Connections
from carrel.transports.server.forwarded import TrustedProxies

if TYPE_CHECKING:
    from carrel.transports.server.http_protocol import LimitedProtocol
    from carrel.transports.server.options import SecureEndpointOptions

__all__ = ["TLS", "TLSFiles", "TLSListener"]

log = Log("carrel.tls")

#: Seconds without new connections after the process has run out of file descriptors.
PAUSE = 1.0


class TLSFiles(msgspec.Struct, frozen=True):
    """PEM files of a server: its certificate chain, its private key, and the authorities of its clients' certificates.

    ``key`` is None if the key is in the file of the certificate. With ``client_ca``, each client needs a certificate.
    """

    certificate: str
    key: str | None = None
    client_ca: str | None = None

    @property
    def paths(self) -> list[str]:
        """Paths of all files."""
        return [path for path in (self.certificate, self.key, self.client_ca) if path is not None]

    @classmethod
    def take(cls, options: SecureEndpointOptions) -> TLSFiles | None:
        """Remove the files from options, and return them. None without a certificate.

        Raises:
            ConfigError: there is a key or an authority, but no certificate.
        """
        files = (options.pop("certificate", None), options.pop("key", None), options.pop("client_ca", None))
        certificate, key, client_ca = (None if path is None else os.fspath(path) for path in files)
        if certificate is not None:
            return cls(certificate, key, client_ca)
        if key is not None or client_ca is not None:
            raise ConfigError("key and client_ca need a certificate")
        return None

    def load(self) -> ssl.SSLContext:
        """Return a new context with the files: TLS 1.2 and newer.

        Raises:
            ConfigError: a file is missing, or has wrong contents.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        for path in self.paths:
            try:
                with open(path, "rb"):  # noqa: PTH123 - errors of ssl do not name the file
                    pass
            except OSError as error:
                raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
        key = self.key or self.certificate
        try:
            context.load_cert_chain(self.certificate, self.key, password=_refuse_password)
        except (ssl.SSLError, ValueError) as error:
            if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
                raise ConfigError(f"the key in {key} is not the key of the certificate in {self.certificate}") from None
            files = self.certificate if self.key is None else f"{self.certificate} and {self.key}"
            raise ConfigError(
                f"{files}: expected a certificate, the certificates of its authorities, and an unencrypted private key,"
                " in PEM"
            ) from None
        if self.client_ca is not None:
            try:
                context.load_verify_locations(self.client_ca)
            except ssl.SSLError:
                raise ConfigError(f"{self.client_ca}: expected certificates of authorities, in PEM") from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _refuse_password() -> str:
    """OpenSSL would ask for the password of an encrypted key at the terminal."""
    raise ValueError("the key is encrypted")


class _Context(ssl.SSLContext):
    """Context whose connections have the settings of another one, ``current``, which may be replaced.

    Sessions of the old context cannot be resumed: a client of a removed authority would get in without a certificate.
    """

    current: ssl.SSLContext

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        return self.current.wrap_bio(*arguments, **options)


class TLS:
    """TLS of a server. New connections use the certificates in the files as they are now; open connections continue.

    Raises:
        ConfigError: a file is missing, or has wrong contents.
    """

    def __init__(self, files: TLSFiles) -> None:
        self._files = files
        self.context = _Context(ssl.PROTOCOL_TLS_SERVER)
        self._changes = FileChanges(files.paths, self._read_again)
        self.context.current = files.load()
        self.start, self.stop = self._changes.start, self._changes.stop

    def _read_again(self) -> None:
        try:
            self.context.current = self._files.load()
        except ConfigError as error:
            log.error("the certificate is not changed: %s", error)
        else:
            log.warning("the certificate has been read again: %s", self._files.certificate)


class Handshake:
    """Connection whose handshake is not complete, in the table of connections."""

    work: asyncio.Task[None]

    def __init__(self, group: str) -> None:
        self.group = group

    def drop(self) -> None:
        """Abort the connection."""
        self.work.cancel()

    def check(self, now: float) -> None:
        """Do nothing: the event loop limits the time of a handshake."""


class TLSListener:
    """Accepts the connections of a listening socket, and begins their protocols after their handshakes.

    Has the interface of ``asyncio.Server`` that uvicorn uses. ``accept`` begins to accept connections.
    """

    def __init__(self, listener: socket.socket, tls: TLS, table: Connections, proxies: TrustedProxies) -> None:
        self._listener = listener
        self._tls = tls
        self._table = table
        self._proxies = proxies
        self._tasks: set[asyncio.Task[None]] = set()
        listener.setblocking(False)

    def accept(self, make_protocol: Callable[[], LimitedProtocol]) -> None:
        """Begin to accept connections."""
        self._spawn(self._accept(make_protocol))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, make_protocol: Callable[[], LimitedProtocol]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, address = await loop.sock_accept(self._listener)
            except ConnectionError:
                continue
            except OSError as error:  # no file descriptors
                log.error("no connections are accepted for %s seconds: %s", PAUSE, error)
                await asyncio.sleep(PAUSE)
                continue
            is_proxy = address[0] in self._proxies
            handshake = Handshake("" if is_proxy else address_group(address[0]))
            if not self._table.admit(handshake, shared=is_proxy):
                connection.close()
                continue
            protocol = make_protocol()
            protocol.handshake = handshake
            handshake.work = self._spawn(self._shake_hands(connection, protocol, handshake))

    async def _shake_hands(self, connection: socket.socket, protocol: LimitedProtocol, handshake: Handshake) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=self._tls.context,
                ssl_handshake_timeout=self._table.limits.header_timeout,
            )
        except (OSError, EOFError) as error:  # ssl.SSLError, ConnectionError and TimeoutError are OSErrors
            log.debug("a TLS handshake failed: %s", error)
        finally:
            self._table.remove(handshake)

    def close(self) -> None:
        """Accept no more connections, and abort handshakes."""
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until all handshakes have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
