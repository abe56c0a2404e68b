"""``carrel dev``: serves a server during development, reloads it when its code changes, and logs every message."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carrel.cli.config.read import read_configuration
from carrel.cli.options import Parser
from carrel.cli.server.compat_option import SPELLINGS, redirect, take_generation
from carrel.cli.server.http_options import add_http_options, reachable_url, read_http_options, warn, warn_of_terminal
from carrel.cli.server.load import load
from carrel.cli.server.logs import add_log_options, configure
from carrel.cli.server.message_log import MessageLog
from carrel.cli.server.reload import Reloading, names
from carrel.cli.server.run import add_target
from carrel.cli.server.script import enter
from carrel.cli.target import read_location
from carrel.errors import ConfigError

if TYPE_CHECKING:
    from carrel.transports.server.options import ServeOptions

__all__ = ["parser", "run"]

SUMMARY = (
    "Serve a server while you write it. Carrel reloads it when its code changes, clients stay connected, and every "
    "message is shown on standard error."
)
EXAMPLES = """\
examples:
  carrel dev server.py                          on stdio, for an application that starts it
  carrel dev server.py --http 8000              over HTTP; press i for the MCP Inspector
  carrel dev server.py --open                   in the browser, with every message (carrel studio)
  carrel dev server.py --raw 2> messages.jsonl  every message as a line of JSON
"""
MISSING = "carrel dev needs watchfiles: pip install 'carrel[files]'"
INSPECTOR = "@modelcontextprotocol/inspector"


def parser() -> Parser:
    """Return the argument parser of ``carrel dev``."""
    reader = Parser("dev", SUMMARY, epilog=EXAMPLES)
    add_target(reader)
    reader.add_argument(
        *SPELLINGS,
        action="store_true",
        help="the file is a program for mcp or fastmcp",
    )
    reader.add_argument("--raw", action="store_true", help="show messages as JSON: time, direction and message")
    reader.add_argument(
        "--studio",
        action="store_true",
        help="serve a page that shows the server, its messages and its changes (see carrel studio), and print its "
        "link; without --http, in place of stdio",
    )
    reader.add_argument("--open", action="store_true", help="as --studio, and open the page in the browser")
    add_http_options(reader)
    add_log_options(reader)
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel dev`` until the client disconnects (stdio) or Ctrl-C (HTTP).

    Raises:
        ConfigError: invalid arguments, code that cannot be loaded at startup, a port in use, or a missing package.
    """
    given, (arguments, generation) = arguments, take_generation(arguments)
    options = parser().parse_args(arguments)
    configuration = read_configuration(options, targeted=True)
    configure(configuration.settings.logging.format, configuration.settings.logging.level)
    location = read_location(options.target)
    enter(location.file, ["dev", *given])
    try:
        import watchfiles  # noqa: F401
    except ImportError:
        raise ConfigError(MISSING) from None
    if options.compat:
        redirect(location.program, generation)
    http = read_http_options(configuration)
    sys.dont_write_bytecode = True  # after two edits within a second, stale bytecode may look up to date
    studio = options.studio or options.open
    if studio:
        from carrel.cli.server.studio import check_installed

        check_installed()
    log = MessageLog(raw=options.raw)
    reloading = Reloading(location, log)
    if http is not None:
        serve_http(reloading, options.target, http, studio=studio, open=options.open)
    elif studio:
        serve_page(reloading, options.target, open=options.open)
    else:
        serve_stdio(reloading, options.target)
    return 0


def serve_stdio(reloading: Reloading, target: str) -> None:
    """Serve on stdio. The standard streams are claimed for the protocol before the user's code is imported."""
    from carrel.transports import process
    from carrel.transports.server import stdio

    source, sink = stdio.claim()
    loaded = load(target)

    async def serve() -> None:
        front = await reloading.open(loaded)
        async with watched(reloading):
            warn_of_terminal(source)
            await stdio.serve(front, source, sink)

    process.run(serve())


