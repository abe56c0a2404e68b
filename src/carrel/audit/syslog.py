"""Audit records as syslog messages of RFC 5424, over UDP, TCP, TLS or a Unix socket.

https://www.rfc-editor.org/rfc/rfc5424 (messages), https://www.rfc-editor.org/rfc/rfc6587 (octet counting over TCP),
https://www.rfc-editor.org/rfc/rfc5425 (TLS)
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

from carrel.errors import ConfigError

__all__ = ["Syslog"]

#: Seconds for connecting and for sending a message.
TIMEOUT = 5.0
#: Priorities: facility 13 (log audit) with severity 6 (informational), and 4 (warning) for denied requests.
ALLOWED, DENIED = 13 * 8 + 6, 13 * 8 + 4
#: Ports by scheme.
PORTS = {"udp": 514, "tcp": 601, "tls": 6514}
#: Fields that are left out of a record that is too long for a datagram.
LONG = ("target", "arguments", "message")


class Brief(msgspec.Struct):
    """The fields of a record that a syslog header needs."""

    time: float = 0.0
    decision: str = "allowed"


read = msgspec.json.Decoder(Brief).decode


class Syslog:
    """Syslog server, a destination of an ``AuditLog``.

    Args:
        url: ``udp://HOST[:PORT]``, ``tcp://HOST[:PORT]``, ``tls://HOST[:PORT]`` or ``unix:///dev/log``.

    Raises:
        ConfigError: the URL is invalid.
    """

    def __init__(self, url: str) -> None:
        self.name = url
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        local = parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc
        if parts.query or parts.fragment or not (local or (parts.scheme in PORTS and parts.hostname)):
            raise ConfigError(
                f"the syslog server {url!r} is not udp://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or unix:///PATH"
            )
        self._scheme, self._path = parts.scheme, parts.path
        self._address = (parts.hostname or "", port or PORTS.get(parts.scheme, 0))
        self._records: deque[bytes] = deque()
        self._socket: socket.socket | None = None
        self._host = socket.gethostname().encode("ascii", "ignore")[:255] or b"-"

    @property
    def unwritten(self) -> int:
        """The number of records that are not sent."""
        return len(self._records)

    def write(self, records: Sequence[bytes]) -> None:
        """Send records. After an error, the next call connects again, and sends the rest.

        Raises:
            OSError: the server cannot be reached.
        """
        self._records.extend(records)
        try:
            if self._socket is None:
                self._socket = self._connect()
            while self._records:
                self._send(self._socket, self._records[0])
                self._records.popleft()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
            self._socket = None

    def _connect(self) -> socket.socket:
        if self._scheme == "unix":
            return connect_datagrams(socket.AF_UNIX, self._path)
        if self._scheme == "udp":
            family, *_, address = socket.getaddrinfo(*self._address, type=socket.SOCK_DGRAM)[0]
            return connect_datagrams(family, address)
        found = socket.create_connection(self._address, TIMEOUT)
        if self._scheme == "tcp":
            return found
        import ssl  # takes 10 ms, which other logs save

        return ssl.create_default_context().wrap_socket(found, server_hostname=self._address[0])

    def _send(self, server: socket.socket, record: bytes) -> None:
        message = self._message(record)
        if self._scheme in ("tcp", "tls"):
            server.sendall(b"%d %b" % (len(message), message))
            return
        try:
            server.send(message)
        except OSError as error:
            if error.errno != errno.EMSGSIZE:
                raise
            server.send(self._message(shortened(record)))

    def _message(self, record: bytes) -> bytes:
        brief = read(record)
        moment = datetime.fromtimestamp(brief.time, UTC).isoformat(timespec="microseconds")
        priority = DENIED if brief.decision == "denied" else ALLOWED
        return b"<%d>1 %b %b carrel %d audit - %b" % (priority, moment.encode(), self._host, os.getpid(), record)


def connect_datagrams(family: int, address: Any) -> socket.socket:
    """Return a datagram socket that sends to an address."""
    found = socket.socket(family, socket.SOCK_DGRAM)
    found.settimeout(TIMEOUT)
    try:
        found.connect(address)
    except OSError:
        found.close()
        raise
    return found


def shortened(record: bytes) -> bytes:
    """Return a record without its long fields, and ``shortened``: true."""
    fields: dict[str, Any] = msgspec.json.decode(record)
    kept = {name: value for name, value in fields.items() if name not in LONG}
    return msgspec.json.encode({**kept, "shortened": True})
