"""Shared command-line options and argument parsing of the ``carrel`` subcommands."""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import NoReturn

import msgspec

from carrel.cli.source_flags import SourceFlags
from carrel.cli.values import positive
from carrel.errors import ConfigError
from carrel.limits import Limits
from carrel.sources.registry import SOURCES, Source, find, installed, scheme_of

__all__ = [
    "PAGE_SIZE",
    "Parser",
    "add_limit_option",
    "add_sharing_options",
    "add_source_flags",
    "as_arguments",
    "read_limits",
    "sources_of",
]

PAGE_SIZE = 100


class Parser(argparse.ArgumentParser):
    """Argument parser that reports wrong use as ConfigError, in one line, and accepts no abbreviated options."""

    def __init__(self, command: str, summary: str, **options: str) -> None:
        super().__init__(
            prog=f"carrel {command}",
            description=summary,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            **options,  # type: ignore[arg-type]
        )

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (see {self.prog} --help)")


def add_sharing_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for what is shared, whatever the sources."""
    group = parser.add_argument_group("what is shared")
    group.add_argument("--name", metavar="NAME", help="what the server is called (default: the name of the first path)")
    group.add_argument(
        "--skills",
        metavar="FOLDER",
        action="append",
        default=[],
        help="serve the skills in a folder (directories with a SKILL.md), or the one skill that it is; may be repeated",
    )
    group.add_argument(
        "--tools",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="offer list, read and search as read-only tools too, for applications "
        "whose model cannot see resources (default: --tools)",
    )
    group.add_argument(
        "--page-size",
        metavar="N",
        type=positive,
        default=None,
        help=f"how many resources a listing returns at a time (default: {PAGE_SIZE})",
    )


def add_source_flags(parser: argparse.ArgumentParser, others: Iterable[Source] = ()) -> SourceFlags:
    """Add the flags of Carrel's own sources and of ``others``, after all other options. Return what reads them."""
    flags = SourceFlags([*SOURCES.values(), *others], parser._option_string_actions)
    flags.add_to(parser)
    return flags


def sources_of(arguments: list[str]) -> list[Source]:
    """Return the sources of other packages that a command line is about: all of them where it asks for help.

    Raises:
        ConfigError: one is installed, and a package that it needs is not.
    """
    if "-h" in arguments or "--help" in arguments:
        return [source for source in installed().values() if source.scheme not in SOURCES and is_usable(source)]
    schemes = {scheme_of(argument) for argument in arguments if not argument.startswith("-")}
    return [source for scheme in sorted(schemes - SOURCES.keys()) if (source := find(scheme)) is not None]


def is_usable(source: Source) -> bool:
    try:
        source.load_options()
    except ConfigError:
        return False
    return True


def add_limit_option(parser: argparse.ArgumentParser) -> None:
    """Add the ``--limit`` option; ``read_limits`` parses its values."""
    parser.add_argument_group("limits").add_argument(
        "--limit",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set a limit of docs/limits.md, for example max_message_bytes=1000000; may be repeated",
    )


def read_limits(settings: list[str], others: Limits | None = None) -> Limits:
    """Parse limits given as NAME=VALUE; those that are not given are of ``others``.

    Raises:
        ConfigError: there is no limit of that name, or the value is not a number above 0.
    """
    kinds = Limits.__annotations__
    limits: dict[str, float] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if name not in kinds:
            raise ConfigError(f"--limit {setting}: there is no limit {name!r}; docs/limits.md has all of them")
        try:
            limits[name] = float(value) if kinds[name] == "float" else int(value)
        except ValueError:
            raise ConfigError(f"--limit {setting}: {value!r} is not a number") from None
    return msgspec.structs.replace(others or Limits(), **limits)


def as_arguments(options: argparse.Namespace, skills: list[str], flags: SourceFlags) -> list[str]:
    """Return the options of ``add_sharing_options`` as command-line arguments; defaults are omitted."""
    arguments = [f"--name={options.name}"] if options.name else []
    arguments += [f"--skills={folder}" for folder in skills]
    arguments += flags.arguments(options)
    arguments += ["--no-tools"] if options.tools is False else []
    arguments += [f"--page-size={options.page_size}"] if options.page_size is not None else []
    return arguments