def serve_page(reloading: Reloading, target: str, *, open: bool) -> None:
    """Serve only the page of the studio until the process is stopped. Key r reloads."""
    from carrel.cli.server.studio import serve_beside
    from carrel.transports import process

    loaded = load(target)

    async def serve() -> None:
        front = await reloading.open(loaded)
        async with watched(reloading), keys({"r": lambda: reload(reloading, "r was pressed")}):
            await serve_beside(front, lambda: None, open=open)

    with contextlib.suppress(KeyboardInterrupt):
        process.run(serve())


def serve_http(reloading: Reloading, target: str, http: ServeOptions, *, studio: bool, open: bool) -> None:
    """Serve over HTTP until the process is stopped. Key i opens the inspector, key r reloads.

    With ``studio``, the page of the studio is served too.
    """
    from carrel.transports import process

    loaded = load(target)

    async def serve() -> None:
        front = await reloading.open(loaded)
        if http["authorization"] is None:
            http["authorization"] = reloading.authorization()

        def report_url(url: str) -> None:
            reachable = reachable_url(url)
            warn(f"{front.name} is ready at {reachable}")
            if is_interactive():
                warn("press i for the MCP Inspector, r to reload, Ctrl-C to stop")
                actions["i"] = lambda: inspect(reachable)

            if studio:
                from carrel.cli.server.studio import serve_beside

                pages.append(asyncio.ensure_future(serve_beside(front, lambda: None, open=open)))

        pages: list[asyncio.Task[None]] = []
        actions: dict[str, Callable[[], Awaitable[None]]] = {"r": lambda: reload(reloading, "r was pressed")}
        http["on_started"] = report_url
        async with watched(reloading), keys(actions):
            try:
                await front.run_async("http", **http)
            finally:
                for page in pages:
                    page.cancel()
                await asyncio.gather(*pages, return_exceptions=True)

    with contextlib.suppress(KeyboardInterrupt):
        process.run(serve())


@contextlib.asynccontextmanager
async def watched(reloading: Reloading) -> AsyncIterator[None]:
    """Context manager that reloads the server when its code changes."""
    task = asyncio.create_task(watch(reloading))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def watch(reloading: Reloading) -> None:
    """Watch the folders of the code. They may change with each reload."""
    from watchfiles import PythonFilter, awatch

    while True:
        folders = reloading.folders()
        async for changes in awatch(*folders, recursive=False, watch_filter=PythonFilter(), rust_timeout=1000):
            await reload(reloading, f"{names(location for _, location in changes)} changed")
            if reloading.folders() != folders:
                break


async def reload(reloading: Reloading, reason: str) -> None:
    """Reload the server, and print the result, or the error if the old server is kept."""
    try:
        await reloading.reload()
    except ConfigError as error:
        warn(f"{reason}, but {' '.join(str(error).split())}; the server stays as it was")
    else:
        warn(f"{reason}: reloaded")


def is_interactive() -> bool:
    """Return whether keys can be read from a terminal."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.platform != "win32"


@contextlib.asynccontextmanager
async def keys(actions: dict[str, Callable[[], Awaitable[None]]]) -> AsyncIterator[None]:
    """Context manager that awaits a key's action when the key is pressed on the terminal."""
    if not is_interactive():
        yield
        return
    import os
    import termios
    import tty

    loop, running = asyncio.get_running_loop(), set[asyncio.Task[Any]]()
    descriptor = sys.stdin.fileno()

    def pressed() -> None:
        for key in os.read(descriptor, 64).decode(errors="ignore").lower():
            if key in actions:
                task = asyncio.ensure_future(actions[key]())
                running.add(task)
                task.add_done_callback(running.discard)

    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, pressed)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def inspect(url: str) -> None:
    """Start the MCP Inspector, which opens a browser. Print instructions if Node is missing.

    https://modelcontextprotocol.io/docs/tools/inspector
    """
    words = ["-y", INSPECTOR, "--transport", "http", "--server-url", url]
    npx = shutil.which("npx")
    if npx is None:
        warn(f"the MCP Inspector needs Node (https://nodejs.org); then: npx {' '.join(words)}")
        return
    warn(f"starting npx {' '.join(words)}")
    process = await asyncio.create_subprocess_exec(npx, *words, stdin=asyncio.subprocess.DEVNULL, cwd=Path.home())
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
