"""Targets of client commands (a URL, file, folder, command or configured server), and connecting to them."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import shlex
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from carrel.cli.options import Parser
from carrel.cli.terminal.messages import pass_on, tell
from carrel.cli.terminal.progress import Bar
from carrel.cli.values import number
from carrel.errors import ConfigError, MCPError, PeerError, ResourceError
from carrel.redaction import without_secrets

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.client.handlers import Handlers
    from carrel.host.config import ServerConfig
    from carrel.transports.client.options import HTTPOptions, ProcessOptions

__all__ = [
    "CARREL",
    "SERVER_ERROR",
    "UNREACHABLE",
    "ServerTarget",
    "add_connection_options",
    "add_target",
    "answered",
    "ask",
    "failed",
    "near",
    "open_client",
    "read_target",
    "settings",
    "shown",
    "split",
]

#: Exit codes: the server returned an error; the server could not be reached, or the connection was lost.
SERVER_ERROR = 1
UNREACHABLE = 3
TIMEOUT = 60.0
#: The command that runs this Carrel.
CARREL = (sys.executable, "-m", "carrel")
#: A URL without its scheme, such as ``localhost:8000/mcp``.
HOST_AND_PORT = re.compile(r"[A-Za-z0-9.-]+:\d+(/.*)?")


class ServerTarget(NamedTuple):
    """Server to connect to: its URL, or the command that starts it. ``name`` is the target without secrets.

    ``configured`` is the configuration of a server found by name, with all variables replaced.
    """

    name: str
    server: str | list[str]
    configured: ServerConfig | None = None


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
    group.add_argument(
        "--header", metavar="'NAME: VALUE'", action="append", default=[], help="a header for URLs; may be repeated"
    )
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
            raise ConfigError("after -- comes the command of a server, for example: -- python server.py")
        options = reader.parse_intermixed_args([shlex.join(command), *arguments[:at]])
        return options, ServerTarget(without_secrets(shlex.join(command)), command)
    options = reader.parse_intermixed_args(arguments)
    return options, asked(options.target)


def asked(target: str) -> ServerTarget:
    """Return the server for a URL, folder, command, configured name or file.

    Raises:
        ConfigError: the target has none of these forms.
    """
    if not target.strip():
        raise ConfigError("TARGET is empty: name a URL, a file, a folder or a server")
    found = next((found for form in FORMS if (found := form(target)) is not None), None)
    found = of_file(target) if found is None else found
    return found._replace(name=without_secrets(found.name))


def of_url(target: str) -> ServerTarget | None:
    is_url = target.lower().startswith(("http://", "https://"))
    return ServerTarget(target.partition("?")[0], target) if is_url else None


def of_folder(target: str) -> ServerTarget | None:
    folder = Path(target).expanduser()
    return ServerTarget(target, [*CARREL, "serve", str(folder)]) if folder.is_dir() else None


def of_source(target: str) -> ServerTarget | None:
    """Return a server that shares a source, such as ``git:.`` or ``sqlite:///shop.db``."""
    if ":" not in target or ".py:" in target or " " in target:
        return None
    from carrel.sources.registry import find, scheme_of

    scheme = scheme_of(target)
    if scheme == "file" and not target.lower().startswith("file:"):
        return None
    return ServerTarget(target, [*CARREL, "serve", target]) if find(scheme) is not None else None


def of_command(target: str) -> ServerTarget | None:
    if " " not in target or Path(target).exists():
        return None
    return ServerTarget(target, split(target))


def of_file(target: str) -> ServerTarget:
    from carrel.cli.server.load import read_location

    if "://" in target:
        raise ConfigError(f"{target} is neither the URL of a server (http://, https://) nor a source")
    if HOST_AND_PORT.fullmatch(target) and not Path(target).exists():
        raise ConfigError(f"{target} is not a file; for a URL, write http://{target}")
    location = read_location(target)
    if location.file is not None and Path(location.file).suffix != ".py":
        raise ConfigError(f"{target} is not a Python file; to ask a program, write its command after --")
    return ServerTarget(target, [*CARREL, "run", location.absolute])


