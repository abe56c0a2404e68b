"""``carrel token``: adds, lists and removes the static tokens in a file of ``[auth] tokens``."""

from __future__ import annotations

import argparse
from pathlib import Path

from carrel.cli.config.read import DEFAULT_FILE, read_configuration
from carrel.cli.options import Parser
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.terminal.output import write_text
from carrel.errors import ConfigError
from carrel.security.server.static_tokens import make_token, read_lines, words_of, write_lines

__all__ = ["parser", "run"]

SUMMARY = "Add, list or remove access tokens of callers over HTTP. The file has only the hashes of tokens."
EXAMPLES = """\
examples:
  carrel token add alice notes:read             show a new token once, and add its hash to the file
  carrel token list
  carrel token remove alice                     all tokens of this name; a running server follows within a second
  carrel token add ci --file tokens.txt         without a carrel.toml
"""


def parser() -> Parser:
    """Return the argument parser of ``carrel token``."""
    reader = Parser("token", SUMMARY, epilog=EXAMPLES)
    reader.add_argument("action", metavar="ACTION", choices=("add", "list", "remove"), help="add, list or remove")
    reader.add_argument("name", metavar="NAME", nargs="?", help="add, remove: the name of the caller, one word")
    reader.add_argument("scopes", metavar="SCOPE", nargs="*", help="add: the scopes of the token")
    reader.add_argument(
        "--file", metavar="FILE", help="the file of tokens (default: tokens in [auth] of the configuration)"
    )
    reader.add_argument("--config", metavar="FILE", help="the configuration (default: ./carrel.toml)")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel token`` and return the exit code: 0, 1 if there is no token to remove.

    Raises:
        ConfigError: wrong use, or the file cannot be read or written.
    """
    options = parser().parse_intermixed_args(arguments)
    if options.action != "list" and options.name is None:
        raise ConfigError(f"usage: carrel token {options.action} NAME{' [SCOPE ...]' * (options.action == 'add')}")
    if options.action == "list" and options.name is not None:
        raise ConfigError("usage: carrel token list")
    if options.action != "add" and options.scopes:
        raise ConfigError("scopes are for carrel token add")
    file = file_of(options)
    if options.action == "add":
        token, line = make_token(options.name, options.scopes)
        write_lines(file, [*(read_lines(file) if file.exists() else []), line])
        print_stderr(f"carrel: the token of {options.name}, which is shown this once:")
        write_text(token)
        return 0
    lines = read_lines(file)
    if options.action == "list":
        for words in map(words_of, lines):
            if len(words) > 1:
                write_text("  ".join([words[1], *words[2:], f"({words[0][:19]}…)"]))
        return 0
    kept = [line for line in lines if words_of(line)[1:2] != [options.name]]
    if len(kept) == len(lines):
        print_stderr(f"carrel: {file} has no token of {options.name}")
        return 1
    write_lines(file, kept)
    print_stderr(f"carrel: removed {len(lines) - len(kept)} of {options.name}")
    return 0


def file_of(options: argparse.Namespace) -> Path:
    """Return the file of tokens.

    Raises:
        ConfigError: no file is named.
    """
    if options.file is not None:
        return Path(options.file).expanduser()
    config = options.config or (DEFAULT_FILE if Path(DEFAULT_FILE).is_file() else None)
    tokens = None
    if config is not None:
        tokens = read_configuration(argparse.Namespace(config=config), targeted=True).settings.auth.tokens
    if tokens is None:
        raise ConfigError("no file of tokens: name one with --file, or with tokens in [auth] of carrel.toml")
    return Path(tokens)
