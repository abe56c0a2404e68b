"""Command-line flags of sources, generated from the fields of their options structs.

Sources with an option of the same name and type share its flag. If a flag is already used by a different option, the
scheme is its prefix: ``--mbox-name``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from carrel.cli.values import folder, glob, number, positive, shown_size, size, whole
from carrel.sources.registry import SOURCES, Source, find

__all__ = ["Flag", "SourceFlags", "flags_of"]

KINDS: tuple[tuple[type[inspect.Type], str, Callable[[str], Any]], ...] = (
    (inspect.IntType, "N", whole),
    (inspect.FloatType, "NUMBER", number),
    (inspect.StrType, "TEXT", str),
)
NAMED: dict[str, Callable[[str], Any]] = {"SIZE": size, "GLOB": glob, "FOLDER": folder}
MANY = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType)


class Flag(NamedTuple):
    """Flag of an option. ``read`` parses a value, or is None for a switch. ``name`` is the name of the option."""

    flag: str
    name: str
    metavar: str
    read: Callable[[str], Any] | None
    repeated: bool
    choices: tuple[str, ...]
    default: Any
    description: str

    @property
    def kind(self) -> tuple[object, ...]:
        """Properties that are equal for flags of the same name."""
        return (self.metavar, self.read, self.repeated, self.choices, self.default if self.read is None else None)

    @property
    def usage(self) -> str:
        """The flag with its value, as in the help text."""
        return f"{self.flag} {self.metavar}" if self.metavar else self.flag

    @property
    def fallback(self) -> str:
        """The default as text, or an empty string without a default."""
        if self.read is None or self.default in (None, (), [], msgspec.NODEFAULT):
            return ""
        return shown_size(self.default) if self.metavar == "SIZE" else str(self.default)


def flags_of(source: Source) -> list[Flag]:
    """Return the flags of the options of a source.

    Raises:
        ConfigError: a package required by the source is missing.
    """
    info = inspect.type_info(source.load_options())
    fields = info.fields if isinstance(info, inspect.StructType) else ()
    return [flag for field in fields if (flag := flag_of(field)) is not None]


def flag_of(field: inspect.Field) -> Flag | None:
    """Return the flag of an option, or None if its type cannot be given on the command line."""
    kind, described = unwrapped(field.type)
    if isinstance(kind, inspect.UnionType):
        some = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
        if len(some) != 1:
            return None
        kind, inner = unwrapped(some[0])
        described = {**inner, **described}
    description = str(described.get("description", ""))
    flag = "--" + field.encode_name.replace("_", "-")
    if isinstance(kind, inspect.BoolType):
        if field.default is True:
            flag, description = f"--no-{flag[2:]}", str(described.get("off", f"turn off: {description}"))
        return Flag(flag, field.encode_name, "", None, False, (), field.default, description)
    repeated = isinstance(kind, MANY)
    if isinstance(kind, MANY):
        kind, inner = unwrapped(kind.item_type)
        described = {**described, **inner}
        description += "; may be repeated"
    metavar = described.get("title")
    if isinstance(kind, inspect.LiteralType):
        choices = tuple(map(str, kind.values))
        return Flag(flag, field.encode_name, metavar or "NAME", str, repeated, choices, field.default, description)
    for known, usual, read in KINDS:
        if isinstance(kind, known):
            if metavar in NAMED:
                read = NAMED[metavar]
            elif isinstance(kind, inspect.IntType) and kind.ge == 1:
                read = positive
            return Flag(flag, field.encode_name, metavar or usual, read, repeated, (), field.default, description)
    return None


def unwrapped(kind: inspect.Type) -> tuple[inspect.Type, Mapping[str, Any]]:
    """Split an annotated type into the type and its metadata."""
    if isinstance(kind, inspect.Metadata):
        return kind.type, {**(kind.extra_json_schema or {}), **(kind.extra or {})}
    return kind, {}


class SourceFlags:
    """Flags of a command's sources, and the source options read from them."""

    def __init__(self, sources: Iterable[Source] = SOURCES.values(), taken: Iterable[str] = ()) -> None:
        self.by_scheme: dict[str, list[Flag]] = {}
        self._sources = list(sources)
        known: dict[str, Flag | None] = dict.fromkeys(taken)
        for source in self._sources:
            flags = self.by_scheme[source.scheme] = []
            for flag in flags_of(source):
                other = known.get(flag.flag)
                if flag.flag in known and (other is None or other.kind != flag.kind):
                    flag = flag._replace(flag=f"--{source.scheme}-{flag.flag[2:]}")
                known.setdefault(flag.flag, flag)
                flags.append(flag)

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags to a parser, in a group for each source."""
        added: set[str] = set()
        alike: dict[tuple[str, ...], str] = {}
        for source in self._sources:
            flags = self.by_scheme[source.scheme]
            names = tuple(flag.flag for flag in flags)
            same = alike.setdefault(names, source.scheme)
            shared = ", ".join(name for name in names if name in added)
            note = f"also {shared}" if same == source.scheme else f"the same options as {same}:"
            heading = f"{source.scheme}: {source.summary}"
            group = parser.add_argument_group(heading, note if shared else None)
            for flag in flags:
                if flag.flag not in added:
                    added.add(flag.flag)
                    self._add(group, flag)

    def fallback(self, flag: Flag) -> str:
        """Return the default of a flag as text, followed by the sources with a different default."""
        found: dict[str, list[str]] = {}
        for scheme, flags in self.by_scheme.items():
            for one in flags:
                if one.flag == flag.flag:
                    found.setdefault(one.fallback, []).append(f"{scheme}:")
        first, *others = found
        return "; ".join([first, *(f"{', '.join(found[other])} {other or 'none'}" for other in others)])

    def _add(self, group: argparse._ArgumentGroup, flag: Flag) -> None:
        fallback = self.fallback(flag)
        note = f" (default: {fallback})" if fallback else ""
        text = f"{flag.description}{note}".replace("%", "%%")
        if flag.read is None:
            group.add_argument(
                flag.flag, dest=flag.flag, action="store_const", const=not flag.default, default=None, help=text
            )
            return
        group.add_argument(
            flag.flag,
            dest=flag.flag,
            metavar=flag.metavar,
            type=flag.read,
            choices=flag.choices or None,
            action="append" if flag.repeated else "store",
            default=None,
            help=text,
        )

    def options(self, given: argparse.Namespace, scheme: str) -> dict[str, Any]:
        """Return the options of a source given on the command line."""
        source = find(scheme)
        owner = scheme if source is None else source.scheme
        values = {flag.name: getattr(given, flag.flag) for flag in self.by_scheme.get(owner, ())}
        return {name: value for name, value in values.items() if value is not None}

    def arguments(self, given: argparse.Namespace, *, hide: bool = False) -> list[str]:
        """Return the given flags as command-line arguments. With ``hide``, secrets are replaced by asterisks."""
        arguments: dict[str, None] = {}
        for flag in (flag for flags in self.by_scheme.values() for flag in flags):
            value = getattr(given, flag.flag)
            if value is not None and flag.read is None:
                arguments[flag.flag] = None
            elif value is not None and hide and flag.metavar == "SECRET":
                arguments[f"{flag.flag}=********"] = None
            elif value is not None:
                arguments |= dict.fromkeys(f"{flag.flag}={one}" for one in (value if flag.repeated else [value]))
        return list(arguments)

    def unused(self, given: argparse.Namespace, schemes: Iterable[str]) -> list[str]:
        """Return the given flags that no source with one of these schemes uses."""
        owners = {source.scheme for scheme in schemes if (source := find(scheme)) is not None}
        used = {flag.flag for scheme in owners for flag in self.by_scheme.get(scheme, ())}
        every = {flag.flag: None for flags in self.by_scheme.values() for flag in flags}
        return [flag for flag in every if flag not in used and getattr(given, flag) is not None]

    def table(self) -> str:
        """Return the options of all sources as a table in Markdown, for the documentation."""
        schemes: dict[Flag, list[str]] = {}
        first: dict[str, Flag] = {}
        for scheme, flags in self.by_scheme.items():
            for flag in flags:
                schemes.setdefault(first.setdefault(flag.flag, flag), []).append(f"`{scheme}:`")
        rows = [
            f"| `{flag.usage}` | `{flag.name}` | {', '.join(owners)} | {flag.description} | {self.fallback(flag)} |"
            for flag, owners in schemes.items()
        ]
        return "\n".join(["| flag | key | source | | default |", "| --- | --- | --- | --- | --- |", *rows])
