"""``carrel studio``: serves a page to browse, search and read servers and sources, and to pack contexts of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from carrel.cli.chat.host_targets import read_host_targets
from carrel.cli.client.stored_login import stored_login
from carrel.cli.options import Parser, add_header_option
from carrel.cli.source_targets import add_targets, open_source, parse_with_targets, split_targets
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.terminal.output import write_text
from carrel.cli.values import number
from carrel.errors import ConfigError, MCPError
from carrel.extras import explain_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from carrel.chat.model import Model
    from carrel.host.config import ServerConfig
    from carrel.server.app import Server
    from carrel.studio.timeline.timeline import Timeline

__all__ = ["check_installed", "parser", "run", "serve_beside"]

SUMMARY = "Look at servers and sources in the browser: search, pick, read, call, and pack contexts."
EXAMPLES = """\
examples:
  carrel studio ./notes                     a folder
  carrel studio mcp.json ./docs git:.       the servers of a file, a folder and this repository
  carrel studio http://127.0.0.1:8000/mcp   a server over HTTP
  carrel studio session.jsonl               a session that was exported, or recorded by carrel record
  carrel studio -- npx -y @modelcontextprotocol/server-everything
"""
TIMEOUT = 30.0


def parser() -> Parser:
    """Return the argument parser of ``carrel studio``."""
    reader = Parser("studio", SUMMARY, epilog=EXAMPLES)
    add_targets(reader)
    reader.add_argument("--port", metavar="N", type=port, default=0, help="the port of the page (default: a free one)")
    reader.add_argument(
        "--open",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="open the page in the browser (default: only at a terminal)",
    )
    reader.add_argument(
        "--model",
        metavar="NAME",
        help="the model of the chat and of sampling requests of servers; named as for carrel chat (default: the "
        "variable CARREL_MODEL, or the vendor whose key is set; the page can choose another one)",
    )
    add_header_option(reader)
    reader.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=number,
        default=TIMEOUT,
        help=f"the time limit for connecting to a server (default: {TIMEOUT:g})",
    )
    return reader


def port(text: str) -> int:
    """Return a port number.

    Raises:
        ValueError: it is not one.
    """
    value = int(text)
    if not 0 <= value <= 65535:
        raise ValueError
    return value


def run(arguments: list[str]) -> int:
    """Run ``carrel studio`` until Ctrl-C, and return the exit code.

    Raises:
        ConfigError: the arguments are invalid, the port is in use, or a package is missing.
    """
    options = parse_with_targets(parser(), arguments)
    check_installed()
    session = open_recording(options.targets)
    if session is not None:
        options.targets = []
    sources, others = split_targets(options)
    found = read_host_targets(others, options.header)
    configs = [*local_servers(sources, found.servers), *found.servers]
    from carrel.cli.server.logs import configure
    from carrel.transports import process

    configure("text", "warning")
    process.run(serve(configs, found.files, options, session))
    return 0


def open_recording(targets: Sequence[str]) -> Timeline | None:
    """Return the messages of a recording that is the target, or None if no target is a recording.

    Raises:
        ConfigError: the recording is damaged, or is not the only target.
    """
    from carrel.recordings import is_recording
    from carrel.studio.timeline.session_file import open_session

    files = [file for file in (Path(target).expanduser() for target in targets) if is_recording(file)]
    if not files:
        return None
    if len(targets) > 1:
        raise ConfigError(f"{files[0]} is a recording, which is opened without servers: give it as the only target")
    return open_session(files[0])


def check_installed() -> None:
    """Check that the packages of the page are installed.

    Raises:
        ConfigError: one is missing; the message says how to install it.
    """
    try:
        from carrel.studio import serving  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(explain_missing(error, "studio") or str(error)) from None


def local_servers(sources: Sequence[str], others: Sequence[ServerConfig]) -> list[ServerConfig]:
    """Return a server in this process for each source, named by the last part of its path.

    Raises:
        ConfigError: a source cannot be opened.
    """
    from carrel.host.config import ServerConfig
    from carrel.protocol import VERSION
    from carrel.server.app import Server

    taken = {other.name for other in others}
    found = []
    for source in sources:
        provider = open_source(source)
        base = name_of(source)
        name, count = base, 1
        while name in taken:
            count += 1
            name = f"{base}-{count}"
        taken.add(name)
        app = Server(name, VERSION)
        app.add_provider(provider)
        app.skills()  # even without skills, so that directories can be listed
        found.append(ServerConfig(name=name, app=app, transport="memory"))
    return found


def name_of(source: str) -> str:
    """Return a short name for a source: the last part of its path, or the source itself."""
    path = Path(source).expanduser()
    if path.exists():
        return path.resolve().name or str(path.resolve())
    location = source.partition("?")[0].rstrip("/")
    return location.rpartition("/")[2].removesuffix(".db") or location


async def serve(
    configs: Sequence[ServerConfig], files: Sequence[Path], options: argparse.Namespace, session: Timeline | None
) -> None:
    """Serve the page until the process is stopped."""
    from carrel.chat.models.open import configured_model
    from carrel.studio import Studio
    from carrel.studio import serve as serve_studio

    model = await open_model(options.model) or configured_model()
    studio = Studio(
        configs,
        files=files,
        model=model,
        targets=options.targets,
        session=session,
        start_timeout=options.timeout,
        credentials=lambda config: stored_login(config.headers),
    )

    wants_browser = sys.stdout.isatty() if options.open is None else options.open
    try:
        async with studio:
            for problem in studio.host.problems:
                print_stderr(f"carrel: {problem}")
            await serve_studio(studio, options.port, lambda link: show(link, open=wants_browser))
    finally:
        if model is not None and not isinstance(model, str):
            await model.close()


async def serve_beside(app: Server, on_started: Callable[[], None], *, open: bool) -> None:
    """Serve the page of a server that runs in this process, until the task is cancelled.

    ``on_started`` is called after the link was printed.
    """
    from carrel.host.config import ServerConfig
    from carrel.studio import Studio
    from carrel.studio import serve as serve_studio

    def started(link: str) -> None:
        show(link, open=open)
        on_started()

    async with Studio([ServerConfig(name=app.name, app=app, transport="memory")]) as studio:
        await serve_studio(studio, 0, started, signals=False)


def show(link: str, *, open: bool) -> None:
    """Print the link as one line on standard output, and open it in the browser if ``open``."""
    print_stderr("carrel: this link opens Carrel Studio. It is a key to your servers: keep it to yourself")
    write_text(link)
    sys.stdout.flush()
    if open:
        import webbrowser

        webbrowser.open(link)


async def open_model(name: str | None) -> Model | None:
    """Open the model that is named on the command line.

    Raises:
        ConfigError: the model cannot be opened.
    """
    if name is None:
        return None
    from carrel.chat.models.open import open_model as open_by_name

    try:
        return await open_by_name(name)
    except ConfigError:
        raise
    except MCPError as error:
        raise ConfigError(str(error)) from error
