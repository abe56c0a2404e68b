"""Command-line interface: the ``carrel`` command. Each subcommand is a module, imported only when it is run."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from carrel.errors import ConfigError, SourceUnavailable
from carrel.uri.tokens import is_encodable

__all__ = ["COMMANDS", "main", "module_of"]

#: Commands by group, each with its module in this package and a line of help. The module has the functions ``run`` and
#: ``parser``.
GROUPS = {
    "share data and serve your own server": {
        "serve": ("server.serve", "share folders with AI applications, on stdio or over HTTP"),
        "run": ("server.programs", "serve a server that is written in Python"),
        "dev": ("server.dev", "serve it while you write it: reload, log of messages"),
        "gateway": ("server.gateway", "offer many servers as one, to any application"),
    },
    "look at them in the browser": {
        "studio": ("server.studio", "browse, search and read servers and sources, pack contexts"),
    },
    "set up": {
        "init": ("config.init", "write a carrel.toml for a folder"),
        "config": ("config.config", "show the effective settings, check a carrel.toml"),
        "install": ("install.install", "add a server to Claude, VS Code, Cursor and other applications"),
        "import": ("install.import_", "copy the servers of these applications"),
        "policy": ("policy.policy", "check, explain, test and compare the access rules of a carrel.toml"),
        "audit": ("policy.audit", "show the audit log of a server, verify that nobody has changed it"),
        "token": ("policy.token", "add, list and remove access tokens of callers"),
        "login": ("client.login", "log in to a server in the browser, for all commands"),
        "logout": ("client.logout", "log out of a server, and revoke its token"),
        "completion": ("completion.completion", "print a completion script for your shell"),
    },
    "ask a server": {
        "ls": ("client.ls", "list the resources, tools and prompts of a server"),
        "tree": ("client.tree", "show the resources of a server as a tree"),
        "find": ("client.find", "find resources, tools and prompts by words"),
        "context": ("client.context", "pack what your sources say about a question, for a model"),
        "cat": ("client.cat", "print a resource of a server"),
        "tools": ("client.tools", "show the tools of a server with their arguments"),
        "call": ("client.call", "call a tool of a server"),
        "prompt": ("client.prompt", "show the messages of a prompt"),
        "skills": ("client.skills", "list the skills of a server, or print one"),
        "watch": ("client.watch", "show changes of resources and lists as they happen"),
        "chat": ("chat.chat", "chat with a language model that uses your servers"),
    },
    "examine a server": {
        "info": ("client.info", "show the versions, capabilities and times of a server"),
        "doctor": ("client.doctor", "examine a server, and report errors with advice"),
        "record": ("recording.record", "record a session with a server into a file"),
        "state": ("server.state", "show what is in the store that replicas share, end a session"),
        "replay": ("recording.replay", "serve a recorded session, as a mock server"),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}

DEBUG = "--debug"
FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
#: Hint for a source that cannot be reached.
OPTIONAL = (
    "; start it first, or share it with `optional = true` in carrel.toml, so that the server does not wait for it"
)


def main(argv: list[str] | None = None) -> int:
    """Run a subcommand and return the exit code: 0, 2 after a usage or configuration error, 130 after Ctrl-C.

    Errors are printed as one line on standard error, after their traceback if ``--debug`` is given.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    end = arguments.index("--") if "--" in arguments else len(arguments)
    debug = DEBUG in arguments[:end]
    try:
        return dispatch([argument for argument in arguments[:end] if argument != DEBUG] + arguments[end:])
    except ConfigError as error:
        hint = OPTIONAL if isinstance(error, SourceUnavailable) and error.is_down else ""
        return report(error, f"{error}{hint}", WRONG_USE, debug)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Standard output is a broken pipe; without this, the interpreter reports it again on exit.
        sys.stdout = None
        return BROKEN_PIPE
    except ModuleNotFoundError as error:
        from carrel.extras import explain_missing

        return report(error, explain_missing(error) or described(error), WRONG_USE, debug)
    except UnicodeEncodeError as error:
        wrong = next((each for each in arguments if not is_encodable(each)), None)
        if wrong is None:
            return report(error, described(error), FAILED, debug)
        return report(error, f"the argument {wrong} is not UTF-8", WRONG_USE, debug)
    except Exception as error:
        return report(error, described(error), FAILED, debug)


def described(error: Exception) -> str:
    return f"{type(error).__name__}: {error} (--debug shows where)"


def report(error: Exception, message: str, code: int, debug: bool) -> int:
    """Print an error as one line, with its traceback before it if ``debug``, and return the exit code.

    The error may contain text from files and servers: control characters are escaped, and secrets in URLs are hidden.
    """
    from carrel.cli.terminal.messages import print_stderr  # imported only after a mistake
    from carrel.redaction import without_secrets

    if debug:
        import traceback

        sys.stderr.write(without_secrets("".join(traceback.format_exception(error))))
    print_stderr(f"carrel: {' '.join(message.split())}")
    return code


def dispatch(arguments: list[str]) -> int:
    """Dispatch to the subcommand.

    Raises:
        ConfigError: the subcommand does not exist, or was used wrongly.
    """
    first = arguments[0] if arguments else "--help"
    if first in COMMANDS:
        code: int = module_of(first).run(arguments[1:])
        return code
    if first in ("--version", "-V"):
        from carrel import __version__

        return show(f"carrel {__version__}\n")
    if first in ("--help", "-h", "help"):
        return show(overview())
    from carrel.near_names import did_you_mean  # only after a mistake

    raise ConfigError(f"there is no command {first!r}{did_you_mean(first, COMMANDS)} (see carrel --help)")


def module_of(command: str) -> Any:
    """Import the module of a subcommand. It has the functions ``run`` and ``parser``."""
    return import_module(f"carrel.cli.{COMMANDS[command][0]}")


def show(text: str) -> int:
    sys.stdout.write(text)
    sys.stdout.flush()  # flushed here, so that a broken pipe is noticed in time
    return 0


def overview() -> str:
    """Return the help text of ``carrel --help``."""
    commands = "\n\n".join(
        "\n".join([f"{title}:", *(f"  {name:<11} {summary}" for name, (_, summary) in group.items())])
        for title, group in GROUPS.items()
    )
    return (
        "usage: carrel COMMAND …\n\n"
        "Share your data with AI applications over the Model Context Protocol (MCP).\n\n"
        f"{commands}\n\n"
        "options:\n"
        "  --version   print the version\n"
        "  --help      print this; 'carrel COMMAND --help' explains a command\n"
        "  --debug     with any command: print the traceback of an error\n\n"
        "first steps:\n"
        "  carrel ls ./notes                        list the resources of a folder\n"
        "  carrel serve ./notes --http 8000         share it over HTTP\n"
        "  carrel install claude-desktop ./notes    use it in Claude Desktop\n"
        "  carrel dev server.py --http 8000         serve a server while you write it\n"
        "  carrel chat server.py                    chat with a model that uses it\n"
    )
