"""``carrel chat``: a chat with a language model that uses the resources, tools and prompts of servers."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from carrel.cli.client.connection import answered, shown
from carrel.cli.options import Parser
from carrel.cli.terminal.output import table, write_json, write_text
from carrel.cli.values import number, positive
from carrel.errors import ConfigError

if TYPE_CHECKING:
    from carrel.chat.store import ChatStore

__all__ = ["parser", "run"]

SUMMARY = "Chat with a language model that uses the resources, tools and prompts of servers."
EXAMPLES = """\
examples:
  carrel chat server.py                         a server in a Python file, and the model whose key is set
  carrel chat carrel.toml --model anthropic:claude-sonnet-5-5
  carrel chat ./notes https://example.org/mcp 'npx -y @modelcontextprotocol/server-everything'
  echo 'Which lamps are red?' | carrel chat shop=server.py --print --yes shop:find
  carrel chat --models openai                   the models for your key, with prices
  carrel chat --resume                          continues the last conversation

In the chat, /help shows the commands.
Exit code 0: done; 1: a server answered with an error, or the rounds are used up; 2: wrong use;
3: no connection, or the model's vendor answered with an error.
"""
TIMEOUT = 60.0


def parser() -> Parser:
    """Return the argument parser of ``carrel chat``."""
    reader = Parser("chat", SUMMARY, epilog=EXAMPLES)
    reader.add_argument(
        "targets",
        metavar="TARGET",
        nargs="*",
        help="a server: a URL, a Python file, a folder to share, a command in quotes, the name of a server that is "
        "configured; or a file with servers, such as carrel.toml or mcp.json. NAME=TARGET gives it a name. After -- "
        "comes the command of one more server",
    )
    reader.add_argument(
        "--model", metavar="VENDOR:MODEL", help="the language model (default: a model of the vendor whose key is set)"
    )
    reader.add_argument(
        "--models",
        metavar="VENDOR",
        nargs="?",
        const="",
        help="show the models of a vendor, with context windows and prices, and end (default: as --model)",
    )
    reader.add_argument("--system", metavar="TEXT", help="the system prompt, instead of the default")
    once = reader.add_argument_group("one question, for scripts")
    once.add_argument(
        "--print", action="store_true", help="answer the question on standard input, and print only the answer"
    )
    once.add_argument("--json", action="store_true", help="the same, with all events as lines of JSON")
    once.add_argument("--question", metavar="TEXT", help="the question, instead of standard input; implies --print")
    saved = reader.add_argument_group("saved conversations")
    saved.add_argument(
        "--resume",
        metavar="ID",
        nargs="?",
        const="",
        help="continue the last conversation, or the conversation with this id",
    )
    saved.add_argument("--list", action="store_true", help="show the saved conversations, and end")
    saved.add_argument("--no-save", action="store_true", help="save nothing of this conversation")
    add_permissions(reader)
    group = reader.add_argument_group("the connections")
    group.add_argument("--header", metavar="'NAME: VALUE'", action="append", default=[], help="a header for URLs")
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=number,
        default=TIMEOUT,
        help=f"the time limit for an answer of a server (default: {TIMEOUT:g})",
    )
    return reader


def add_permissions(reader: Parser) -> None:
    """Add the options that limit the model and the servers."""
    may = reader.add_argument_group("permissions of the model and the servers")
    may.add_argument(
        "--yes",
        metavar="SERVER:TOOL",
        action="append",
        default=[],
        help="approve all calls of this tool; may be repeated, or a list separated by commas",
    )
    may.add_argument(
        "--root",
        metavar="FOLDER",
        action="append",
        default=[],
        help="a root: a folder that servers may work in; may be repeated",
    )
    may.add_argument(
        "--no-resource-tools", action="store_true", help="give the model no tools that list and read resources"
    )
    may.add_argument(
        "--max-rounds", metavar="N", type=positive, help="the maximum number of rounds of tool calls for one answer"
    )
    may.add_argument(
        "--context", metavar="TOKENS", type=positive, help="the context window, if Carrel does not know it"
    )


def run(arguments: list[str]) -> int:
    """Run ``carrel chat`` and return the exit code.

    Raises:
        ConfigError: the arguments are invalid, a package or key is missing, or there is no such server or conversation.
    """
    options = read_options(arguments)
    from carrel.chat.store import ChatStore, default_chats
    from carrel.cli.chat.start import Start, is_terminal

    if options.models is not None:
        from carrel.cli.chat.models import show_models

        return answered(lambda: show_models(options.models, as_json=options.json))
    store = ChatStore(default_chats())
    if options.list:
        return show_list(store, as_json=options.json)
    saved = None if options.resume is None else store.find(options.resume)
    targets = options.targets or ([] if saved is None else saved.targets)
    chat = Start(options, None if options.no_save else store, saved, targets)
    once = options.print or options.json or options.question is not None or not is_terminal(sys.stdin)
    if once:
        return answered(chat.answer_once)
    check_packages()
    from carrel.cli.chat.terminal import converse

    return answered(lambda: converse(chat))


def read_options(arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments. The words after ``--`` are the command of an additional server.

    Raises:
        ConfigError: wrong use.
    """
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser().parse_intermixed_args(arguments[:at])
    command = arguments[at + 1 :]
    if command:
        from carrel.cli.chat.host_targets import COMMAND

        options.targets.append(COMMAND + (command[0] if len(command) == 1 else shlex.join(command)))
    options.yes = [name.strip() for names in options.yes for name in names.split(",")]
    wrong = next((name for name in options.yes if not all(name.partition(":")[::2]) or "*" in name), None)
    if wrong is not None:
        raise ConfigError(f"--yes {wrong!r}: name each tool, as SERVER:TOOL")
    if not options.timeout > 0:
        raise ConfigError(f"--timeout {options.timeout:g}: give a number of seconds above 0")
    return options


def check_packages() -> None:
    """Check that the packages of the terminal interface are installed.

    Raises:
        ConfigError: a package is missing.
    """
    try:
        import prompt_toolkit
        import rich
    except ImportError:
        raise ConfigError("carrel chat needs prompt-toolkit and rich: pip install 'carrel[chat]'") from None
    del prompt_toolkit, rich


def show_list(store: ChatStore, *, as_json: bool) -> int:
    """Print the saved conversations."""
    listed = store.list()
    if as_json:
        write_json([{"id": one.id, "changed": one.changed, "model": one.model, "title": one.title} for one in listed])
        return 0
    rows = [(one.id, one.changed[:16].replace("T", " "), shown(one.model), shown(one.title)) for one in listed]
    write_text(table("saved conversations", rows) or "No conversation is saved yet.", escape=False)
    return 0
