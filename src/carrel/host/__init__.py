"""Hosts: connect to many servers, and combine them into one catalog. Each remote server is a provider."""

from typing import TYPE_CHECKING

from carrel.late import late

if TYPE_CHECKING:
    from carrel.host.changes import HostChange
    from carrel.host.config.discover import discover, unique
    from carrel.host.config.inputs import Inputs
    from carrel.host.config.read import read_file
    from carrel.host.config.server_config import ConfigFile, ConfigProblem, Input, ServerConfig
    from carrel.host.filters import ItemFilter
    from carrel.host.host import Host
    from carrel.host.hosted_server import HostedServer
    from carrel.host.remote import RemoteProvider
    from carrel.host.selection import Hosted

__all__ = [
    "ConfigFile",
    "ConfigProblem",
    "Host",
    "HostChange",
    "Hosted",
    "HostedServer",
    "Input",
    "Inputs",
    "ItemFilter",
    "RemoteProvider",
    "ServerConfig",
    "discover",
    "read_file",
    "unique",
]

#: Modules that are imported when their names are first used.
MODULES = {
    "carrel.host.changes": ("HostChange",),
    "carrel.host.config.discover": (
        "discover",
        "unique",
    ),
    "carrel.host.config.inputs": ("Inputs",),
    "carrel.host.config.read": ("read_file",),
    "carrel.host.config.server_config": (
        "ConfigFile",
        "Input",
        "ConfigProblem",
        "ServerConfig",
    ),
    "carrel.host.filters": ("ItemFilter",),
    "carrel.host.host": ("Host",),
    "carrel.host.hosted_server": ("HostedServer",),
    "carrel.host.remote": ("RemoteProvider",),
    "carrel.host.selection": ("Hosted",),
}

if not TYPE_CHECKING:
    __getattr__ = late(__name__, MODULES)
