"""``carrel gateway``: serves the servers of configuration files as one server, on stdio or over HTTP."""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH113, PTH119

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from carrel.cli.config.read import Configuration, read_configuration
from carrel.cli.options import Parser, add_config_option, add_limit_option
from carrel.cli.server.access import add_policy
from carrel.cli.server.gateway_sessions import isolation_options, shared_login
from carrel.cli.server.http_options import (
    SSE_PATH,
    add_http_options,
    add_workers_option,
    reachable_url,
    read_http_options,
    warn,
    warn_of_terminal,
)
from carrel.cli.server.limit_rules import add_limits
from carrel.cli.server.logs import add_log_options, configure
from carrel.cli.server.operations import add_operations
from carrel.cli.server.shared_state import add_state
from carrel.cli.server.workers import start_workers
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.terminal.progress import Bar, ProgressState, is_wanted
from carrel.cli.values import positive
from carrel.errors import ConfigError

if TYPE_CHECKING:
    from carrel.gateway.gateway import Gateway
    from carrel.transports.server.options import ServeOptions

__all__ = ["parser", "run"]

SUMMARY = "Offer the servers of configuration files as one server, to applications of any protocol revision."
EXAMPLES = """\
examples:
  carrel gateway mcp.json                       on stdio, for an application that starts it
  carrel gateway mcp.json --http 8000           over HTTP, on this machine only
  carrel gateway ~/.claude.json carrel.toml     the servers of both files
  carrel gateway mcp.json --only github files   two of its servers
  carrel install claude-desktop --gateway mcp.json   let an application start it
"""
DEFAULT_FILE = "carrel.toml"
#: States of servers that do not make the gateway unready.
AVAILABLE = ("ready", "idle", "disabled")


