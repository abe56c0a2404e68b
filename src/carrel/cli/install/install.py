"""``carrel install``: adds a server to the configuration file of a client application, or removes it.

The change is shown as a diff and applied only after confirmation. Everything else in the file stays unchanged; the file
is replaced atomically, and a backup of the original is kept beside it.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from carrel.cli.install import config_file
from carrel.cli.install.entries import edit, masked
from carrel.cli.options import (
    Parser,
    add_sharing_options,
    add_source_flags,
    as_arguments,
    sources_of,
)
from carrel.cli.server.sharing import check_paths, default_name, read_targets
from carrel.cli.source_flags import SourceFlags
from carrel.cli.target import is_url, read_location
from carrel.cli.terminal.messages import confirmed, print_stderr, say
from carrel.errors import ConfigError
from carrel.host.config.applications import CLIENTS, ClientApplication, locate
from carrel.near_names import near
from carrel.sources.registry import Source
from carrel.sources.relative import missing_file

__all__ = ["parser", "run"]

SUMMARY = "Add a server to an application: a Python file with a server, folders to share, or a URL."
EXAMPLES = f"""\
examples:
  carrel install claude-desktop server.py --env API_KEY=…
  carrel install claude-code ~/notes ~/papers
  carrel install vscode ./docs --workspace . --include '*.md'
  carrel install codex http://127.0.0.1:8000/mcp --name library
  carrel install claude-desktop --gateway ~/servers.json
  carrel install claude-desktop --name notes --remove
  carrel install claude-desktop git --compat              run a server that is there already on Carrel
  carrel install claude-desktop git --compat --remove     and without Carrel again

