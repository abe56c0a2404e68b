"""``carrel run``: serves a server written in Python, on stdio or over HTTP."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.cli.config.read import Configuration, read_configuration
from carrel.cli.options import Parser, add_config_option, add_limit_option
from carrel.cli.server.access import add_policy
from carrel.cli.server.compat_option import COMPAT, SPELLINGS, flag, redirect
from carrel.cli.server.http_options import (
    add_http_options,
    add_workers_option,
    reachable_url,
    read_http_options,
    warn,
    warn_of_terminal,
)
from carrel.cli.server.launchers import read_launch, runnable
from carrel.cli.server.limit_rules import add_limits
from carrel.cli.server.load import load, load_program, program_authorization, ready, requires_compat
from carrel.cli.server.logs import add_log_options, configure
from carrel.cli.server.operations import add_operations
from carrel.cli.server.script import enter
from carrel.cli.server.shared_state import add_state
from carrel.cli.server.sharing import Targets, app_location, read_targets, share
from carrel.cli.server.workers import start_workers
from carrel.cli.source_flags import SourceFlags
from carrel.cli.target import ServerLocation, read_location
from carrel.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from carrel.server.app import Server
    from carrel.transports.server.options import ServeOptions

__all__ = ["add_target", "parser", "run"]

#: Function that loads the server: by importing its code, or by running its program.
Loading = Callable[[], "Server[Any] | Awaitable[Any]"]

SUMMARY = "Serve the carrel.Server in a Python file or module."
EXAMPLES = """\
examples:
  carrel run server.py                          on stdio, for an application that starts it
  carrel run server.py --http 8000              over HTTP, on this machine only
  carrel run server.py:shop                     one of several servers in a file
  carrel run package.module:make_app            the server that a function returns, async or not
  carrel run --compat program.py ARGUMENTS      a program for mcp or fastmcp, as it is
  carrel run --compat program.py --http 8000    the server of such a program, over HTTP
  carrel run --compat -- mcp-server-time        a command that a package installs beside Carrel
  carrel run --compat --http 8000 -- mcp-server-git --repository .
"""


def parser() -> Parser:
    """Return the argument parser of ``carrel run``."""
    reader = Parser("run", SUMMARY, epilog=EXAMPLES)
    add_target(reader, nargs="?")
    add_config_option(reader)
    reader.add_argument(
        *SPELLINGS,
        action="store_true",
        help="the file is a program for mcp or fastmcp. As the first option, run it as it is, with the arguments "
        "after FILE; with FILE:NAME or --http, serve the server that it makes. Its imports and requirements tell "
        "which version it is for; --compat=mcp1 and --compat=mcp2 do too",
    )
    reader.add_argument(
        "-m",
        metavar="MODULE",
        dest="module",
        help="run a module for mcp or fastmcp as a program, as python -m does. -- is followed by its arguments",
    )
    add_http_options(reader)
    add_workers_option(reader)
    add_limit_option(reader)
    add_log_options(reader)
    return reader


def add_target(reader: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """Add the argument that names the server."""
    reader.add_argument(
        "target",
        metavar="FILE[:NAME]",
        nargs=nargs,
        help="a Python file, or a module by its dotted name; NAME is a Server in it, or a function that returns one "
        "(default: the only Server, or make_app)",
    )


def run(arguments: list[str], generation: int | None = None) -> int:
    """Serve until the client disconnects (stdio) or Ctrl-C (HTTP).

    ``generation`` is the major version of ``mcp`` that a program was written for, if ``--compat`` has a value.

    Raises:
        ConfigError: invalid arguments, code that cannot be loaded, a port in use, or a missing package.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = read_options(arguments[:end])
    program = program_of(options, arguments[end + 1 :], generation)
    configuration = read_configuration(options, targeted=program is not None or options.target is not None)
    configure(configuration.settings.logging.format, configuration.settings.logging.level)
    words = ["run", *(flag(generation) if word == COMPAT else word for word in arguments)]
    if program is not None:
        enter(program[0] if program[0].endswith(".py") else None, words)
        redirect(program, generation)
        loading: Loading = partial(load_program, program)
    else:
        given = options.target
        location = read_location(given) if given is not None else configured_location(configuration)
        enter(location.file, words)
        if options.compat:
            redirect(location.program, generation)
        loading = partial(load, location)
    targets = read_targets(Namespace(targets=[], skills=[]), SourceFlags([]), configuration)
    http = read_http_options(configuration)
    outcome = start_workers(configuration)
    if isinstance(outcome, int):
        return outcome
    configuration.worker = outcome
    if http is None:
        serve_stdio(loading, configuration, targets)
    else:
        serve_http(loading, configuration, targets, http)
    return 0


