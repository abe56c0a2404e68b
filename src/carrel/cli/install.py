"""``carrel install``: adds a server to the configuration file of a client application, or removes it.

The change is shown as a diff and made only after confirmation. Everything else in the file stays unchanged; the file
is replaced atomically, and a backup of the original is kept beside it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from carrel.cli import config_file, jsonc
from carrel.cli.clients import CLIENTS, Client, locate
from carrel.cli.options import (
    Parser,
    add_sharing_options,
    add_source_flags,
    as_arguments,
    sources_of,
)
from carrel.cli.source_flags import SourceFlags
from carrel.cli.targets import check_paths, default_name, read_targets
from carrel.errors import ConfigError
from carrel.sources.registry import Source

__all__ = ["parser", "run"]

SUMMARY = "Add a server that shares folders to Claude Desktop, VS Code or Cursor."
EXAMPLES = """\
examples:
  carrel install claude-desktop ~/notes ~/papers
  carrel install vscode ./docs --workspace . --include '*.md'
  carrel install cursor --http http://127.0.0.1:8000/mcp --name library
  carrel install claude-desktop --name notes --remove
"""
DECLINED = 1


def parser(others: Iterable[Source] = ()) -> tuple[Parser, SourceFlags]:
    """Return the argument parser of ``carrel install``, with the flags of Carrel's own sources and of ``others``."""
    reader = Parser("install", SUMMARY, epilog=EXAMPLES)
    reader.add_argument("client", metavar="CLIENT", choices=CLIENTS, help=f"one of: {', '.join(CLIENTS)}")
    reader.add_argument("targets", metavar="TARGET", nargs="*", help="what to share: a folder, a file, or a URL")
    add_sharing_options(reader)
    group = reader.add_argument_group("what is changed")
    group.add_argument("--http", metavar="URL", help="connect to a server that runs already (instead of PATH)")
    group.add_argument("--config", metavar="FILE", help="the configuration file, if it is not in its usual place")
    group.add_argument(
        "--workspace", metavar="DIR", help="write to the project in DIR and not to your profile (VS Code, Cursor)"
    )
    group.add_argument("--remove", action="store_true", help="take the server out again")
    group.add_argument("--dry-run", action="store_true", help="show the change and do not make it")
    group.add_argument("--yes", action="store_true", help="make the change without asking")
    return reader, add_source_flags(reader, others)


def run(arguments: list[str]) -> int:
    """Run ``carrel install`` and return the exit code: 0, or 1 if the change was declined.

    Raises:
        ConfigError: wrong use, or a configuration file that cannot be changed safely.
    """
    reader, flags = parser(sources_of(arguments))
    options = reader.parse_intermixed_args(arguments)
    client = CLIENTS[options.client]
    file = configuration_file(client, options)
    name, entry = (entry_name(options, []), None) if options.remove else server_entry(client, options, flags)

    def edited(text: str) -> str:
        return edit(client, file, text, name, entry)

    before = config_file.read(file)
    after = edited(before)
    if after == before:
        absent = f"{file} has no server {name!r}" if options.remove else f"{name!r} is already in {file}"
        say(f"Nothing to change: {absent}.")
        return 0
    say(difference(file, before, after))
    if options.dry_run:
        say("Nothing was written (--dry-run).")
        return 0
    if not options.yes and not confirmed(file):
        say("Nothing was written.")
        return DECLINED
    backup = config_file.change(file, edited)
    say(f"Wrote {file}." + (f"\nAs it was before the first change: {backup}" if backup else ""))
    if backup is None and not options.workspace and not options.config:
        say(f"There was no such file. If {client.title} does not see the server, look where it keeps its own.")
    say("" if options.remove else client.next_step)
    return 0


def configuration_file(client: Client, options: argparse.Namespace) -> Path:
    if options.config and options.workspace:
        raise ConfigError("--config and --workspace both name a file; give one of them")
    if options.workspace:
        if client.workspace is None:
            raise ConfigError(f"{client.title} has no configuration inside projects; leave out --workspace")
        [folder] = check_paths([options.workspace])
        if not Path(folder).is_dir():
            raise ConfigError(f"--workspace {options.workspace} is not a folder")
        return Path(folder, client.workspace)
    if options.config:
        return Path(options.config).expanduser().absolute()
    return locate(client, sys.platform, os.environ)


