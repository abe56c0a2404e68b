"""``carrel import``: lists the servers of applications on this machine, and copies them to carrel.toml.

Secrets are not copied: they are stored in the keyring, or replaced by environment variables that the user sets.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from carrel.cli.install import config_file, toml_edit
from carrel.cli.options import Parser
from carrel.cli.terminal.messages import confirmed, print_stderr, say
from carrel.cli.terminal.output import table, write_text
from carrel.errors import ConfigError
from carrel.host.config import ConfigFile, ConfigOrigin, Input, ServerConfig, discover, read_file, unique
from carrel.host.config.inputs import Inputs, InputStore, key_of
from carrel.host.config.secrets import hide, table_of
from carrel.near_names import did_you_mean

__all__ = ["parser", "run"]

SUMMARY = "Show the servers of applications on this machine, and copy them into carrel.toml."
EXAMPLES = """\
examples:
  carrel import                          all servers; asks before it writes
  carrel import --dry-run                show them only
  carrel import github files --yes       these two
  carrel import --from .vscode/mcp.json  the servers of one file

Secrets are not copied as plain text: they are kept in the keyring of the operating system if there is one
(pip install 'carrel[keyring]'), else they become environment variables.
"""
DECLINED = 1


def parser() -> Parser:
    """Return the argument parser of ``carrel import``."""
    reader = Parser("import", SUMMARY, epilog=EXAMPLES)
    reader.add_argument("names", metavar="NAME", nargs="*", help="the servers to copy (default: all)")
    reader.add_argument(
        "--from",
        metavar="FILE",
        action="append",
        default=[],
        dest="files",
        help="a configuration file to read, instead of the files of the applications; may be repeated",
    )
    reader.add_argument("--config", metavar="FILE", default="carrel.toml", help="where to write (default: carrel.toml)")
    reader.add_argument("--keep-secrets", action="store_true", help="copy secrets as plain text")
    reader.add_argument("--dry-run", action="store_true", help="show the servers, and write nothing")
    reader.add_argument("--yes", action="store_true", help="write without asking")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel import`` and return the exit code: 0, or 1 if the change was declined.

    Raises:
        ConfigError: wrong use, or carrel.toml cannot be changed safely.
    """
    options = parser().parse_args(arguments)
    target = Path(options.config).expanduser().absolute()
    found = [file for file in files_of(options) if file.file != target]
    for problem in [problem for file in found for problem in file.problems]:
        print_stderr(f"carrel: {problem}")
    servers = chosen(unique(found), options.names)
    present = read_file(target, "carrel")
    if present.problems:
        raise ConfigError(str(present.problems[0]))
    names = {one.name: one for one in present.servers}
    store = None if options.keep_secrets else keyring()
    taken = [Taken(server, target, names, store, clear=options.keep_secrets) for server in servers]
    new = [one for one in taken if not one.known]
    write_text(table(f"Servers for {target}", [one.row() for one in taken]) or "No servers were found.", escape=False)
    if not new:
        say(*(["Nothing to change."] if taken else []))
        return 0
    if options.dry_run:
        say("Nothing was written (--dry-run).")
        return 0
    question = f"Add {len(new)} {'server' if len(new) == 1 else 'servers'} to {target}?"
    if not options.yes and not confirmed(question, "add --yes to write, or --dry-run to see the change only"):
        say("Nothing was written.")
        return DECLINED
    for one in new:
        one.keep_secrets()
    config_file.change(target, lambda text: edited(text, target, new))
    say(f"Wrote {target}.")
    unset = sorted({variable for one in new for variable in one.variables if variable not in os.environ})
    if unset:
        say(f"Set these in the environment of Carrel, with the values that the applications have: {', '.join(unset)}")
    return 0


def files_of(options: argparse.Namespace) -> Sequence[ConfigFile]:
    """Return the configuration files to read.

    Raises:
        ConfigError: a given file does not exist.
    """
    if not options.files:
        return discover()
    for file in options.files:
        if not Path(file).expanduser().is_file():
            raise ConfigError(f"--from {file}: there is no such file")
    return [read_file(Path(file).expanduser()) for file in options.files]


def chosen(servers: list[ServerConfig], names: list[str]) -> list[ServerConfig]:
    """Return the servers with the given names, or all servers if no names are given.

    Raises:
        ConfigError: there is no server of that name.
    """
    known, wanted = {server.name for server in servers}, set(names)
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no server {name!r}{did_you_mean(name, list(known))} (carrel import shows all)")
    return [server for server in servers if not names or server.name in wanted]