applications: {", ".join(CLIENTS)}
"""
DECLINED = 1
WITHOUT_TERMINAL = "add --yes to make the change, or --dry-run to see it only"

#: File names and host labels that are too generic to name a server.
PLAIN_FILES = ("server", "main", "app", "mcp", "__init__", "__main__")
PLAIN_LABELS = ("mcp", "www", "api")


def parser(others: Iterable[Source] = ()) -> Parser:
    """Return the argument parser of ``carrel install``, with the flags of Carrel's own sources and of ``others``."""
    reader = Parser("install", SUMMARY, usage="%(prog)s [OPTION ...] CLIENT [TARGET ...]", epilog=EXAMPLES)
    reader.add_argument("client", metavar="CLIENT", help="the application (see below)")
    reader.add_argument(
        "targets",
        metavar="TARGET",
        nargs="*",
        help="a Python file with a server (FILE[:NAME]), the URL of a server that runs already, or what to share: "
        "folders, files, URLs of sources",
    )
    add_sharing_options(reader)
    group = reader.add_argument_group("applications and files to change")
    group.add_argument(
        "--env",
        metavar="KEY[=VALUE]",
        action="append",
        default=[],
        help="an environment variable for the server; without a value, the variable of your shell; may be repeated",
    )
    group.add_argument("--config", metavar="FILE", help="the configuration file, if it is not in its usual location")
    group.add_argument("--workspace", metavar="DIR", help="write to the project in DIR and not to your profile")
    group.add_argument(
        "--gateway",
        action="store_true",
        help="the targets are configuration files: install one gateway to all of their servers (carrel gateway)",
    )
    group.add_argument("--remove", action="store_true", help="remove the server")
    group.add_argument(
        "--compat",
        action="store_true",
        help="run servers that the application has already on Carrel: the targets are their names (default: all). "
        "With --remove, restore their own commands",
    )
    group.add_argument("--dry-run", action="store_true", help="show the change only")
    group.add_argument("--yes", action="store_true", help="make the change without asking")
    add_source_flags(reader, others)
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel install`` and return the exit code: 0, or 1 if the change was declined.

    Raises:
        ConfigError: the arguments are invalid, or the configuration file cannot be changed safely.
    """
    reader = parser(sources_of(arguments))
    options = reader.parse_intermixed_args(arguments)
    client = find_client(options.client)
    file = configuration_file(client, options)
    edited, nothing = (
        compat_change(client, file, options) if options.compat else change_of(client, file, reader, options)
    )
    before = config_file.read(file)
    after = edited(before)
    if after == before:
        say(f"Nothing to change: {nothing}.")
        return 0
    say(*difference(file, masked(client, before), masked(client, after)))
    if options.dry_run:
        say("Nothing was written (--dry-run).")
        return 0
    if not options.yes and not confirmed(f"Write this to {file}?", WITHOUT_TERMINAL):
        say("Nothing was written.")
        return DECLINED
    backup = config_file.change(file, edited)
    say(f"Wrote {file}.", *([f"As it was before the first change: {backup}"] if backup else []))
    if backup is None and not options.workspace and not options.config:
        say(f"This file is new. If {client.title} does not find the server, check where it keeps its configuration.")
    say(*([] if options.remove or not client.next_step else client.next_step.splitlines()))
    return 0


def change_of(
    client: ClientApplication, file: Path, reader: Parser, options: argparse.Namespace
) -> tuple[Callable[[str], str], str]:
    """Return the change that adds or removes a server, and why there may be nothing to change."""
    name, entry = (entry_name(options, []), None) if options.remove else server_entry(client, options, reader.flags)
    absent = f"{file} has no server {name!r}" if options.remove else f"{name!r} is already in {file}"
    return lambda text: edit(client, file, text, name, entry), absent


def compat_change(
    client: ClientApplication, file: Path, options: argparse.Namespace
) -> tuple[Callable[[str], str], str]:
    """Return the change that lets servers run on Carrel, or run without it, and why there may be nothing to change."""
    from carrel.cli.install.rewriting import rewrite

    command, leading = this_command()
    start = None if options.remove else [command, *leading]
    names = [*options.targets, *([options.name] if options.name else [])]
    _, unchanged = rewrite(client, file, config_file.read(file), names, start)
    say(*(f"{line}." for line in unchanged))
    return lambda text: rewrite(client, file, text, names, start)[0], f"no server of {file} can be rewritten"


def configuration_file(client: ClientApplication, options: argparse.Namespace) -> Path:
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


def find_client(name: str) -> ClientApplication:
    """Return the application with a name.

    Raises:
        ConfigError: there is no such application.
    """
    if name in CLIENTS:
        return CLIENTS[name]
    raise ConfigError(f"there is no application {name!r}{near(name, CLIENTS)} (see carrel install --help)")


def server_entry(
    client: ClientApplication, options: argparse.Namespace, flags: SourceFlags
) -> tuple[str, dict[str, Any]]:
    """Return the name of the server in the configuration, and its entry."""
    if not (options.targets or options.skills):
        raise ConfigError("nothing to install: name a Python file with a server, a URL, a folder, or --skills FOLDER")
    first = options.targets[0] if options.targets else ""
    sharing = as_arguments(options, options.skills, flags)
    extra = [argument for argument in sharing if not argument.startswith("--name=")]
    if is_url(first):
        if len(options.targets) > 1 or extra or options.env:
            raise ConfigError("a URL is installed alone: no other targets, no --env, no options for sharing")
        if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", first):
            raise ConfigError(f"{first} is not a URL such as http://127.0.0.1:8000/mcp")
        return entry_name(options, [first]), client.remote(first)
    command, leading = this_command()
    env = read_env(options.env)
    if options.gateway:
        if extra or not options.targets:
            raise ConfigError("--gateway takes configuration files with servers, and no options for sharing")
        files = [os.path.abspath(os.path.expanduser(target)) for target in options.targets]  # noqa: PTH100, PTH111
        missing = [file for file in files if not Path(file).is_file()]
        if missing:
            raise ConfigError(f"there is no file {missing[0]}")
        return entry_name(options, files), client.command(command, [*leading, "gateway", *files], env)
    if len(options.targets) == 1 and (location := server_location(first)) is not None:
        if extra:
            raise ConfigError(f"{first} is run, not shared, and {extra[0].partition('=')[0]} is for sharing")
        return entry_name(options, [location]), client.command(
            command, [*leading, "run", *compat_flag(location), location], env
        )
    targets = read_targets(options, flags)
    for target in targets.shared:
        if (absent := missing_file(target)) is not None:
            print_stderr(f"carrel: there is no {absent} yet")
    arguments = [*leading, "serve", *targets.shared, *as_arguments(options, targets.skills, flags)]
    return entry_name(options, [*targets.shared, *targets.skills]), client.command(command, arguments, env)


def server_location(target: str) -> str | None:
    """Return the target of a Python server for ``carrel run``, with an absolute path, or None for other targets.

    Raises:
        ConfigError: there is no such file.
    """
    from carrel.cli.server.load import imported_packages

    if not re.search(r"\.py(:\w+)?$", target):
        return None
    location = read_location(target)
    if location.file is None:
        return None
    return location.absolute if location.name or imported_packages(location.file) else None


def compat_flag(location: str) -> list[str]:
    """Return ``--compat`` for a program for ``mcp`` or ``fastmcp``, so that installing them later changes nothing."""
    from carrel.cli.server.load import requires_compat

    return ["--compat"] if requires_compat(read_location(location)) else []


def read_env(settings: list[str]) -> dict[str, str]:
    """Parse environment variables given as KEY=VALUE, or as KEY to copy the value from this environment.

    Raises:
        ConfigError: a variable has no name, or no value in this environment. The message shows no values.
    """
    env: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key):
            raise ConfigError("--env: a variable is KEY=VALUE, or KEY, with letters, digits and _ in the key")
        if not equals and key not in os.environ:
            raise ConfigError(f"--env {key}: it is not set in your shell; give it as {key}=VALUE")
        env[key] = value if equals else os.environ[key]
    return env


def entry_name(options: argparse.Namespace, locations: list[str]) -> str:
    """Return the name of the server in the configuration. A derived name has only portable characters."""
    if options.name is not None:
        if not options.name.strip() or not options.name.isprintable():
            raise ConfigError("--name must not be empty or have control characters in it")
        return str(options.name)
    if options.gateway:
        return "gateway"
    if not locations:  # to be removed
        if not options.targets:
            raise ConfigError("name the server to remove: --name NAME")
        first = options.targets[0]
        given = [os.path.abspath(os.path.expanduser(target)) for target in options.targets]  # noqa: PTH100, PTH111
        locations = [first] if is_url(first) else [server_location(first) or given[0]]
    letters = re.sub(r"[^A-Za-z0-9_-]+", "-", plain_name(locations[0])).strip("-")
    return letters or "carrel"


def plain_name(location: str) -> str:
    """Return the default name for a URL, a Python file with a server, or a shared path."""
    if is_url(location):
        host = re.sub(r"^https?://|[:/?#].*$", "", location, flags=re.IGNORECASE)
        labels = [] if re.fullmatch(r"[\d.]+|\[.*", host) else host.split(".")[:-1]
        return "-".join(label for label in labels if label not in PLAIN_LABELS)
    file = re.sub(r"\.py(:\w+)?$", "", location)
    if file != location:
        path = Path(file)
        return path.parent.name if path.name in PLAIN_FILES else path.name
    return default_name([location])


def this_command() -> tuple[str, list[str]]:
    """Return the absolute command that starts this installation, and its leading arguments."""
    import sysconfig

    script = Path(sysconfig.get_path("scripts"), "carrel.exe" if sys.platform == "win32" else "carrel")
    if script.is_file():
        return str(script.absolute()), []
    return str(Path(sys.executable).absolute()), ["-P", "-m", "carrel"]


def difference(file: Path, before: str, after: str) -> list[str]:
    """Return the lines of the change as a unified diff."""
    from difflib import unified_diff

    old = str(file) if before else "/dev/null"
    if before == after:
        return ["Only values of environment variables or headers change, which are not shown.", ""]
    lines = unified_diff(before.splitlines(), after.splitlines(), old, str(file), lineterm="")
    return [*(line.replace("\t", "    ") for line in lines), ""]