def of_name(target: str) -> ServerTarget | None:
    """Return the server with a name in carrel.toml or in the configuration of an application."""
    if not target.startswith("@") and ("/" in target or target.endswith(".py") or ".py:" in target):
        return None
    from carrel.cli.server_names import find_server, resolved_server

    server = find_server(target)
    if server is None:
        return None
    configured = resolved_server(server)
    command = [configured.command, *configured.args] if configured.command is not None else []
    return ServerTarget(server.name, configured.url or command, configured)


#: Functions that recognize the forms of a target, tried in order. Any other target is a file.
FORMS: tuple[Callable[[str], ServerTarget | None], ...] = (of_url, of_source, of_name, of_folder, of_command)


def split(command: str) -> list[str]:
    """Split a command into words.

    Raises:
        ConfigError: the quoting is invalid.
    """
    try:
        return shlex.split(command, posix=sys.platform != "win32")
    except ValueError as error:
        raise ConfigError(f"{command!r} is not a command: {error}") from None


def ask(
    whom: ServerTarget,
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
            showing.update(f"connecting to {whom.name}")
            async with open_client(whom, options, handlers=handlers) as client:
                if bar is None:
                    showing.stop()
                return await request(client)

    return answered(connected, quiet=options.quiet, name=whom.name)


def open_client(
    whom: ServerTarget,
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
    http, process = settings(whom, options, stderr)
    timeout = options.timeout
    if whom.configured is not None:
        revision = revision or whom.configured.revision
        if whom.configured.timeout is not None and timeout == TIMEOUT:
            timeout = whom.configured.timeout
    return Client(whom.server, timeout=timeout, handlers=handlers, revision=revision, http=http, process=process)


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

        text = str(error)
        return failed(text if quiet else text.partition(STDERR_FOLLOWS)[0], UNREACHABLE)


def settings(
    whom: ServerTarget, options: argparse.Namespace, stderr: Callable[[str], None] | None = None
) -> tuple[HTTPOptions | None, ProcessOptions | None]:
    """Return the connection options, for HTTP or for a process.

    Raises:
        ConfigError: a header is invalid, or given for a process.
    """
    from carrel.transports.client.options import HTTPOptions, ProcessOptions

    if isinstance(whom.server, str):
        headers: dict[str, str] = {} if whom.configured is None else dict(whom.configured.headers)
        for header in options.header:
            name, colon, value = header.partition(":")
            if not colon or not name.strip():
                raise ConfigError("--header: a header is 'NAME: VALUE', for example 'Authorization: Bearer …'")
            headers[name.strip()] = value.strip()
        if any(name.lower() == "authorization" for name in headers):
            return HTTPOptions(headers=headers), None
        from carrel.cli.client.stored_login import StoredLogin

        return HTTPOptions(headers=headers, auth=StoredLogin()), None
    if options.header:
        raise ConfigError("--header is for URLs; a command gets the environment of your shell")
    if stderr is None and not options.quiet:
        stderr = DistinctLines()
    if whom.configured is None:
        return None, ProcessOptions(env=dict(os.environ), stderr=stderr, name=whom.name)
    configured = whom.configured
    return None, ProcessOptions(env=configured.env, cwd=configured.cwd, stderr=stderr, name=whom.name)


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
    tell(f"carrel: {shown(' '.join(text.split()))}")
    return code


def near(name: str, names: Sequence[str]) -> str:
    """Return a "did you mean" hint for an unknown name, or else the list of known names."""
    from difflib import get_close_matches

    close = get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean {shown(close[0])}?"
    return f"; there is {shown(', '.join(sorted(names)), 300)}" if names else "; there are none"


def shown(text: str, longest: int = 1000) -> str:
    """Return text of a server for the terminal, without control characters."""
    from carrel.printable import printable

    return printable(text, longest)
