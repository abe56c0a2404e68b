"""Shared command-line options and argument parsing of the ``carrel`` subcommands."""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.
# ruff: noqa: PTH100, PTH110, PTH111, PTH112, PTH113, PTH118, PTH119

from __future__ import annotations

import argparse
import os
from typing import NoReturn

from carrel.errors import ConfigError
from carrel.limits import Limits

__all__ = [
    "Parser",
    "add_limit_option",
    "add_sharing_options",
    "as_arguments",
    "check_paths",
    "check_skills",
    "default_name",
    "read_limits",
]

MAX_SIZE = 10 * 1024 * 1024
PAGE_SIZE = 100
UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


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
    """Add the options for sharing files and skills; ``as_arguments`` is the inverse."""
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
        "--include",
        metavar="GLOB",
        type=glob,
        action="append",
        default=[],
        help="share only files that match, for example '*.md' or 'docs/**'; may be repeated",
    )
    group.add_argument(
        "--exclude",
        metavar="GLOB",
        type=glob,
        action="append",
        default=[],
        help="leave out files and folders that match; may be repeated",
    )
    group.add_argument("--hidden", action="store_true", help="share files and folders whose name begins with a dot")
    group.add_argument(
        "--follow-symlinks",
        action="store_true",
        help="follow symbolic links that lead out of the folder (they are left out otherwise)",
    )
    group.add_argument(
        "--no-gitignore",
        dest="gitignore",
        action="store_false",
        help="share files that .gitignore leaves out as well",
    )
    group.add_argument(
        "--max-size",
        metavar="SIZE",
        type=size,
        default=MAX_SIZE,
        help="the largest file that is read whole, for example 500KiB or 20MiB (default: 10MiB); "
        "of larger ones, windows can be read",
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


def as_arguments(options: argparse.Namespace) -> list[str]:
    """Return the options of ``add_sharing_options`` as command-line arguments; defaults are omitted."""
    arguments = [f"--name={options.name}"] if options.name else []
    arguments += [f"--skills={os.path.abspath(os.path.expanduser(folder))}" for folder in options.skills]
    arguments += [f"--include={glob}" for glob in options.include]
    arguments += [f"--exclude={glob}" for glob in options.exclude]
    arguments += ["--hidden"] if options.hidden else []
    arguments += ["--follow-symlinks"] if options.follow_symlinks else []
    arguments += [] if options.gitignore else ["--no-gitignore"]
    arguments += [f"--max-size={options.max_size}"] if options.max_size != MAX_SIZE else []
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


def size(text: str) -> int:
    """Parse a size such as 500000, 500k, 500KiB or 10MB; K, M and G are powers of 1,024."""
    digits = text.strip().lower().removesuffix("b").removesuffix("i")
    unit = digits[-1:] if digits[-1:] in UNITS else ""
    try:
        number = float(digits.removesuffix(unit)) * UNITS[unit]
        if not 1 <= number < 2**53:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 500KiB or 10MiB") from None
    return int(number)


def glob(text: str) -> str:
    """Check a glob pattern of --include or --exclude: an invalid one would share or exclude the wrong files."""
    from carrel.sources.folder.patterns import Malformed, check_glob  # imported only when a pattern is given

    try:
        check_glob(text)
    except Malformed as problem:
        raise argparse.ArgumentTypeError(f"{text!r} {problem}") from None
    return text


def positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:9]) < 1 or len(text) > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)
