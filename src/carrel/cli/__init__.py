"""Command-line interface: the ``carrel`` command. Each subcommand is a module, imported only when it is run."""

from __future__ import annotations

import sys

from carrel.errors import ConfigError

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "serve": "share folders with AI applications, on stdio or over HTTP",
    "install": "add a server to Claude Desktop, VS Code or Cursor",
}

WRONG_USE = 2
INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand and return the exit code: 0, 2 after wrong use or wrong set-up, 130 after Ctrl-C."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        return run(arguments)
    except ConfigError as error:
        one_line = " ".join(str(error).split())
        sys.stderr.write(f"carrel: {one_line}\n")
        return WRONG_USE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output is gone; without this, the interpreter reports it again on exit.
        sys.stdout = None
        return BROKEN_PIPE


def run(arguments: list[str]) -> int:
    """Dispatch to the subcommand.

    Raises:
        ConfigError: there is no such subcommand, or it failed because of wrong use.
    """
    first = arguments[0] if arguments else "--help"
    if first == "serve":
        from carrel.cli import serve

        return serve.run(arguments[1:])
    if first == "install":
        from carrel.cli import install

        return install.run(arguments[1:])
    if first in ("--version", "-V"):
        from carrel import __version__

        return show(f"carrel {__version__}\n")
    if first in ("--help", "-h", "help"):
        return show(overview())
    raise ConfigError(f"there is no command {first!r}{suggestion(first)} (see carrel --help)")


def show(text: str) -> int:
    sys.stdout.write(text)
    sys.stdout.flush()  # flushed here, so that a broken pipe is noticed in time
    return 0


def overview() -> str:
    """Return the help text of ``carrel --help``."""
    commands = "\n".join(f"  {name:<9} {summary}" for name, summary in COMMANDS.items())
    return (
        "usage: carrel COMMAND …\n\n"
        "Share your data with AI applications over the Model Context Protocol (MCP).\n\n"
        f"commands:\n{commands}\n\n"
        "options:\n"
        "  --version print the version\n"
        "  --help    print this; 'carrel COMMAND --help' explains a command\n\n"
        "first steps:\n"
        "  carrel serve ./notes --http 8000            look at it over HTTP\n"
        "  carrel install claude-desktop ./notes       use it in Claude Desktop\n"
    )


def suggestion(command: str) -> str:
    from difflib import get_close_matches  # imported only after a mistake

    close = get_close_matches(command, COMMANDS, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
