"""``carrel run``: serves a server that is written in Python, on stdio or over HTTP."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.cli.config_read import Configuration, read_configuration
from carrel.cli.http_options import add_http_options, reachable_url, read_http_options, warn, warn_of_terminal
from carrel.cli.load import Place, load, read_place, ready
from carrel.cli.logs import add_log_options, configure
from carrel.cli.options import Parser, add_config_option, add_limit_option
from carrel.cli.script import enter
from carrel.cli.source_flags import SourceFlags
from carrel.cli.targets import Targets, app_place, read_targets, share
from carrel.errors import ConfigError

if TYPE_CHECKING:
    import argparse

    from carrel.server.app import Server
    from carrel.transports.server.options import ServeOptions

__all__ = ["add_target", "parser", "run"]

SUMMARY = "Serve the carrel.Server in a Python file or module."
EXAMPLES = """\
examples:
  carrel run server.py                          on stdio, for an application that starts it
  carrel run server.py --http 8000              over HTTP, on this machine only
  carrel run server.py:shop                     one of several servers in a file
  carrel run package.module:make_app            what a function returns, async or not
  carrel run --compat program.py ITS OPTIONS    a program for mcp 1.x or fastmcp, as it is
"""


def parser() -> Parser:
    """Return the argument parser of ``carrel run``."""
    reader = Parser("run", SUMMARY, epilog=EXAMPLES)
    add_target(reader, nargs="?")
    add_config_option(reader)
    reader.add_argument(
        "--compat",
        action="store_true",
        help="run a program written for mcp 1.x or fastmcp as it is, with its own arguments; comes first",
    )
    add_http_options(reader)
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


def run(arguments: list[str]) -> int:
    """Run ``carrel run`` until the client disconnects (stdio) or Ctrl-C (HTTP).

    Raises:
        ConfigError: wrong use, code that cannot be loaded, a port in use, or a missing package.
    """
    if arguments[:1] == ["--compat"] and len(arguments) > 1 and arguments[1] not in ("-h", "--help"):
        run_compat(arguments[1:])
        return 0
    options = parser().parse_args(arguments)
    if options.compat:
        raise ConfigError("--compat comes first, then the program and its own arguments: carrel run --compat FILE")
    configuration = read_configuration(options, targeted=options.target is not None)
    configure(configuration.settings.logging.format, configuration.settings.logging.level)
    place = read_place(options.target) if options.target is not None else configured_place(configuration)
    enter(place.file, ["run", *arguments])
    targets = read_targets(Namespace(targets=[], skills=[]), SourceFlags([]), configuration)
    http = read_http_options(configuration)
    if http is None:
        serve_stdio(place, configuration, targets)
    else:
        serve_http(place, configuration, targets, http)
    return 0


def configured_place(configuration: Configuration) -> Place:
    """Return the place of the server that the configuration names.

    Raises:
        ConfigError: it names none, or there is no such file.
    """
    file = configuration.settings.app.file
    if file is None:
        hint = (
            f'[app] of {configuration.file}: file = "server.py"' if configuration.file else "a carrel.toml with [app]"
        )
        raise ConfigError(f"say which server: a file, a module, or {hint} (see carrel run --help)")
    if configuration.folder and configuration.folder not in sys.path:
        sys.path.insert(0, configuration.folder)  # for a module
    return read_place(app_place(configuration, file))


def run_compat(arguments: list[str]) -> None:
    """Run a program written for ``mcp`` 1.x, with its own arguments, in the environment that its metadata names.

    Raises:
        ConfigError: the file or a package is missing.
    """
    if arguments[0] != "-m":
        if not Path(arguments[0]).exists():
            raise ConfigError(f"There is no file {arguments[0]}")
        enter(arguments[0] if Path(arguments[0]).is_file() else None, ["run", "--compat", *arguments])
    try:
        from carrel.compat.__main__ import main
    except ImportError as error:
        raise ConfigError(f"--compat needs the package {error.name}: pip install 'carrel[compat]'") from None
    main(arguments)


def serve_stdio(place: Place, configuration: Configuration, targets: Targets) -> None:
    """Serve on the standard streams, which are the protocol's before any code of the author runs."""
    from carrel.transports import process
    from carrel.transports.server import stdio

    source, sink = stdio.claim()
    loaded = load(place)

    async def serve() -> None:
        app = await ready(loaded)
        prepare(app, configuration, targets)
        warn_of_terminal(source)
        await stdio.serve(app, source, sink)

    process.run(serve())


def serve_http(place: Place, configuration: Configuration, targets: Targets, http: ServeOptions) -> None:
    """Serve over HTTP until the process is stopped."""
    from carrel.server.app import Server
    from carrel.transports import process

    loaded = load(place)
    if isinstance(loaded, Server):  # ``run`` uses the fastest event loop that is installed
        prepare(loaded, configuration, targets)
        announce(loaded, http)
        loaded.run("http", **http)
        return

    async def serve() -> None:
        app = await ready(loaded)
        prepare(app, configuration, targets)
        announce(app, http)
        await app.run_async("http", **http)

    process.run(serve())


def prepare(app: Server[Any], configuration: Configuration, targets: Targets) -> None:
    """Give a server the limits and the sources of the configuration."""
    app.limits = msgspec.structs.replace(app.limits, **configuration.given("limits"))
    share(app, targets)


def announce(app: Server[Any], http: ServeOptions) -> None:
    """Print the URL of a server once it listens."""
    http["on_started"] = lambda url: warn(f"{app.name} is ready at {reachable_url(url)}")