class Taken:
    """Server to copy: its configuration for carrel.toml, and its secrets separately.

    Args:
        server: the configuration of the application.
        target: carrel.toml.
        names: the future servers of carrel.toml, by name. The server is added to it.
        store: the keyring for the secrets, or None to replace secrets with environment variables.
        clear: copy secrets in clear text.
    """

    def __init__(
        self,
        server: ServerConfig,
        target: Path,
        names: dict[str, ServerConfig],
        store: InputStore | None,
        *,
        clear: bool,
    ) -> None:
        self.origin = server.origin
        self._name = server.name
        self.inputs: dict[str, Input] = {}
        self.secrets: dict[str, str] = {}
        self.variables: list[str] = []
        self._store = store
        self._file = str(target)
        config = in_workspace(server, target)
        config = config if clear else hide(config, self._replace)
        self.inputs |= server.inputs
        name, number = config.name, 1
        while name in names and not self._same(names[name], config):
            number += 1
            name = f"{config.name}-{number}"
        self.known = name in names
        self.config = names[name] = msgspec.structs.replace(config, name=name)

    def _same(self, present: ServerConfig, config: ServerConfig) -> bool:
        return table_of(present) == table_of(config)

    def _replace(self, name: str, secret: str) -> str:
        """Return the variable that replaces a secret: one with this value already, an input, or a variable to set."""
        secret = secret.replace("$${", "${")
        if os.environ.get(name) == secret:
            return f"${{env:{name}}}"
        server = self._plain(self._name)
        if self._store is not None:
            id = self._free(f"{server}-{self._plain(name)}", secret)
            self.inputs[id] = Input(id, f"{name} of {self._name}", password=True)
            self.secrets[id] = secret
            return f"${{input:{id}}}"
        variable = name if re.fullmatch(r"[A-Z_][A-Z0-9_]*", name) else f"{server}_{name}"
        variable = re.sub(r"\W", "_", variable).upper()
        self.variables.append(variable)
        return f"${{env:{variable}}}"

    def _free(self, id: str, secret: str) -> str:
        number, free = 1, id
        while self.secrets.get(free, secret) != secret:
            number += 1
            free = f"{id}-{number}"
        return free

    @staticmethod
    def _plain(text: str) -> str:
        return re.sub(r"[^\w]+", "-", text).strip("-")

    def row(self) -> tuple[str, ...]:
        """Return the table row of the server."""
        notes = ["there already"] if self.known else []
        notes += ["disabled"] if self.config.disabled else []
        if not self.known and self.secrets:
            notes.append(f"{len(self.secrets)} to the keyring")
        if not self.known and self.variables:
            notes.append(f"needs {', '.join(dict.fromkeys(self.variables))}")
        origin = str(self.origin) if self.origin is not None else ""
        return self.config.name, self.config.shown, origin, "; ".join(notes)

    def keep_secrets(self) -> None:
        """Store the secrets in the keyring, for the inputs of carrel.toml."""
        if self._store is None:
            return
        owner = msgspec.structs.replace(self.config, origin=ConfigOrigin("carrel", self._file))
        for id, secret in self.secrets.items():
            asyncio.run(self._store.put(key_of(id, owner), secret))


def edited(text: str, target: Path, new: Sequence[Taken]) -> str:
    """Return carrel.toml with servers added.

    Raises:
        ConfigError: the file cannot be changed safely.
    """
    try:
        present = toml_edit.parse(text).get("inputs", {})
        tables: dict[tuple[str, str], Mapping[str, object]] = {}
        for one in new:
            for id, wanted in one.inputs.items():
                if id not in present:
                    about: dict[str, object] = {"description": wanted.description, "password": wanted.password}
                    about |= {"default": wanted.default, "options": list(wanted.options)}
                    tables.setdefault(("inputs", id), {key: value for key, value in about.items() if value})
            tables["servers", one.config.name] = table_of(one.config)
        return toml_edit.put(text, tables)
    except toml_edit.TOMLError as error:
        raise ConfigError(f"{target} cannot be changed safely, so it was not changed: {error}") from error


def in_workspace(server: ServerConfig, target: Path) -> ServerConfig:
    """Return an equivalent configuration for carrel.toml, whose project folder may be different."""
    if server.workspace is None or Path(server.workspace) == target.parent:
        return server
    folder = server.workspace.replace("${", "$${")

    def moved(text: str | None) -> str | None:
        return None if text is None else text.replace("${workspaceFolder}", folder)

    return msgspec.structs.replace(
        server,
        command=moved(server.command),
        args=tuple(moved(one) or "" for one in server.args),
        env={key: moved(text) or "" for key, text in server.env.items()},
        cwd=moved(server.cwd),
        env_file=None if server.env_file is None else str(Path(folder, moved(server.env_file) or "")),
        url=moved(server.url),
    )


def keyring() -> InputStore | None:
    """Return the keyring of the operating system, or None if it or its package is missing."""
    from carrel.security.client.keyring_store import KeyringStore

    return Inputs().store if KeyringStore.available() else None
