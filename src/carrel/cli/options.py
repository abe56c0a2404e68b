"""Shared command-line options and argument parsing of the ``carrel`` subcommands."""

# No pathlib, whose import takes a few milliseconds: clients wait for a stdio server to start.

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from carrel.cli.source_flags import SourceFlags
from carrel.cli.values import positive, size
from carrel.errors import ConfigError
from carrel.limits import Limits
from carrel.near_names import did_you_mean, near
from carrel.search.options import LOCAL_MODELS
from carrel.sources.registry import SOURCES, Source, find, installed, scheme_of

__all__ = [
    "PAGE_SIZE",
    "Parser",
    "add_config_option",
    "add_header_option",
    "add_limit_option",
    "add_sharing_options",
    "add_source_flags",
    "as_arguments",
    "read_limit",
    "sources_of",
]

PAGE_SIZE = 100
#: Beginning of the argparse message about missing arguments.
REQUIRED = "the following arguments are required: "
#: Beginning of the argparse message about unknown arguments.
UNKNOWN = "unrecognized arguments: "


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formatter that keeps line breaks of help texts, and wraps lines that are too wide."""

    def start_section(self, heading: str | None) -> None:
        super().start_section(heading and self._fill_text(heading, self._width, ""))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(part for line in text.splitlines() for part in broken(indent + line, width))


def broken(line: str, width: int) -> list[str]:
    """Wrap a line of a help text at ``width``. The comment of an example moves to the line below its command."""
    if len(line) <= width:
        return [line]
    from textwrap import wrap  # imported only for help on a narrow terminal

    text = line.lstrip()
    indent = line[: len(line) - len(text)]
    command, gap, comment = text.partition("  ")
    if gap and comment:
        return [f"{indent}{command}", *broken(f"{indent}    {comment.lstrip()}", width)]
    later = f"{indent}  " if indent else ""
    return wrap(
        text, width, initial_indent=indent, subsequent_indent=later, break_long_words=False, break_on_hyphens=False
    )


class Parser(argparse.ArgumentParser):
    """Argument parser that raises usage errors as a one-line ConfigError, and accepts no abbreviated options.

    ``flags`` are the flags of sources that ``add_source_flags`` has added.
    """

    def __init__(self, command: str, summary: str, **options: str) -> None:
        super().__init__(
            prog=f"carrel {command}",
            description=summary,
            formatter_class=HelpFormatter,
            allow_abbrev=False,
            **options,  # type: ignore[arg-type]
        )
        self.flags = SourceFlags([])

    def error(self, message: str) -> NoReturn:
        if message.startswith(REQUIRED):
            message = f"{REQUIRED}{', '.join(self._required(message.removeprefix(REQUIRED).split(', ')))}"
        elif message.startswith(UNKNOWN):
            message += self._suggestion(message.removeprefix(UNKNOWN).split())
        raise ConfigError(f"{message} (see {self.prog} --help)")

    def _suggestion(self, words: list[str]) -> str:
        """Return a "did you mean" hint for the first unknown option."""
        option = next((word for word in words if word.startswith("--")), "").partition("=")[0]
        known = (name for name in self._option_string_actions if name.startswith("--"))
        return did_you_mean(option, known) if option else ""

    def _required(self, names: list[str]) -> list[str]:
        """Return the missing arguments that are required. argparse also names optional positional arguments."""
        optional = {str(action.metavar) for action in self._actions if action.nargs in ("*", "?")}
        return [name for name in names if name not in optional] or names


def add_config_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--config``."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="read settings from this file (docs/configuration.md); without it, ./carrel.toml is read where nothing "
        "else is named",
    )


def add_sharing_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that apply to all sources."""
    group = parser.add_argument_group("sources to share")
    group.add_argument("--name", metavar="NAME", help="the name of the server (default: the name of the first path)")
    group.add_argument(
        "--skills",
        metavar="FOLDER",
        action="append",
        default=[],
        help="serve the skills in a folder (directories with a SKILL.md), or a single skill; may be repeated",
    )
    group.add_argument(
        "--tools",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="offer list, read and search as read-only tools too, for applications "
        "whose model cannot see resources (default: --tools)",
    )
    group.add_argument(
        "--search",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="index the names and the full text of all shared data, on this machine, and offer search "
        "(docs/search.md; default: --no-search)",
    )
    group.add_argument(
        "--embeddings",
        metavar="MODEL",
        type=in_current_folder,
        help="with --search, rank by meaning too: model2vec:FOLDER or onnx:FOLDER of a model on this machine, or the "
        "URL of an API (docs/search.md)",
    )
    group.add_argument(
        "--page-size",
        metavar="N",
        type=positive,
        default=None,
        help=f"the number of resources per page of a list (default: {PAGE_SIZE})",
    )


def add_header_option(parser: argparse._ActionsContainer) -> None:
    """Add --header."""
    parser.add_argument(
        "--header", metavar="'NAME: VALUE'", action="append", default=[], help="a header for URLs; may be repeated"
    )


def in_current_folder(model: str) -> str:
    """Return the setting of a model, with an absolute path if the model is in a local folder."""
    kind, _, path = model.partition(":")
    return f"{kind}:{Path(path).expanduser().absolute()}" if kind in LOCAL_MODELS else model


def add_source_flags(parser: Parser, others: Iterable[Source] = ()) -> None:
    """Add the flags of Carrel's own sources and of ``others``, after all other options."""
    parser.flags = SourceFlags([*SOURCES.values(), *others], parser._option_string_actions)
    parser.flags.add_to(parser)


def sources_of(arguments: list[str]) -> list[Source]:
    """Return the sources of other packages that a command line uses, or all of them for ``--help``.

    Raises:
        ConfigError: a source is installed, but a package that it requires is not.
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
    """Add the ``--limit`` option; ``read_limit`` parses a value."""
    parser.add_argument_group("limits").add_argument(
        "--limit",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set a limit of docs/limits.md, for example max_message_bytes=1000000; may be repeated",
    )


def read_limit(setting: str) -> tuple[str, float]:
    """Parse a limit given as NAME=VALUE. For limits in bytes, VALUE may be a size such as 20MiB.

    Raises:
        ConfigError: the limit is unknown, or the value is not a number.
    """
    name, _, value = setting.partition("=")
    kinds = Limits.__annotations__
    if name not in kinds:
        hint = near(name, kinds, "; docs/limits.md has all of them")
        raise ConfigError(f"--limit {setting}: there is no limit {name!r}{hint}")
    try:
        if "_bytes" in name and not value.lstrip("+-").isdigit():
            return name, size(value)
        return name, float(value) if kinds[name] == "float" else int(value)
    except argparse.ArgumentTypeError as error:
        raise ConfigError(f"--limit {setting}: {error}") from None
    except ValueError:
        raise ConfigError(f"--limit {setting}: {value!r} is not a number") from None


def as_arguments(
    options: argparse.Namespace, skills: list[str], flags: SourceFlags, *, hide: bool = False
) -> list[str]:
    """Convert the options of ``add_sharing_options`` to arguments, without defaults. Secrets may be hidden."""
    arguments = [f"--name={options.name}"] if options.name else []
    arguments += [f"--skills={folder}" for folder in skills]
    arguments += flags.arguments(options, hide=hide)
    arguments += ["--no-tools"] if options.tools is False else []
    arguments += ["--search"] if getattr(options, "search", None) else []
    arguments += [f"--embeddings={options.embeddings}"] if getattr(options, "embeddings", None) else []
    arguments += [f"--page-size={options.page_size}"] if options.page_size is not None else []
    return arguments
