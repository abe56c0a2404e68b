"""Sockets that HTTP servers listen on."""

from __future__ import annotations

import errno
import os
import socket

from carrel.errors import ConfigError

__all__ = ["BACKLOG", "listen"]

#: Listen backlog of the sockets: connections that wait to be accepted.
BACKLOG = 2048


def listen(host: str, port: int, *, reuse_port: bool = False) -> list[socket.socket]:
    """Return sockets that listen on all addresses of ``host``, on the same port.

    With ``reuse_port``, other sockets of the same user may listen there too (SO_REUSEPORT).

    Raises:
        ConfigError: there is no such host, or the port is taken or not allowed.
    """
    listeners: list[socket.socket] = []
    problem: OSError | None = None
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):  # UnicodeError: invalid host name
        raise ConfigError(f"cannot listen on {host}: there is no such host") from None
    for family, _, _, _, (name, _, *more) in found:
        address = (name, listeners[0].getsockname()[1] if listeners else port, *more)
        try:
            listener = socket.create_server(address, family=family, backlog=BACKLOG, reuse_port=reuse_port)
            # Connections inherit this option. asyncio sets it only for sockets that name their protocol. Without it,
            # the end of a response waits 40 ms for the client to acknowledge its beginning.
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listeners.append(listener)
        except OSError as error:
            problem = error
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # for example, no IPv6
                break
    if problem is None or (listeners and problem.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)):
        return listeners
    for listener in listeners:
        listener.close()
    if problem.errno == errno.EADDRINUSE:
        raise ConfigError(f"cannot listen on {host}: port {port} is in use")
    raise ConfigError(f"cannot listen on {host} port {port}: {os.strerror(problem.errno or 0)}")
