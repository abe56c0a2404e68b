"""Parser of ``carrel.toml``: checks each table and key, and reports errors with line and column.

carrel.toml:12:1: [http] prot: there is no such setting; did you mean port?
"""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH100, PTH111, PTH118, PTH120, PTH123

from __future__ import annotations

import os
import re
import tomllib
from typing import TYPE_CHECKING, Any

from carrel.cli.config.positions import KeyPath, Position, find_positions
from carrel.cli.config.settings import HOST_SECTIONS, SECTIONS, Field, SettingOrigin, SourceEntry, fields, fields_of
from carrel.cli.config.values import Resolved, convert, resolve
from carrel.errors import ConfigError
from carrel.near_names import near
from carrel.sources.registry import SOURCES, find, installed, scheme_of

if TYPE_CHECKING:
    from carrel.policy.limiter import LimitRule
    from carrel.policy.policy import Policy

__all__ = ["FileSettings", "read_file"]

SOURCE_KEYS = ("path", "url")
OPTIONAL = "optional"
#: Keys of ``[limits]`` that are no settings of ``Limits``, but limit rules.
LIMIT_RULES = frozenset({"requests", "burst", "bytes", "concurrent", "rules"})
AT = re.compile(r"(?P<text>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL)


class FileSettings:
    """Contents of a file: settings by path, their origins, sources, the policy, limit rules, and problems."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, SettingOrigin] = {}
        self.sources: list[SourceEntry] = []
        self.policy: Policy | None = None
        self.limit_rules: list[LimitRule] = []
        self.problems: list[str] = []


def read_file(file: str) -> FileSettings:
    """Read and check a file. Invalid settings are reported in ``problems`` of the contents.

    Raises:
        ConfigError: the file cannot be read, or is not valid TOML.
    """
    try:
        with open(os.path.expanduser(file), encoding="utf-8-sig", newline="") as stream:
            text = stream.read()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file} is not UTF-8 text") from None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(not_toml(file, text, str(error))) from None
    except RecursionError:
        raise ConfigError(f"{file} is not TOML: it is nested too deeply") from None
    except ValueError as error:  # a number of too many digits
        raise ConfigError(f"{file} is not TOML: {error}") from None
    return SettingsReader(file, find_positions(text)).read(document)


def not_toml(file: str, text: str, message: str) -> str:
    """Format a tomllib error with the position first."""
    found = AT.fullmatch(message)
    if found is None:
        return f"{file} is not TOML: {message}"
    line = found["line"] or text.count("\n") + 1
    column = found["column"] or len(text) - text.rfind("\n")
    return f"{file}:{line}:{column}: this is not TOML: {found['text']}"


class SettingsReader:
    """Reader of one document. Collects the problems."""

    def __init__(self, file: str, positions: dict[KeyPath, Position]) -> None:
        self._file = file
        self._positions = positions
        self._folder = os.path.dirname(os.path.abspath(os.path.expanduser(file)))
        self._found = FileSettings()

    def read(self, document: dict[str, Any]) -> FileSettings:
        """Return the contents of a document."""
        for key, value in document.items():
            if key == "sources":
                self._sources(value)
            elif key == "access":
                self._access(value)
            elif key in HOST_SECTIONS:
                continue
            elif key not in SECTIONS:
                self._unknown_section(key)
            elif isinstance(value, dict):
                self._table(key, self._without_rules(value) if key == "limits" else value)
            else:
                self._problem((key,), f"{key} is a section: write [{key}]")
        self._limit_rules(document.get("limits"))
        return self._found

    @staticmethod
    def _without_rules(table: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in table.items() if key not in LIMIT_RULES}

    def _limit_rules(self, table: object) -> None:
        """Read the limit rules of ``[limits]``, after the roles, which they name."""
        if not isinstance(table, dict) or not table.keys() & LIMIT_RULES:
            return
        from carrel.policy.limit_reading import read_limits  # imported only if there are limit rules

        roles = () if self._found.policy is None else self._found.policy.roles
        self._found.limit_rules, problems = read_limits(table, roles, self._at)
        self._found.problems += problems

    def _access(self, table: object) -> None:
        from carrel.policy.reading import read_policy  # imported only if there is a policy

        self._found.policy, problems = read_policy(table, self._at)
        self._found.problems += problems

    def _problem(self, path: KeyPath, text: str) -> None:
        self._found.problems.append(f"{self._at(path, columns=True)}: {text}")

    def _at(self, path: KeyPath, *, columns: bool = False) -> str:
        while path not in self._positions and path:
            path = path[:-1]
        location = self._positions.get(path, Position(1, 1))
        return f"{self._file}:{location.line}:{location.column}" if columns else f"{self._file}:{location.line}"

    def _unknown_section(self, key: str) -> None:
        homes = [field.section for field in fields().values() if field.name == key]
        if homes:
            self._problem((key,), f"{key}: this setting belongs into [{homes[0]}]")
        else:
            self._problem(
                (key,), f"{key}: there is no such section{near(key, [*SECTIONS, 'sources', 'access', *HOST_SECTIONS])}"
            )

    def _table(self, section: str, table: dict[str, Any]) -> None:
        path = tuple(section.split("."))
        names = {field.name: field for field in fields().values() if field.section == section}
        for key, value in table.items():
            inner = f"{section}.{key}"
            if inner in SECTIONS and isinstance(value, dict):
                self._table(inner, value)
            elif inner in SECTIONS:
                self._problem((*path, key), f"{inner} is a section: write [{inner}]")
            elif key not in names:
                self._problem((*path, key), f"[{section}] {key}: there is no such setting{near(key, names)}")
            else:
                self._setting(names[key], (*path, key), value)

    def _setting(self, field: Field, path: KeyPath, value: Any) -> None:
        read = self._value(field, path, value, f"[{field.section}] {field.name}")
        if read is not None:
            self._found.values[field.path] = self._placed(field, read.value)
            self._found.origins[field.path] = SettingOrigin(self._at(path), read.is_secret)

    def _value(self, field: Field, path: KeyPath, value: Any, owner: str) -> Resolved | None:
        """Resolve and convert a value. Return None if the value is invalid."""
        try:
            found = resolve(value, self._folder, secret=field.is_secret)
            return found._replace(value=convert(field, found.value, from_text=bool(found.references)))
        except ConfigError as error:
            self._problem(path, f"{owner}: {error}")
            return None

    def _placed(self, field: Field, value: Any) -> Any:
        """Return a value, and resolve the path in it."""
        if field.is_path:
            return self._in_folder(value)
        kind, colon, path = value.partition(":") if isinstance(value, str) else ("", "", "")
        return f"{kind}:{self._in_folder(path)}" if colon and kind in field.marks.get("path_after", ()) else value

    def _in_folder(self, value: Any) -> Any:
        """Resolve a path, or several paths, relative to the file."""
        if isinstance(value, str):
            return os.path.join(self._folder, os.path.expanduser(value))
        return value if value is None else tuple(map(self._in_folder, value))

    def _sources(self, tables: Any) -> None:
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            self._problem(("sources",), "sources are tables: write [[sources]] before each")
            return
        for index, table in enumerate(tables):
            self._source(("sources", index), table)

    def _source(self, path: KeyPath, table: dict[str, Any]) -> None:
        keys = [key for key in SOURCE_KEYS if key in table]
        if len(keys) != 1:
            self._problem(path, '[[sources]] needs either a path or a url, for example path = "./docs"')
            return
        [key] = keys
        location = self._value(Field("sources", key, str, None, {}), (*path, key), table[key], f"[[sources]] {key}")
        if location is None:
            return
        shown = str(table[key])
        scheme = "file" if key == "path" else scheme_of(location.value)
        source = find(scheme)
        if source is None:
            schemes = ", ".join(f"{name}:" for name in dict.fromkeys((*SOURCES, *installed())))
            self._problem((*path, key), f"[[sources]] url: there is no source for {scheme}: URLs; there are {schemes}")
            return
        try:
            known = fields_of(source.load_options(), "sources")
        except ConfigError as error:
            self._problem((*path, key), f"[[sources]] {key}: {error}")
            return
        optional = table.get(OPTIONAL, False)
        if not isinstance(optional, bool):
            self._problem((*path, OPTIONAL), f"[[sources]] {OPTIONAL}: expected true or false")
        options, origins = self._options(path, table, known, scheme)
        value = self._in_folder(location.value) if key == "path" else location.value
        self._found.sources.append(SourceEntry(value, options, self._at(path), shown, origins, optional is True))

    def _options(
        self, path: KeyPath, table: dict[str, Any], known: dict[str, Field], scheme: str
    ) -> tuple[dict[str, Any], dict[str, SettingOrigin]]:
        """Return the options of a source, and their origins."""
        options: dict[str, Any] = {}
        origins: dict[str, SettingOrigin] = {}
        for key, value in table.items():
            if key in SOURCE_KEYS or key == OPTIONAL:
                continue
            if key not in known:
                alike = [name for name, field in known.items() if (dict in field.types) == isinstance(value, dict)]
                hint = near(key, alike if isinstance(value, dict) and alike else [*SOURCE_KEYS, OPTIONAL, *alike])
                self._problem((*path, key), f"[[sources]] {key}: {scheme}: has no such option{hint}")
                continue
            read = self._value(known[key], (*path, key), value, f"[[sources]] {key}")
            if read is not None:
                options[key] = self._in_folder(read.value) if known[key].is_path else read.value
                origins[key] = SettingOrigin(self._at((*path, key)), read.is_secret)
        return options, origins
