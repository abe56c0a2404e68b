"""Effective settings, merged from the defaults, ``carrel.toml``, the environment and the command line, with origins.

default < file < environment (CARREL_HTTP_PORT) < flag (--http 8000)
"""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH100, PTH111, PTH113, PTH120

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from carrel.cli.config.settings import (
    SECTIONS,
    Field,
    IntrospectionSettings,
    SettingOrigin,
    Settings,
    SourceEntry,
    fields,
)
from carrel.cli.options import read_limit
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.values import read_address
from carrel.errors import ConfigError
from carrel.near_names import near

if TYPE_CHECKING:
    from carrel.cli.server.worker import WorkerProcess
    from carrel.policy.limiter import LimitRule
    from carrel.policy.policy import Policy

__all__ = ["DEFAULT_FILE", "FLAGS", "Configuration", "read_configuration"]

DEFAULT_FILE = "carrel.toml"
PREFIX = "CARREL_"

#: Command-line options by argparse name, and the setting that each option sets.
FLAGS = {
    "name": "server.name",
    "tools": "server.tools",
    "search": "search.enabled",
    "embeddings": "search.embeddings",
    "page_size": "server.page_size",
    "path": "http.path",
    "allow_host": "http.allowed_hosts",
    "allow_origin": "http.allowed_origins",
    "trusted_proxy": "http.trusted_proxies",
    "certificate": "http.certificate",
    "key": "http.key",
    "client_ca": "http.client_ca",
    "behind_proxy": "http.behind_proxy",
    "insecure": "http.insecure",
    "sse": "http.sse",
    "workers": "http.workers",
    "grace": "http.grace",
    "state": "state.url",
    "tokens": "auth.tokens",
    "log_format": "logging.format",
    "log_level": "logging.level",
}


class Configuration:
    """Effective settings.

    ``origins`` maps the path of each explicitly set setting to its origin. ``file`` is the file name as given, or None.
    Paths of ``sources`` are relative to ``folder``.
    """

    def __init__(self) -> None:
        self.settings = Settings()
        self.sources: list[SourceEntry] = []
        self.origins: dict[str, SettingOrigin] = {}
        self.file: str | None = None
        self.folder = ""
        self.policy: Policy | None = None
        """The policy of ``[access]``."""
        self.limit_rules: list[LimitRule] = []
        """The rules of ``[[limits.rules]]``."""
        self.worker: WorkerProcess | None = None
        """This process, if it is one of several workers."""

    def given(self, section: str) -> dict[str, Any]:
        """Return the explicitly set settings of a section."""
        values: Any = self.settings
        for part in section.split("."):
            values = getattr(values, part)
        prefix = f"{section}."
        names = [path.removeprefix(prefix) for path in self.origins if path.startswith(prefix)]
        return {name: getattr(values, name) for name in names if "." not in name}

    def where(self, section: str) -> str:
        """Return the origin of the first setting of a section."""
        return next((origin.text for path, origin in self.origins.items() if path.startswith(f"{section}.")), section)


def read_configuration(options: argparse.Namespace, *, targeted: bool) -> Configuration:
    """Return the effective settings. ``targeted`` is true if the command line names the targets to serve.

    Reads ``--config FILE`` if it is given, else ``carrel.toml`` in the current folder unless ``targeted``.

    Raises:
        ConfigError: a setting is invalid, or the file cannot be read.
    """
    found = Configuration()
    values: dict[str, Any] = {}
    file = getattr(options, "config", None)
    if file is None and not targeted and hasattr(options, "config") and os.path.isfile(DEFAULT_FILE):
        file = DEFAULT_FILE
        print_stderr(f"carrel: using {os.path.abspath(file)}")
    if file is not None:
        from carrel.cli.config.toml import read_file  # imported only if there is a configuration file

        found.file, found.folder = file, os.path.dirname(os.path.abspath(os.path.expanduser(file)))
        contents = read_file(file)
        if contents.problems:
            more = f" (and {len(contents.problems) - 1} more: carrel config check)" if contents.problems[1:] else ""
            raise ConfigError(contents.problems[0] + more)
        values |= contents.values
        found.origins |= contents.origins
        found.sources, found.policy = contents.sources, contents.policy
        found.limit_rules = contents.limit_rules
    if any(name.startswith(PREFIX) for name in os.environ):
        for field, value in read_environment(os.environ):
            values[field.path] = value
            found.origins[field.path] = SettingOrigin(f"environment {field.variable}")
    for path, value, flag in read_flags(options):
        values[path] = value
        found.origins[path] = SettingOrigin(flag)
    found.settings = build(values, found)
    check(found)
    return found


