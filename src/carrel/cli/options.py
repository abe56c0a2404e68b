"""Shared command-line options and argument parsing of the ``carrel`` subcommands."""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH100, PTH110, PTH111, PTH112, PTH113, PTH118, PTH119

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import NamedTuple, NoReturn

from carrel.cli.source_flags import SourceFlags
from carrel.cli.values import positive
from carrel.errors import ConfigError
from carrel.limits import Limits
from carrel.sources.registry import SOURCES, Source, find, installed, no_source, scheme_of
from carrel.uri.parse import UriError, file_path

__all__ = [
    "Parser",
    "Targets",
    "add_limit_option",
    "add_sharing_options",
    "add_source_flags",
    "as_arguments",
    "check_paths",
    "check_skills",
    "default_name",
    "read_limits",
    "read_targets",
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
        default=True,
        help="offer list, read and search as read-only tools too, for applications "
        "whose model cannot see resources (default: --tools)",
    )
    group.add_argument(
        "--page-size",
        metavar="N",
        type=positive,
        default=PAGE_SIZE,
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


class Targets(NamedTuple):
    """Targets on the command line: absolute paths of files and of skills, and URLs of other sources."""

    paths: list[str]
    skills: list[str]
    urls: list[str]

    @property
    def all(self) -> list[str]:
        return [*self.paths, *self.urls, *self.skills]

    @property
    def schemes(self) -> set[str]:
        """The schemes of the sources that are used."""
        given = (("file", self.paths), ("skills", self.skills))
        return {scheme for scheme, some in given if some} | {scheme_of(url) for url in self.urls}


def read_targets(targets: list[str], skills: list[str], flags: SourceFlags, given: argparse.Namespace) -> Targets:
    """Check what is to be shared: paths and URLs, and folders of skills.

    Raises:
        ConfigError: a path cannot be shared, there is no source for a URL, or a flag is for none of them.
    """
    paths: list[str] = []
    urls: list[str] = []
    skills = list(skills)
    for target in targets:
        scheme = scheme_of(target)
        if scheme == "file":
            paths.append(path_of(target))
        elif scheme == "skills":
            skills.append(target.partition(":")[2])
        elif scheme in flags.by_scheme:
            urls.append(target)
        else:
            raise no_source(target)
    found = Targets(check_paths(paths), check_skills(skills), urls)
    for flag in flags.unused(given, found.schemes) if found.all else ():
        owners = [f"{scheme}:" for scheme, some in flags.by_scheme.items() if flag in [one.flag for one in some]]
        raise ConfigError(f"{flag} is an option of {' and '.join(owners)}, and nothing of that kind is shared")
    return found


def path_of(target: str) -> str:
    """Return the path that a path or a ``file:`` URL names.

    Raises:
        ConfigError: the URL names no path on this machine.
    """
    if not target.lower().startswith("file:") or os.path.lexists(target):
        return target
    try:
        return file_path(target)
    except UriError as error:
        raise ConfigError(f"{target} cannot be shared: {error}") from None


def add_limit_option(parser: argparse.ArgumentParser) -> None:
    """Add the ``--limit`` option; ``read_limits`` parses its values."""
    parser.add_argument_group("limits").add_argument(
        "--limit",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set a limit of docs/limits.md, for example max_message_bytes=1000000; may be repeated",
    )


def read_limits(settings: list[str]) -> Limits:
    """Parse limits given as NAME=VALUE.

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
    return Limits(**limits)  # type: ignore[arg-type]


def as_arguments(options: argparse.Namespace, skills: list[str], flags: SourceFlags) -> list[str]:
    """Return the options of ``add_sharing_options`` as command-line arguments; defaults are omitted."""
    arguments = [f"--name={options.name}"] if options.name else []
    arguments += [f"--skills={folder}" for folder in skills]
    arguments += flags.arguments(options)
    arguments += [] if options.tools else ["--no-tools"]
    arguments += [f"--page-size={options.page_size}"] if options.page_size != PAGE_SIZE else []
    return arguments


def check_paths(paths: list[str]) -> list[str]:
    """Check the paths to share, and return them as absolute paths.

    Raises:
        ConfigError: a path is missing, is neither file nor folder, is not readable, or is given twice.
    """
    checked: list[str] = []
    for path in paths:
        whole = os.path.abspath(os.path.expanduser(path))
        if not os.path.exists(whole):
            raise ConfigError(f"no such file or folder: {path}{nearest(whole)}")
        if not (os.path.isdir(whole) or os.path.isfile(whole)):
            raise ConfigError(f"{path} is neither a file nor a folder")
        if not os.access(whole, os.R_OK | os.X_OK if os.path.isdir(whole) else os.R_OK):
            raise ConfigError(f"{path} may not be read by you")
        for other in checked:
            if inside(whole, other) or inside(other, whole):
                raise ConfigError(f"{path} and {other} share the same files; give only the outer one")
        checked.append(whole)
    return checked


def check_skills(folders: list[str]) -> list[str]:
    """Check the folders of skills, and return them as absolute paths.

    Raises:
        ConfigError: a path is missing, is not a folder, is not readable, or is given twice.
    """
    checked = check_paths(folders)
    for folder, path in zip(folders, checked, strict=True):
        if not os.path.isdir(path):
            raise ConfigError(f"--skills {folder} is not a folder")
    return checked


def inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def default_name(paths: list[str]) -> str:
    """Return the default name of a server that shares these paths."""
    return os.path.basename(paths[0]) or "carrel"


def nearest(path: str) -> str:
    """Return a "did you mean" hint for a missing path, or an empty string."""
    from difflib import get_close_matches  # imported only after a mistake

    parent, name = os.path.split(path)
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return ""
    close = get_close_matches(name, names, n=1)
    return f" (did you mean {os.path.join(parent, close[0])}?)" if close else ""