def server_entry(client: Client, options: argparse.Namespace, flags: SourceFlags) -> tuple[str, dict[str, Any]]:
    """Return the name of the server in the configuration, and its entry."""
    if options.http is None:
        if not (options.targets or options.skills):
            raise ConfigError(
                "say what to share: a path, a URL, --skills FOLDER, or --http URL of a server that runs already"
            )
        targets = read_targets(options, flags)
        command, leading = this_command()
        arguments = [*leading, "serve", *targets.shared, *as_arguments(options, targets.skills, flags)]
        return entry_name(options, [*targets.shared, *targets.skills]), client.command(command, arguments)

    if options.targets or options.skills:
        raise ConfigError("give a path to share or the --http URL of a server that runs already, not both")
    if not client.speaks_http:
        raise ConfigError(
            f"{client.title} reads only commands from its configuration file: give it the path instead of --http, "
            "or add the URL in its settings, under Connectors (which takes servers on the internet)"
        )
    if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", options.http):
        raise ConfigError(f"{options.http} is not a URL such as http://127.0.0.1:8000/mcp")
    return entry_name(options, []), client.remote(options.http)


def entry_name(options: argparse.Namespace, paths: list[str]) -> str:
    """Return the name of the server in the configuration; one derived from a path has only portable characters."""
    if options.name is not None:
        if not options.name.strip() or not options.name.isprintable():
            raise ConfigError("--name must not be empty or have control characters in it")
        return str(options.name)
    if options.remove and not options.targets:
        raise ConfigError("say which server to remove: --name NAME")
    paths = paths or [os.path.abspath(os.path.expanduser(path)) for path in options.targets]  # noqa: PTH100, PTH111
    letters = re.sub(r"[^A-Za-z0-9_-]+", "-", default_name(paths)).strip("-") if paths else ""
    return letters or "carrel"


def this_command() -> tuple[str, list[str]]:
    """Return the absolute command that starts this installation, and its leading arguments."""
    import sysconfig

    script = Path(sysconfig.get_path("scripts"), "carrel.exe" if sys.platform == "win32" else "carrel")
    if script.is_file():
        return str(script.absolute()), []
    return str(Path(sys.executable).absolute()), ["-m", "carrel"]


def edit(client: Client, file: Path, text: str, name: str, entry: dict[str, Any] | None) -> str:
    """Return the configuration with the entry added or updated, or removed if it is None.

    Raises:
        ConfigError: the text is not a valid configuration, or the name belongs to another server.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    document = text.removeprefix(mark)
    if not document.strip():
        document = "{}\n"
    try:
        servers = jsonc.parse(document, comments=client.comments)
        servers = servers.get(client.section) if isinstance(servers, dict) else None
        present = servers.get(name) if isinstance(servers, dict) else None
        if entry is None:
            return text if present is None else mark + jsonc.remove(document, (client.section, name))
        if present is not None and not ours(present):
            raise ConfigError(
                f"{file} already has a server {name!r} that is not one of Carrel's; choose another name with --name"
            )
        if not isinstance(present, dict):
            return mark + jsonc.put(document, (client.section, name), entry)
        # Field by field, so that the user's additions (env, disabled, comments …) stay.
        for key, value in entry.items():
            document = jsonc.put(document, (client.section, name, key), value)
        for key in outdated(present, entry):
            document = jsonc.remove(document, (client.section, name, key))
        return mark + document
    except jsonc.JsoncError as error:
        raise ConfigError(f"{file} cannot be changed safely, so it was left alone: {error}") from error


def outdated(present: dict[str, Any], entry: dict[str, Any]) -> list[str]:
    """Return the present fields that conflict with the new entry: a command beside a URL, a URL beside a command."""
    contrary = [key for key in (("url",) if "command" in entry else ("command", "args")) if key in present]
    return [*contrary, "type"] if contrary and "type" in present and "type" not in entry else contrary


def ours(entry: object) -> bool:
    """Return whether an entry may be overwritten: it starts Carrel, or has only a URL."""
    if not isinstance(entry, dict):
        return False
    url = entry.get("url")
    if isinstance(url, str):
        return set(entry) <= {"type", "url"}
    command, arguments = entry.get("command"), entry.get("args")
    if not isinstance(command, str) or not isinstance(arguments, list):
        return False
    program = re.split(r"[\\/]", command)[-1].lower().removesuffix(".exe")
    return program == "carrel" or arguments[:2] == ["-m", "carrel"]


def difference(file: Path, before: str, after: str) -> str:
    """Return the change as a unified diff."""
    from difflib import unified_diff

    old = str(file) if before else "/dev/null"
    lines = unified_diff(before.splitlines(), after.splitlines(), old, str(file), lineterm="")
    return "\n".join(lines) + "\n"


def confirmed(file: Path) -> bool:
    """Ask for confirmation on the terminal, and return whether it was given.

    Raises:
        ConfigError: standard input is not a terminal.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError("there is no terminal to ask on; add --yes to make the change, or --dry-run to only see it")
    sys.stderr.write(f"Write this to {file}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def say(text: str) -> None:
    """Print a text, escaping characters that the encoding of the terminal does not have."""
    if text:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(f"{text}\n".encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
