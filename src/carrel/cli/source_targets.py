"""Targets of the commands that take sources beside servers: ``carrel context`` and ``carrel studio``."""

from __future__ import annotations

import argparse
import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from carrel.cli.chat.host_targets import COMMAND, CONFIGURATIONS
from carrel.cli.options import Parser
from carrel.cli.target import CARREL, is_url
from carrel.errors import ConfigError

if TYPE_CHECKING:
    from carrel.catalog.provider import Provider

__all__ = ["add_targets", "open_source", "parse_with_targets", "split_targets"]

DEFAULT_FILE = "carrel.toml"


def add_targets(reader: Parser) -> None:
    """Add the arguments TARGET."""
    reader.add_argument(
        "targets",
        metavar="TARGET",
        nargs="*",
        help="a folder, a file or a source (git:., sqlite:///FILE), a file with servers (mcp.json, carrel.toml), a "
        "URL, a Python file with a server, the name of a server, or a command in quotes (default: ./carrel.toml, or "
        "else the current folder). After -- comes the command of one more server",
    )


def parse_with_targets(reader: Parser, arguments: list[str]) -> argparse.Namespace:
    """Parse arguments with TARGETs. The words after ``--`` are the command of an additional server.

    Without targets, the target is ./carrel.toml, or else the current folder.

    Raises:
        ConfigError: wrong use.
    """
    at = arguments.index("--") if "--" in arguments else len(arguments)
    options = reader.parse_intermixed_args(arguments[:at])
    command = arguments[at + 1 :]
    if command:
        options.targets.append(COMMAND + (command[0] if len(command) == 1 else shlex.join(command)))
    if not options.targets:
        options.targets = [DEFAULT_FILE if Path(DEFAULT_FILE).is_file() else "."]
    return options


def split_targets(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the targets that are opened in this process (folders, files and sources), and the targets of servers.

    Raises:
        ConfigError: there is a header, and no URL that it could be sent to.
    """
    from carrel.sources.registry import find, scheme_of

    sources, servers = [], []
    for target in dict.fromkeys(options.targets):
        path = Path(target).expanduser()
        if target.startswith(COMMAND) or is_url(target):
            servers.append(target)
        elif path.suffix == ".toml" and has_sources(path):
            servers += target, f"shared={COMMAND}{shlex.join([*CARREL, 'serve', '--config', str(path)])}"
        elif path.is_dir() or (path.is_file() and path.suffix not in (".py", *CONFIGURATIONS)):
            sources.append(str(path))
        elif ":" in target and " " not in target and ".py:" not in target and scheme_of(target) != "file":
            (sources if find(scheme_of(target)) is not None else servers).append(target)
        else:
            (sources if target.lower().startswith("file:") else servers).append(target)
    if options.header and not any(map(is_url, servers)):
        raise ConfigError("--header is for URLs")
    return sources, servers


def has_sources(path: Path) -> bool:
    """Return whether a carrel.toml shares sources, for which a server is started."""
    try:
        return "sources" in tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # the host reports why
        return False


def open_source(target: str) -> Provider:
    """Return the provider of a source, which is not started.

    Raises:
        ConfigError: the source cannot be opened.
    """
    from carrel import sources

    return sources.open(target, None)
