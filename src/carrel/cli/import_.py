"""``carrel import``: shows the servers that applications on this machine have, and takes them over into carrel.toml.

Secrets are not copied: they go to the keyring, or become environment variables that have to be set.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from carrel.cli import config_file, toml_edit
from carrel.cli.confirmation import confirmed, say
from carrel.cli.options import Parser
from carrel.cli.output import table
from carrel.errors import ConfigError
from carrel.host.config import ConfigFile, Input, Origin, ServerConfig, discover, read_file, unique
from carrel.host.config.inputs import Inputs, InputStore, key_of
from carrel.host.config.secrets import hide, table_of
from carrel.near_names import did_you_mean

__all__ = ["parser", "run"]

SUMMARY = "Show the servers that applications on this machine have, and take them over into carrel.toml."
EXAMPLES = """\
examples:
  carrel import                          everything that is found; asks before it writes
  carrel import --dry-run                only look
  carrel import github files --yes       these two
  carrel import --from .vscode/mcp.json  those of one file

Secrets are not copied in clear: they are kept in the keyring of the operating system if there is one
(pip install 'carrel[keyring]'), else they become environment variables.
"""
DECLINED = 1


def parser() -> Parser:
    """Return the argument parser of ``carrel import``."""
    reader = Parser("import", SUMMARY, epilog=EXAMPLES)
    reader.add_argument("names", metavar="NAME", nargs="*", help="the servers to take over (default: all of them)")
    reader.add_argument(
        "--from",
        metavar="FILE",
        action="append",
        default=[],
        dest="files",
        help="a configuration file to read, in place of those of the applications; may be repeated",
    )
    reader.add_argument("--config", metavar="FILE", default="carrel.toml", help="where to write (default: carrel.toml)")
    reader.add_argument("--keep-secrets", action="store_true", help="copy secrets in clear, as they are")
    reader.add_argument("--dry-run", action="store_true", help="show what there is and do not write anything")
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
        sys.stderr.write(f"carrel: {problem}\n")
    servers = chosen(unique(found), options.names)
    present = read_file(target, "carrel")
    if present.problems:
        raise ConfigError(str(present.problems[0]))
    taken = [Taken(server, target, present, options.keep_secrets) for server in servers]
    new = [one for one in taken if not one.known]
    say(table(f"Servers for {target}", [one.row() for one in taken]) or "No servers were found.")
    if not new:
        say("Nothing to change." if taken else "")
        return 0
    if options.dry_run:
        say("Nothing was written (--dry-run).")
        return 0
    question = f"Add {len(new)} {'server' if len(new) == 1 else 'servers'} to {target}?"
    if not options.yes and not confirmed(question, "add --yes to write, or --dry-run to only look"):
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
        ConfigError: one that was given does not exist.
    """
    if not options.files:
        return discover()
    for file in options.files:
        if not Path(file).expanduser().is_file():
            raise ConfigError(f"--from {file}: there is no such file")
    return [read_file(Path(file).expanduser()) for file in options.files]


def chosen(servers: list[ServerConfig], names: list[str]) -> list[ServerConfig]:
    """Return the servers of some names, all if there are none.

    Raises:
        ConfigError: there is no server of such a name.
    """
    known = [server.name for server in servers]
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no server {name!r}{did_you_mean(name, known)} (carrel import shows all)")
    return [server for server in servers if not names or server.name in names]


class Taken:
    """Server to be taken over: its configuration as it will be in carrel.toml, and its secrets apart."""

    def __init__(self, server: ServerConfig, target: Path, present: ConfigFile, clear: bool) -> None:
        self.origin = server.origin
        self._name = server.name
        self.inputs: dict[str, Input] = {}
        self.secrets: dict[str, str] = {}
        self.variables: list[str] = []
        self._store = None if clear else keyring()
        self._file = str(target)
        taken = {one.name: one for one in present.servers}
        config = placed(server, target)
        config = config if clear else hide(config, self._replace)
        self.inputs |= server.inputs
        name, number = config.name, 1
        while name in taken and not self._same(taken[name], config):
            number += 1
            name = f"{config.name}-{number}"
        self.known = name in taken
        self.config = msgspec.structs.replace(config, name=name)

    def _same(self, present: ServerConfig, config: ServerConfig) -> bool:
        return table_of(present) == table_of(config)

    def _replace(self, name: str, secret: str) -> str:
        """Return the variable in place of a secret: one that has it already, an input, or one to be set."""
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
        """Return what is shown of the server."""
        notes = ["there already"] if self.known else []
        notes += ["disabled"] if self.config.disabled else []
        if not self.known and self.secrets:
            notes.append(f"{len(self.secrets)} to the keyring")
        if not self.known and self.variables:
            notes.append(f"needs {', '.join(dict.fromkeys(self.variables))}")
        place = str(self.origin) if self.origin is not None else ""
        return self.config.name, self.config.shown, place, "; ".join(notes)

    def keep_secrets(self) -> None:
        """Put the secrets into the keyring, for the inputs of carrel.toml."""
        if self._store is None:
            return
        owner = msgspec.structs.replace(self.config, origin=Origin("carrel", self._file))
        for id, secret in self.secrets.items():
            asyncio.run(self._store.put(key_of(id, owner), secret))


def edited(text: str, target: Path, new: Sequence[Taken]) -> str:
    """Return carrel.toml with servers added.

    Raises:
        ConfigError: it cannot be changed safely.
    """
    try:
        for one in new:
            for id, wanted in one.inputs.items():
                if id not in toml_edit.parse(text).get("inputs", {}):
                    about: dict[str, object] = {"description": wanted.description, "password": wanted.password}
                    about |= {"default": wanted.default, "options": list(wanted.options)}
                    text = toml_edit.put(text, "inputs", id, {key: value for key, value in about.items() if value})
            text = toml_edit.put(text, "servers", one.config.name, table_of(one.config))
    except toml_edit.TOMLError as error:
        raise ConfigError(f"{target} cannot be changed safely, so it was left alone: {error}") from error
    return text


def placed(server: ServerConfig, target: Path) -> ServerConfig:
    """Return a configuration that means the same in carrel.toml: its project is another folder there, maybe."""
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
    """Return the keyring of the operating system; None where there is none, or its package is not installed."""
    from carrel.security.client.keyring_store import KeyringStore

    return Inputs().store if KeyringStore.available() else None