def program_of(options: Namespace, passed: list[str], generation: int | None) -> list[str] | None:
    """Return the program that runs until its server begins to serve: with ``-m``, or with words after ``--``.

    Raises:
        ConfigError: the words are not a Python program, or the file is no program for ``mcp`` or ``fastmcp``.
    """
    if options.module is None and not passed:
        return None
    if options.target is not None and not options.compat and not requires_compat(read_location(options.target)):
        raise ConfigError(f"words after -- are for programs for mcp and fastmcp: add {COMPAT}")
    if options.module is not None and options.target is not None:
        raise ConfigError(f"unrecognized arguments: {options.target}; write -- before the arguments of the program")
    if options.module is not None:
        return ["-m", options.module, *passed]
    if options.target is not None:
        return [runnable(options.target), *passed]
    launch = read_launch(passed, flag(generation))
    if launch.program is None:
        raise ConfigError(f"{passed[0]} starts another process, which has no --http: name the program itself")
    return launch.program


def read_options(arguments: list[str]) -> Namespace:
    """Parse the arguments. If a program for ``mcp`` or ``fastmcp`` is given further arguments, explain ``--compat``.

    Raises:
        ConfigError: the arguments are invalid.
    """
    options, unknown = parser().parse_known_args(arguments)
    if unknown and options.target is not None and requires_compat(read_location(options.target)):
        raise ConfigError(
            f"unrecognized arguments: {' '.join(unknown)}; {options.target} is a program for mcp or fastmcp: to run it "
            f"with its own arguments, write carrel run --compat {options.target} ARGUMENTS"
        )
    return parser().parse_args(arguments) if unknown else options


def configured_location(configuration: Configuration) -> ServerLocation:
    """Return the location of the server named in the configuration.

    Raises:
        ConfigError: no server is configured, or the file does not exist.
    """
    file = configuration.settings.app.file
    if file is None:
        hint = (
            f'[app] of {configuration.file}: file = "server.py"' if configuration.file else "a carrel.toml with [app]"
        )
        raise ConfigError(f"no server given: name a file, a module, or {hint} (see carrel run --help)")
    if configuration.folder and configuration.folder not in sys.path:
        sys.path.insert(0, configuration.folder)  # to import a module
    return read_location(app_location(configuration, file))


def serve_stdio(loading: Loading, configuration: Configuration, targets: Targets) -> None:
    """Serve on stdio. The standard streams are claimed for the protocol before the user's code is imported."""
    from carrel.transports import process
    from carrel.transports.server import stdio

    source, sink = stdio.claim()
    loaded = loading()

    async def serve() -> None:
        app = await ready(loaded)
        prepare(app, configuration, targets, None)
        warn_of_terminal(source)
        await stdio.serve(app, source, sink)

    process.run(serve())


def serve_http(loading: Loading, configuration: Configuration, targets: Targets, http: ServeOptions) -> None:
    """Serve over HTTP until the process is stopped."""
    from carrel.server.app import Server
    from carrel.transports import process

    loaded = loading()
    if isinstance(loaded, Server):  # ``run`` uses the fastest event loop that is installed
        prepare(loaded, configuration, targets, http)
        report_url(loaded, configuration, http)
        loaded.run("http", **http)
        return

    async def serve() -> None:
        app = await ready(loaded)
        prepare(app, configuration, targets, http)
        report_url(app, configuration, http)
        await app.run_async("http", **http)

    process.run(serve())


def prepare(app: Server[Any], configuration: Configuration, targets: Targets, http: ServeOptions | None) -> None:
    """Apply the limits, the policy and the sources of the configuration to a server.

    Over HTTP, a program's own authorization holds, unless the configuration has another one.
    """
    if http is not None and http["authorization"] is None:
        http["authorization"] = program_authorization(app)
    add_operations(app, configuration)
    add_limits(app, configuration, http)
    add_policy(app, configuration, http)
    add_state(app, configuration)
    app.limits = msgspec.structs.replace(app.limits, **configuration.given("limits"))
    share(app, targets)


def report_url(app: Server[Any], configuration: Configuration, http: ServeOptions) -> None:
    """Print the URL of a server after it has started listening."""
    http["on_started"] = lambda url: warn(f"{app.name} is ready at {reachable_url(url)}")
    if configuration.worker is not None:
        configuration.worker.attach(http)
