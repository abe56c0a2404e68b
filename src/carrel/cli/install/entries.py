"""Server entries in configuration files: add, update and remove entries, and show them without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from carrel.cli.install import toml_edit
from carrel.errors import ConfigError
from carrel.host.config import jsonc
from carrel.host.config.applications import URL_KEYS, ClientApplication

__all__ = ["edit", "masked"]

#: Keys whose values are not shown.
HIDDEN = "env|headers|http_headers"
JSON_STRING = r'"(?:[^"\\]|\\.)*"'
JSON_HIDDEN = re.compile(rf'("(?:{HIDDEN})"\s*:\s*)(\{{(?:[^{{}}"]|{JSON_STRING})*\}})')
TOML_STRING = rf"(?:{JSON_STRING}|'[^']*')"
TOML_HIDDEN = re.compile(rf"(?m)^([ \t]*(?:{HIDDEN})[ \t]*=[ \t]*)(\{{.*\}})")
TOML_TABLE = re.compile(rf"(?m)^(\[[^\n]*\.(?:{HIDDEN})[ \t]*\][^\n]*\n)((?:(?![ \t]*\[).*(?:\n|\Z))*)")
MASK = '"********"'
#: Shorter values are masked only by syntax, because they may also occur in other places.
LONG = 4


def edit(client: ClientApplication, file: Path, text: str, name: str, entry: dict[str, Any] | None) -> str:
    """Return the configuration with the entry added or updated. If the entry is None, remove it.

    Raises:
        ConfigError: the text is not a valid configuration, or the name belongs to another server.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    document = text.removeprefix(mark)
    try:
        change = edit_toml if client.format == "toml" else edit_json
        return mark + change(client, file, document, name, entry)
    except (jsonc.JsoncError, toml_edit.TOMLError) as error:
        raise ConfigError(f"{file} cannot be changed safely, so it was not changed: {error}") from error


def edit_json(client: ClientApplication, file: Path, text: str, name: str, entry: dict[str, Any] | None) -> str:
    """Return JSON, or JSON with comments, with the entry added, updated or removed."""
    document = text if text.strip() else "{}\n"
    servers = jsonc.parse(document, comments=client.format == "jsonc")
    servers = servers.get(client.section) if isinstance(servers, dict) else None
    present = servers.get(name) if isinstance(servers, dict) else None
    if entry is None:
        return text if present is None else jsonc.remove(document, (client.section, name))
    if present is None:
        return jsonc.put(document, (client.section, name), entry)
    # Field by field, so that the user's additions (disabled, comments …) stay.
    for key, value in merged(file, name, present, entry).items():
        document = jsonc.put(document, (client.section, name, key), value)
    for key in outdated(present, entry):
        document = jsonc.remove(document, (client.section, name, key))
    return document


def edit_toml(client: ClientApplication, file: Path, text: str, name: str, entry: dict[str, Any] | None) -> str:
    """Return TOML with the entry added, updated or removed."""
    servers = toml_edit.parse(text).get(client.section)
    present = servers.get(name) if isinstance(servers, dict) else None
    if entry is None:
        return text if present is None else toml_edit.remove(text, client.section, name)
    if present is None:
        return toml_edit.put(text, {(client.section, name): entry})
    new = present | merged(file, name, present, entry)
    for key in outdated(present, entry):
        del new[key]
    return text if new == present else toml_edit.put(text, {(client.section, name): new})


def merged(file: Path, name: str, present: object, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry, keeping the existing environment variables.

    Raises:
        ConfigError: the existing entry does not belong to Carrel.
    """
    if not isinstance(present, dict) or not ours(present):
        raise ConfigError(
            f"{file} already has a server {name!r} that is not one of Carrel's; choose another name with --name"
        )
    before = present.get("env")
    return entry | {"env": before | entry["env"]} if "env" in entry and isinstance(before, dict) else entry


def outdated(present: dict[str, Any], entry: dict[str, Any]) -> list[str]:
    """Return the existing fields that conflict with the new entry: a command with a URL, or a URL with a command."""
    others = URL_KEYS if "command" in entry else ("command", "args", "env")
    contrary = [key for key in others if key in present and key not in entry]
    changed = ("command" in entry) != ("command" in present)
    return [*contrary, "type"] if changed and "type" in present and "type" not in entry else contrary


def ours(entry: dict[str, Any]) -> bool:
    """Return whether an entry may be overwritten: it starts Carrel, or has only a URL."""
    if any(isinstance(entry.get(key), str) for key in URL_KEYS):
        return set(entry) <= {"type", *URL_KEYS}
    command, arguments = entry.get("command"), entry.get("args")
    if not isinstance(command, str) or not isinstance(arguments, list):
        return False
    program = re.split(r"[\\/]", command)[-1].lower().removesuffix(".exe")
    leading = arguments[1:3] if arguments[:1] == ["-P"] else arguments[:2]
    return program == "carrel" or leading == ["-m", "carrel"]


def masked(client: ClientApplication, text: str) -> str:
    """Mask the values of environment variables and headers in a configuration with asterisks.

    Regular expressions mask values in the usual syntax, also short values. Values in unusual syntax (dotted keys,
    comments in between, several lines) are found by parsing the configuration and then replaced in the text.
    """
    shown = masked_by_form(client, text)
    document = text.removeprefix("\ufeff")
    if not document.strip():
        return shown
    parsed = toml_edit.parse(document) if client.format == "toml" else jsonc.parse(document, comments=True)
    lines = {line for value in secrets_in(parsed) for line in (value, *value.splitlines()) if len(line) >= LONG}
    spelled = {
        one for line in lines for one in (line, json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1])
    }
    for one in sorted(spelled, key=len, reverse=True):
        shown = shown.replace(one, MASK.strip('"'))
    return shown


def secrets_in(data: object, *, hidden: bool = False) -> Iterator[str]:
    """Yield the strings below keys whose values are hidden."""
    if isinstance(data, str) and hidden:
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from secrets_in(value, hidden=hidden or key in HIDDEN.split("|"))
    elif isinstance(data, list):
        for value in data:
            yield from secrets_in(value, hidden=hidden)


def masked_by_form(client: ClientApplication, text: str) -> str:
    if client.format != "toml":
        return JSON_HIDDEN.sub(lambda found: found[1] + re.sub(rf"(:\s*){JSON_STRING}", rf"\1{MASK}", found[2]), text)
    text = TOML_HIDDEN.sub(lambda found: found[1] + re.sub(rf"(=\s*){TOML_STRING}", rf"\1{MASK}", found[2]), text)
    line = re.compile(r"(?m)^([^=#\n]+=[ \t]*)[^\r\n]*")
    return TOML_TABLE.sub(lambda found: found[1] + line.sub(rf"\1{MASK}", found[2]), text)
