"""Targets of client commands (a URL, file, folder, command or configured server), and connecting to them."""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from carrel.cli.options import Parser, add_header_option
from carrel.cli.target import ServerTarget, resolve, split
from carrel.cli.terminal.messages import pass_on, print_stderr
from carrel.cli.terminal.progress import Bar
from carrel.cli.values import header, number
from carrel.errors import ConfigError, MCPError, PeerError, ResourceError
from carrel.redaction import without_secrets

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.client.handlers import Handlers
    from carrel.transports.client.options import HTTPOptions, ProcessOptions

__all__ = [
    "SERVER_ERROR",
    "UNREACHABLE",
    "add_connection_options",
    "add_target",
    "answered",
    "ask",
    "failed",
    "open_client",
    "read_target",
    "settings",
    "shown",
]

#: Exit codes: the server returned an error; the server could not be reached, or the connection was lost.
SERVER_ERROR = 1
UNREACHABLE = 3
#: Ends of the error if a program has ended with the exit code for wrong use: its output may end first.
WRONG_USE = ("has ended with exit status 2.", "has closed its standard output.")
TIMEOUT = 60.0


def add_target(reader: Parser) -> None:
    """Add the argument TARGET for ``read_target``."""
    reader.add_argument(
        "target",
        metavar="TARGET",
        help="a URL, a Python file with a server (FILE[:NAME]), a folder or a source to share (git:., sqlite:///FILE), "
        "the name of a server in carrel.toml or an application (NAME or @NAME), or a command in quotes; or omit it, "
        "and write the command after --",
    )


def add_connection_options(reader: Parser) -> None:
    """Add the argument TARGET and the connection options for ``read_target``."""
    add_target(reader)
    group = reader.add_argument_group("the connection")
    add_header_option(group)
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=number,
        default=TIMEOUT,
        help=f"the time limit for an answer (default: {TIMEOUT:g})",
    )
    group.add_argument(
        "--quiet", action="store_true", help="show neither progress nor the standard error of the server"
    )
    group.add_argument("--json", action="store_true", help="print the answer as JSON")


def read_target(reader: Parser, arguments: list[str]) -> tuple[argparse.Namespace, ServerTarget]:
    """Parse the arguments of a command. The words after ``--`` are a server command that replaces TARGET.

    Raises:
        ConfigError: the arguments are invalid, or the target is not a server.
    """
    if "--" in arguments:
        at = arguments.index("--")
        command = arguments[at + 1 :]
        if len(command) == 1:
            command = split(command[0])
        if not command:
            raise ConfigError("write the command of a server after --, for example: -- python server.py")
        options = reader.parse_intermixed_args([shlex.join(command), *arguments[:at]])
        return options, ServerTarget(without_secrets(shlex.join(command)), command)
    options = reader.parse_intermixed_args(arguments)
    return options, resolve(options.target)


def ask(
    target: ServerTarget,
    options: argparse.Namespace,
    request: Callable[[Client], Awaitable[int]],
    handlers: Handlers | None = None,
    bar: Bar | None = None,
) -> int:
    """Connect to a server, await ``request`` with the client, and return its exit code.

    A progress bar is shown while connecting. If ``bar`` is given, it stays after that, and ``request`` must stop it.

    Server errors and connection errors are printed as one line on standard error, with exit code 1 or 3.

    Raises:
        ConfigError: an option is wrong, or a package is missing.
    """

    async def connected() -> int:
        with Bar.of(options) if bar is None else bar as showing:
            showing.update(f"connecting to {target.name}")
            async with open_client(target, options, handlers=handlers) as client:
                if bar is None:
                    showing.stop()
                return await request(client)

    return answered(connected, quiet=options.quiet, name=target.name)


def open_client(
    target: ServerTarget,
    options: argparse.Namespace,
    *,
    handlers: Handlers | None = None,
    revision: str | None = None,
    stderr: Callable[[str], None] | None = None,
) -> Client:
    """Return a client for a server, not yet entered. ``stderr`` receives the lines of the server's standard error.

    Raises:
        ConfigError: an option is wrong, or a package is missing.
    """
    from carrel.client.client import Client

    if not options.timeout > 0:
        raise ConfigError(f"--timeout {options.timeout:g}: give a number of seconds above 0")
    http, process = settings(target, options, stderr)
    timeout = options.timeout
    if target.configured is not None:
        revision = revision or target.configured.revision
        if target.configured.timeout is not None and timeout == TIMEOUT:
            timeout = target.configured.timeout
    return Client(target.server, timeout=timeout, handlers=handlers, revision=revision, http=http, process=process)


def answered(request: Callable[[], Coroutine[Any, Any, int]], *, quiet: bool = False, name: str = "") -> int:
    """Run a coroutine, and return its exit code, or the exit code for the error that it raises.

    ``name`` is the name of the server, which is printed with errors of its HTTP endpoint.

    Raises:
        ConfigError: an option is wrong, or a package is missing.
    """
    try:
        return asyncio.run(request())
    except ConfigError:
        raise
    except (PeerError, ResourceError) as error:
        text = error.message if isinstance(error, PeerError) else str(error)
        of_endpoint = isinstance(error, PeerError) and error.status is not None and name
        return failed(f"{name}: {text}" if of_endpoint else text, SERVER_ERROR)
    except MCPError as error:  # connection lost, access denied, or protocol violation
        from carrel.transports.client.transport import STDERR_FOLLOWS

        text, _, errors = str(error).partition(STDERR_FOLLOWS)
        last = errors.rpartition("\n")[2]
        if text.endswith(WRONG_USE) and last.startswith("carrel: "):  # of a carrel command, whose error it is
            return failed(last.removeprefix("carrel: "), 2) if quiet else 2
        return failed(str(error) if quiet else text, UNREACHABLE)


def settings(
    target: ServerTarget, options: argparse.Namespace, stderr: Callable[[str], None] | None = None
) -> tuple[HTTPOptions | None, ProcessOptions | None]:
    """Return the connection options, for HTTP or for a process.

    Raises:
        ConfigError: a header is invalid, or given for a process.
    """
    from carrel.transports.client.options import HTTPOptions, ProcessOptions

    if isinstance(target.server, str):
        headers: dict[str, str] = {} if target.configured is None else dict(target.configured.headers)
        headers |= dict(map(header, options.header))
        from carrel.cli.client.stored_login import stored_login

        return HTTPOptions(headers=headers, auth=stored_login(headers)), None
    if options.header:
        raise ConfigError("--header is for URLs; a command gets the environment of your shell")
    if stderr is None and not options.quiet:
        stderr = DistinctLines()
    if target.configured is None:
        return None, ProcessOptions(env=dict(os.environ), stderr=stderr, name=target.name)
    configured = target.configured
    return None, ProcessOptions(env=configured.env, cwd=configured.cwd, stderr=stderr, name=target.name)


class DistinctLines:
    """Prints lines of a server without repetitions: a server that exits at once is restarted for an older revision."""

    def __init__(self) -> None:
        self.last = ""

    def __call__(self, line: str) -> None:
        """Print a line on standard error; on a terminal, its control characters are escaped."""
        if line != self.last:
            pass_on(line)
        self.last = line


def failed(text: str, code: int) -> int:
    """Print an error as one line, and return the exit code."""
    print_stderr(f"carrel: {shown(' '.join(text.split()))}")
    return code


def shown(text: str, longest: int = 1000) -> str:
    """Return text of a server for the terminal, without control characters."""
    from carrel.printable import printable

    return printable(text, longest)
