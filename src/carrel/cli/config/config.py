"""``carrel config``: shows the settings in force and where they come from, checks a file, prints its JSON schema."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from carrel.cli.config.read import DEFAULT_FILE, Configuration, read_configuration
from carrel.cli.config.settings import SECTIONS, SettingOrigin, fields, fields_of
from carrel.cli.config.toml import read_file
from carrel.cli.config.values import mask, shown
from carrel.cli.options import Parser, sources_of
from carrel.cli.server import serve
from carrel.cli.server.http_options import read_authorization
from carrel.cli.server.sharing import app_location, read_targets
from carrel.cli.source_flags import SourceFlags
from carrel.cli.target import read_location
from carrel.cli.terminal.messages import print_stderr, say
from carrel.cli.terminal.output import write_text
from carrel.errors import ConfigError
from carrel.host.config.read import read_file as read_servers
from carrel.redaction import without_secrets
from carrel.sources.registry import find, scheme_of

__all__ = ["parser", "run"]

SUMMARY = "Show the effective settings, check a carrel.toml, or print the JSON schema of these files."
EXAMPLES = """\
examples:
  carrel config show                            the effective settings, and the source of each
  carrel config show --http 9000                the same, with options of carrel serve
  carrel config check --config other.toml       all errors in a file
  carrel config schema > carrel.schema.json     for editors

After the action, all options of carrel serve are accepted.
"""
DEFAULT = SettingOrigin("default")
COMMENT = 40


#: A source: its location, the origin of the location, the location as shown, its options and their origins.
Entry: TypeAlias = tuple[str, str, str, dict[str, Any], dict[str, SettingOrigin]]


class Shown(NamedTuple):
    """Setting to print: section, name, value without secrets, and origin."""

    section: str
    name: str
    value: Any
    origin: str


def parser() -> Parser:
    """Return the argument parser of ``carrel config``."""
    reader = Parser("config", SUMMARY, epilog=EXAMPLES)
    reader.add_argument("action", metavar="ACTION", choices=("show", "check", "schema"), help="show, check or schema")
    reader.add_argument("--json", action="store_true", help="print JSON (show)")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel config``.

    Raises:
        ConfigError: the arguments or the settings are invalid.
    """
    own, remaining = parser().parse_known_args(arguments)
    if own.action == "schema":
        from carrel.cli.config.schema import schema

        write_text(msgspec.json.format(msgspec.json.encode(schema())).decode() + "\n")
        return 0
    reader = serve.parser(sources_of(remaining))
    options = reader.parse_intermixed_args(remaining)
    if own.action == "check":
        return check(options, reader.flags)
    found = list(settings_of(read_configuration(options, targeted=bool(options.targets)), options, reader.flags))
    write_text(as_json(found) if own.json else as_toml(found))
    return 0


def check(options: argparse.Namespace, flags: SourceFlags) -> int:
    """Print all errors in a file, and return the exit code.

    Raises:
        ConfigError: the file, or something that it refers to, does not exist.
    """
    file = options.config or DEFAULT_FILE
    problems = [*read_file(file).problems, *(str(one) for one in read_servers(Path(file), "carrel").problems)]
    if problems:
        print_stderr(*(f"carrel: {problem}" for problem in problems))
        return 2
    options.config = file
    configuration = read_configuration(options, targeted=True)
    targets = read_targets(options, flags, configuration)
    app = configuration.settings.app.file
    if app is not None:
        read_location(app_location(configuration, app))
    read_authorization(configuration)
    servers = read_servers(Path(file), "carrel").servers
    if app is None and not targets and servers:
        say(f"{file} is valid: {len(servers)} {'server' if len(servers) == 1 else 'servers'} for hosts")
        return 0
    if app is None and not targets:
        raise ConfigError(f"{file} has neither [[sources]], [skills] nor [app]: there is nothing to serve")
    say(f"{file} is valid: carrel {'serve' if app is None else 'run'} --config {file}")
    return 0


def settings_of(configuration: Configuration, options: argparse.Namespace, flags: SourceFlags) -> Iterator[Shown]:
    """Yield all settings, without secrets."""
    for section in SECTIONS:
        values: Any = configuration.settings
        for part in section.split("."):
            values = getattr(values, part)
        if values is None:
            continue
        for field in fields().values():
            if field.section == section:
                origin = configuration.origins.get(field.path, DEFAULT)
                value = mask(field, getattr(values, field.name), secret=origin.is_secret)
                yield Shown(section, field.name, value, origin.text)
    given: list[Entry] = [(one, "command line", one, {}, {}) for one in (*options.targets, *skills_of(options))]
    entries = [(one.location, one.where, one.shown, one.options, one.origins) for one in configuration.sources]
    for number, (location, where, text, values, origins) in enumerate([*given, *entries]):
        scheme, section = scheme_of(location), f"sources.{number}"
        source = find(scheme)
        yield Shown(section, "url", without_secrets(text), where)
        named = {flag.name: flag.flag for flag in flags.by_scheme.get(scheme, ())}
        said = flags.options(options, scheme)
        for name, field in fields_of(source.load_options(), section).items() if source is not None else ():
            origin = SettingOrigin(named[name]) if name in said else origins.get(name, DEFAULT)
            value = said.get(name, values.get(name, field.default))
            yield Shown(section, name, mask(field, value, secret=origin.is_secret), origin.text)


def skills_of(options: argparse.Namespace) -> list[str]:
    return [f"skills:{folder}" for folder in options.skills]


def as_toml(found: list[Shown]) -> str:
    """Return settings as TOML, each with its origin in a comment. Settings without a value are commented out."""
    lines: list[str] = []
    section = None
    for one in found:
        if one.section != section:
            section = one.section
            lines += ["", "[[sources]]" if section.startswith("sources.") else f"[{section}]"]
        line = f"# {one.name}" if one.value is None else f"{one.name} = {shown(one.value)}"
        lines.append(f"{line:<{COMMENT}}  # {one.origin}")
    return "\n".join(lines[1:]) + "\n"


def as_json(found: list[Shown]) -> str:
    """Return settings as a JSON list of names, values and origins."""
    rows = [{"name": f"{one.section}.{one.name}", "value": one.value, "origin": one.origin} for one in found]
    return msgspec.json.format(msgspec.json.encode(rows)).decode() + "\n"
