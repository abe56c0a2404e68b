"""Shared targets of a configuration: the resources, templates, tools and prompts that its policy decides about."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from carrel.cli.config.read import DEFAULT_FILE, Configuration
from carrel.cli.server.load import load, ready
from carrel.cli.server.sharing import app_location, read_targets, share
from carrel.cli.source_flags import SourceFlags
from carrel.cli.terminal.messages import print_stderr

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.policy.server_view import FindTarget
    from carrel.protocol.methods import Verb
    from carrel.server.app import Server

__all__ = ["Shared", "open_shared"]


class Shared(msgspec.Struct):
    """Clients of the servers that a configuration shares, without their policy.

    ``find_target`` finds the targets of a gateway; None without a gateway. ``left_out`` names the servers that failed,
    each with the reason.
    """

    clients: list[Client]
    find_target: FindTarget | None = None
    left_out: list[str] = []

    async def templates(self) -> list[str]:
        """Return the templates of resources."""
        return [template.uri_template for client in self.clients async for template in client.list_resource_templates()]

    async def targets(self) -> list[tuple[Verb, str]]:
        """Return the resources (with the verb ``read``), tools (``call``) and prompts (``get``)."""
        found: list[tuple[Verb, str]] = []
        for client in self.clients:
            found += [("read", resource.uri) async for resource in client.list_resources()]
            found += [("call", tool.name) async for tool in client.list_tools()]
            found += [("get", prompt.name) async for prompt in client.list_prompts()]
        return found


@asynccontextmanager
async def open_shared(configuration: Configuration) -> AsyncIterator[Shared]:
    """Open the targets of a configuration: its sources or its program, and its servers as a gateway shows them.

    Raises:
        ConfigError: a source or the program cannot be opened.
    """
    from carrel.client.client import Client
    from carrel.gateway.gateway import Gateway
    from carrel.host.config import read_file

    async with AsyncExitStack() as stack:
        shared = Shared([])
        app = await _app(configuration)
        if app is not None:
            shared.clients.append(await stack.enter_async_context(Client(app)))
        file = Path(configuration.file or DEFAULT_FILE)
        if read_file(file, "carrel").servers:
            gateway = await stack.enter_async_context(Gateway(files=[file], status=False))
            host = gateway.host
            await asyncio.gather(*map(host.wake, host.servers))  # until each is ready or has failed
            for server in host.servers.values():
                if server.state == "failed":
                    shared.left_out.append(f"{server.name} is left out: {server.reason or 'it is not connected'}")
            print_stderr(*(f"carrel: {each}" for each in shared.left_out))
            shared.clients.append(await stack.enter_async_context(Client(gateway.app)))
            shared.find_target = gateway.catalog.find_target
        yield shared


async def _app(configuration: Configuration) -> Server | None:
    from carrel.cli.server.serve import add_search, create

    program = configuration.settings.app.file
    targets = read_targets(Namespace(targets=[], skills=[]), SourceFlags([]), configuration)
    if program is not None:
        app = await ready(load(app_location(configuration, program)))
        app.gate = None
    elif targets:
        app = create(targets, configuration)
    else:
        return None
    share(app, targets)
    if program is None:
        add_search(app, targets, configuration, index=False)  # for its tools
    return app
