"""Hosts: many servers as one catalog. A remote server is a provider."""

import importlib
import typing

if typing.TYPE_CHECKING:
    from carrel.host.changes import HostChange
    from carrel.host.host import Host
    from carrel.host.hosted_server import HostedServer
    from carrel.host.remote import RemoteProvider
    from carrel.host.selection import Hosted

__all__ = ["Host", "HostChange", "Hosted", "HostedServer", "RemoteProvider"]

#: Modules that are imported when they are first used: readers of configuration files need no client.
_LATE = {
    "Host": "carrel.host.host",
    "HostChange": "carrel.host.changes",
    "Hosted": "carrel.host.selection",
    "HostedServer": "carrel.host.hosted_server",
    "RemoteProvider": "carrel.host.remote",
}


def __getattr__(name: str) -> typing.Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(_LATE[name]), name)
    globals()[name] = found
    return found