def parser() -> Parser:
    """Return the argument parser of ``carrel gateway``."""
    reader = Parser("gateway", SUMMARY, epilog=EXAMPLES)
    reader.add_argument(
        "files",
        metavar="CONFIG",
        nargs="*",
        help="a file with servers: mcpServers as of Claude, Cursor and others, servers of VS Code, context_servers of "
        "Zed, [mcp_servers] of Codex, [servers] of carrel.toml; its changes apply at once (default: ./carrel.toml)",
    )
    reader.add_argument(
        "--only", metavar="NAME", nargs="+", action="extend", default=[], help="only these servers of the files"
    )
    reader.add_argument(
        "--prefix",
        choices=("auto", "always", "never"),
        default="auto",
        help="which names and URIs get the name of their server as a prefix: names of several servers, all names, or "
        "none, and then a name that two servers have is an error (default: auto)",
    )
    reader.add_argument(
        "--revision",
        metavar="[NAME=]DATE",
        action="append",
        default=[],
        help="the revision of the protocol to speak with the server NAME, or, without NAME, with all servers whose "
        "entry has none; may be repeated (default: the newest of each server)",
    )
    reader.add_argument("--lazy", action="store_true", help="connect to a server at its first use")
    reader.add_argument(
        "--status",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="offer the resource carrel://gateway/servers, with the state of the servers (default: --status)",
    )
    reader.add_argument(
        "--search-tools",
        action="store_true",
        help="list only the tools search_tools and call_tool, for models that cannot handle many tools",
    )
    reader.add_argument(
        "--pin",
        metavar="TOOL",
        action="append",
        default=[],
        help="with --search-tools: a tool that stays listed, or a pattern such as 'files_*'; may be repeated",
    )
    reader.add_argument("--name", metavar="NAME", help="the name of the gateway (default: carrel-gateway)")
    reader.add_argument(
        "--page-size", metavar="N", type=positive, default=None, help="the number of entries per page of a list"
    )
    add_config_option(reader)
    add_http_options(reader)
    add_workers_option(reader)
    add_limit_option(reader)
    add_log_options(reader)
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel gateway`` until the client disconnects (stdio) or Ctrl-C (HTTP).

    Raises:
        ConfigError: invalid arguments, no servers, a port in use, or a missing package.
    """
    options = parser().parse_intermixed_args(arguments)
    if options.config is None and [os.path.basename(file) for file in options.files] == [DEFAULT_FILE]:
        options.config = options.files[0]  # its other sections configure the gateway
    configuration = read_configuration(options, targeted=bool(options.files))
    configure(configuration.settings.logging.format, configuration.settings.logging.level)
    files = files_of(options, configuration)
    check_files(files)
    http = read_http_options(configuration)
    outcome = start_workers(configuration)
    if isinstance(outcome, int):
        return outcome
    configuration.worker = outcome
    from carrel.transports import process

    if http is None:
        from carrel.transports.server import stdio

        source, sink = stdio.claim()

        async def serve() -> None:
            async with connected(create(files, options, configuration, None)) as gateway:
                await greet(gateway)
                warn_of_terminal(source)
                await stdio.serve(gateway.app, source, sink)

        process.run(serve())
    else:
        process.run(serve_http(files, options, configuration, http))
    return 0


def files_of(options: argparse.Namespace, configuration: Configuration) -> list[str]:
    """Return the configuration files.

    Raises:
        ConfigError: a file does not exist, or no file is named.
    """
    named = options.files or [file for file in (configuration.file,) if file is not None]
    files = [os.path.expanduser(file) for file in named]  # noqa: PTH111
    if not files:
        raise ConfigError("no servers given: name a configuration file, or a carrel.toml (see carrel gateway --help)")
    for file in files:
        if not os.path.isfile(file):
            raise ConfigError(f"there is no file {file}")
    return files


def check_files(files: list[str]) -> None:
    """Check that configuration files have a server, or no errors.

    Raises:
        ConfigError: all servers have errors, or a file cannot be parsed. The message is the first error.
    """
    from pathlib import Path

    from carrel.host.config import read_file

    read = [read_file(Path(file)) for file in files]
    problems = [problem for file in read for problem in file.problems]
    if problems and not any(file.servers for file in read):
        raise ConfigError(str(problems[0]))


def create(
    files: list[str], options: argparse.Namespace, configuration: Configuration, http: ServeOptions | None
) -> Gateway:
    """Create the gateway for the servers in configuration files."""
    from carrel.catalog.provider import Provider
    from carrel.gateway.gateway import Gateway

    if options.pin and not options.search_tools:
        raise ConfigError("--pin is for --search-tools; without it, all tools are listed")

    def search(provider: Provider) -> Provider:
        from carrel.gateway.tool_search import ToolSearch

        return ToolSearch(provider, pinned=options.pin, about=lambda: sorted(gateway.host.servers))

    given = configuration.given("server")
    given.pop("tools", None)
    named = {name: given.pop(name) for name in ("name", "instructions") if name in given}
    app = dict(given)
    app["limits"] = configuration.settings.limits
    revision, revisions = read_revisions(options.revision)
    gateway = Gateway(
        files=files,
        prefix=options.prefix,
        only=options.only,
        revision=revision,
        revisions=revisions,
        status=options.status,
        lazy=options.lazy,
        credentials=shared_login(http),
        transform=search if options.search_tools else None,
        app=app,
        **isolation_options(configuration, http, lambda: gateway.app.endpoint.replica),
        **named,
    )
    add_operations(
        gateway.app,
        configuration,
        lambda: {server.name: server.state in AVAILABLE for server in tuple(gateway.host.servers.values())},
    )
    add_limits(gateway.app, configuration, http)
    add_policy(gateway.app, configuration, http, gateway.catalog.find_target)
    add_state(gateway.app, configuration)
    return gateway


def read_revisions(given: list[str]) -> tuple[str | None, dict[str, str]]:
    """Parse the protocol revisions: the revision for all servers, or None, and the revisions by server name.

    Raises:
        ConfigError: there is no such revision.
    """
    from carrel.protocol.revisions import REVISIONS

    default, named = None, dict[str, str]()
    for option in given:
        name, equals, revision = option.rpartition("=")
        if revision not in REVISIONS:
            known = ", ".join(REVISIONS)
            raise ConfigError(f"--revision {option}: there is no revision {revision!r}; they are {known}")
        if equals:
            named[name] = revision
        else:
            default = revision
    return default, named


@asynccontextmanager
async def connected(gateway: Gateway) -> AsyncIterator[Gateway]:
    """Enter a gateway, and show on a terminal how many servers have connected."""

    def state() -> ProgressState:
        servers = gateway.host.servers.values()
        waiting = [server.name for server in servers if server.state not in ("ready", "failed", "disabled", "closed")]
        about = f"connecting to {', '.join(waiting)}" if waiting else "connecting to the servers"
        return ProgressState(about, len(servers) - len(waiting), len(servers))

    async with AsyncExitStack() as stack:
        with Bar(wanted=is_wanted(), state=state):
            await stack.enter_async_context(gateway)
        yield gateway


async def serve_http(
    files: list[str], options: argparse.Namespace, configuration: Configuration, http: ServeOptions
) -> None:
    """Serve over HTTP until the process is stopped."""
    worker = configuration.worker
    async with connected(create(files, options, configuration, http)) as gateway:
        await greet(gateway, shows=worker is None or worker.greets)
        path = "/" + http["path"].strip("/")

        def started(url: str) -> None:
            reachable = reachable_url(url)
            warn(f"the gateway is ready at {reachable}")
            if http["sse_path"] is not None:
                warn(f"for old applications: {reachable.removesuffix(path)}{SSE_PATH}")

        http["on_started"] = started
        if worker is not None:
            worker.attach(http)
        await gateway.app.run_async("http", **http)


async def greet(gateway: Gateway, *, shows: bool = True) -> None:
    """Print a table of the servers' states, and the tokens that tool search saves. With workers, one of them ``shows``
    it.

    Raises:
        ConfigError: no servers are configured.
    """
    from carrel.gateway.tool_search import ToolSearch

    if not gateway.host.servers:
        raise ConfigError("there are no servers in these files; carrel import copies the servers of your applications")
    if isinstance(gateway.provider, ToolSearch):
        await gateway.provider.savings()
    if shows:
        print_stderr(*gateway.table().splitlines())
