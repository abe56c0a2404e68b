"""Imports all modules that commands use, so that forks of a process that has done it need not."""

import pkgutil
from importlib import import_module

from support.forked_command import DATABASES, PACKAGES

#: Modules that those of the packages import when they are used.
MODULES = ("aiohttp", "carrel.client", "carrel.gateway.logins", "carrel.host", "carrel.security.client")
MODULES += ("carrel.server", "carrel.transports.client.http", "carrel.transports.client.stdio", "encodings.idna")
MODULES += ("carrel.transports.server.uvicorn", "carrel.wire.apps", "jsonschema_rs", "starlette.routing", "uvicorn")
MODULES += ("uvicorn.lifespan.off", "uvicorn.protocols.http.auto", "uvicorn.protocols.http.httptools_impl")

for package in (*PACKAGES, "carrel.studio"):
    for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
        import_module(module.name)
for name in (*MODULES, *DATABASES):
    import_module(name)
