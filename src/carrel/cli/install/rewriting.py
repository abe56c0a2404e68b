"""Servers that an application has already: their entries are rewritten to run on Carrel, and restored."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from carrel.cli.install import toml_edit
from carrel.cli.install.entries import ours
from carrel.cli.server.compat_option import COMPAT
from carrel.cli.server.launchers import read_launch
from carrel.errors import ConfigError
from carrel.host.config import jsonc
from carrel.host.config.applications import ClientApplication
from carrel.near_names import near

__all__ = ["rewrite"]

#: Arguments of ``carrel`` before the command that an entry had.
RUN = ("run", COMPAT, "--")
#: Comes before the command if the entry had an empty list of arguments, and not no list. ``carrel run`` ignores it.
EMPTY = "--"


def rewrite(
    client: ClientApplication, file: Path, text: str, names: Sequence[str], start: Sequence[str] | None
) -> tuple[str, list[str]]:
    """Return a configuration whose servers run on Carrel, and a line about each server that stays as it is.

    ``start`` is the command that starts this Carrel; without it, the servers get their own commands back. ``names``
    chooses servers; without names, all are rewritten that can be.

    Raises:
        ConfigError: the text is not a valid configuration, or has no server of that name.
    """
    try:
        servers = (
            toml_edit.parse(text) if client.format == "toml" else jsonc.parse(text.strip() or "{}", comments=True)
        ).get(client.section, {})
        for name in names:
            if name not in servers:
                raise ConfigError(f"{file} has no server {name!r}{near(name, servers)}")
        unchanged: list[str] = []
        for name in names or servers:
            try:
                new = restored(servers[name]) if start is None else running(servers[name], start)
            except ConfigError as reason:
                unchanged.append(f"{name} stays as it is: {reason}")
            else:
                text = put(client, text, name, servers[name], new)
    except (jsonc.JsoncError, toml_edit.TOMLError) as error:
        raise ConfigError(f"{file} cannot be changed safely, so it was not changed: {error}") from error
    return text, unchanged


def running(entry: dict[str, Any], start: Sequence[str]) -> dict[str, Any]:
    """Return the fields of an entry whose program runs on Carrel.

    Raises:
        ConfigError: the entry starts no Python program.
    """
    command, arguments = entry.get("command"), entry.get("args")
    empty = [EMPTY] if arguments == [] else []
    arguments = arguments or []
    if not isinstance(command, str) or not isinstance(arguments, list):
        raise ConfigError("it has a URL and no command")
    if ours(entry):
        raise ConfigError("it runs on Carrel already")
    words = [command, *map(str, arguments)]
    elsewhere = read_launch(words, COMPAT).command
    if elsewhere is not None and elsewhere[1] == "-P":
        found = subprocess.run([elsewhere[0], "-P", "-c", "import carrel.compat"], capture_output=True)  # noqa: S603
        if found.returncode:
            raise ConfigError(f"{command} has no Carrel: {elsewhere[0]} -m pip install 'carrel[compat]'")
    return {"command": start[0], "args": [*start[1:], *RUN, *empty, *words]}


def restored(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry before it was rewritten.

    Raises:
        ConfigError: the entry was not rewritten.
    """
    arguments = entry.get("args")
    end = arguments.index("--") + 1 if isinstance(arguments, list) and "--" in arguments else 0
    if not ours(entry) or not end or tuple(entry["args"][end - len(RUN) : end]) != RUN or len(entry["args"]) == end:
        raise ConfigError(f"it was not rewritten with {COMPAT}")
    command, *remaining = words = entry["args"][end:]
    if command == EMPTY and remaining:
        return {"command": words[1], "args": []}
    return {"command": command, "args": remaining} if remaining else {"command": command}


def put(client: ClientApplication, text: str, name: str, before: dict[str, Any], new: dict[str, Any]) -> str:
    """Return a configuration with the command of a server replaced; its other fields stay."""
    if client.format == "toml":
        kept = {key: value for key, value in before.items() if key in new or key != "args"}
        return toml_edit.put(text, {(client.section, name): kept | new})
    text = jsonc.put(text, (client.section, name, "command"), new["command"])
    place, given, wanted = (client.section, name, "args"), before.get("args"), new.get("args")
    if wanted is None:
        return jsonc.remove(text, place)
    if given is None:
        return jsonc.put(text, place, wanted)
    same = len(wanted) - len(given)
    return jsonc.replace_start(text, place, max(-same, 0), wanted[: max(same, 0)])