def read_environment(environment: Mapping[str, str]) -> Iterator[tuple[Field, Any]]:
    """Yield the settings from environment variables. Print a warning for a variable whose name looks misspelt.

    Raises:
        ConfigError: a value is invalid.
    """
    from carrel.cli.config.values import convert

    known = {field.variable: field for field in fields().values()}
    sections = tuple(f"{PREFIX}{name.upper()}_" for name in SECTIONS)
    for variable, text in environment.items():
        field = known.get(variable)
        if field is None and variable.startswith(sections):
            print_stderr(f"carrel: {variable}: there is no such setting{near(variable, known, '')}")
        elif field is not None:
            try:
                yield field, convert(field, text, from_text=True)
            except ConfigError as error:
                raise ConfigError(f"{variable}: {error}") from None


def read_flags(options: argparse.Namespace) -> Iterator[tuple[str, Any, str]]:
    """Yield the settings from the command line: path, value and flag."""
    for name, path in FLAGS.items():
        value = getattr(options, name, None)
        if value is not None and value != []:
            flag = f"--{name.replace('_', '-')}"
            yield path, tuple(value) if isinstance(value, list) else value, f"--no-{name}" if value is False else flag
    if getattr(options, "http", None) is not None:
        host, port = read_address(options.http)
        if host is not None:
            yield "http.host", host, "--http"
        yield "http.port", port, "--http"
    if getattr(options, "stdio", False):
        yield "http.port", None, "--stdio"
    for setting in getattr(options, "limit", ()):
        name, value = read_limit(setting)
        yield f"limits.{name}", value, "--limit"


def build(values: Mapping[str, Any], found: Configuration) -> Settings:
    """Build the structs of all sections from values by path.

    Raises:
        ConfigError: a required value is missing, or a limit is out of range.
    """
    by_section: dict[str, dict[str, Any]] = {}
    for path, value in values.items():
        section, _, name = path.rpartition(".")
        by_section.setdefault(section, {})[name] = value
    inner = by_section.pop("auth.introspection", None)
    if inner is not None:
        missing = [name for name in ("client_id", "client_secret") if name not in inner]
        if missing:
            raise ConfigError(
                f"{found.where('auth.introspection')}: [auth.introspection] needs {' and '.join(missing)}"
            )
        by_section.setdefault("auth", {})["introspection"] = IntrospectionSettings(**inner)
    sections: dict[str, Any] = {}
    for section, some in by_section.items():
        try:
            sections[section] = SECTIONS[section](**some)
        except ConfigError as error:
            raise ConfigError(f"{found.where(section)}: {error}") from None
    return Settings(**sections)


def check(found: Configuration) -> None:
    """Check settings that depend on each other.

    Raises:
        ConfigError: the settings conflict.
    """
    auth, origins = found.settings.auth, found.origins
    if auth.tokens is not None and auth.issuer is not None:
        raise ConfigError(f"{origins['auth.issuer'].text}: [auth] has tokens or an issuer, not both")
    issued = [name for name in found.given("auth") if name not in ("tokens", "scopes", "implies")]
    if auth.issuer is None and issued:
        raise ConfigError(f"{origins[f'auth.{issued[0]}'].text}: [auth] {issued[0]} needs an issuer")
    if auth.introspection is not None:
        if auth.issuer is None:
            raise ConfigError(f"{found.where('auth.introspection')}: [auth.introspection] needs an issuer in [auth]")
        for name in ("jwks_uri", "algorithms", "keys_ttl", "keys_pause"):
            if f"auth.{name}" in origins:
                raise ConfigError(f"{origins[f'auth.{name}'].text}: [auth] {name} is for JWTs, not for introspection")
    if found.settings.app.file is not None:
        for path, origin in origins.items():
            if path.startswith("server."):
                raise ConfigError(
                    f"{origin.text}: [server] is for carrel serve; a server in Python sets them in its code"
                )
