"""``carrel cat``: prints a resource of a server, or writes it to a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from carrel.cli.client.connection import SERVER_ERROR, add_connection_options, ask, failed, read_target, shown
from carrel.cli.options import Parser
from carrel.cli.terminal.output import write_json, write_text
from carrel.cli.terminal.progress import Bar, is_wanted
from carrel.errors import ConfigError, PeerError, ResourceError
from carrel.near_names import near
from carrel.uri.template import UriTemplate, UriTemplateError
from carrel.wire.resources import BlobResourceContents

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.wire.resources import ReadResourceResult

__all__ = ["parser", "run"]

SUMMARY = "Print a resource of a server. Binary contents go to a file or a pipe."
EXAMPLES = """\
examples:
  carrel cat server.py book://lem/solaris
  carrel cat server.py 'book://{author}/{title}' --author lem --title solaris
  carrel cat http://127.0.0.1:8000/mcp file:///srv/docs/cover.png -o cover.png
  carrel cat 'file:///var/log/app.log?tail=20' -- carrel serve /var/log
"""


def parser() -> Parser:
    """Return the argument parser of ``carrel cat``."""
    reader = Parser("cat", SUMMARY, epilog=EXAMPLES)
    add_connection_options(reader)
    reader.add_argument(
        "uri", metavar="URI", help="the URI of the resource, or a URI template, whose variables become options"
    )
    reader.add_argument("values", metavar="NAME=VALUE", nargs="*", help="a variable of the template")
    reader.add_argument("-o", "--output", metavar="FILE", help="write it into a file")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel cat`` and return the exit code: 0, 1 if there is no such resource, 3 without a connection.

    Raises:
        ConfigError: the arguments are invalid, or binary contents would go to a terminal.
    """
    reader = parser()
    template = template_in(arguments)
    if template is not None:
        add_variables(reader, template)
    options, target = read_target(reader, arguments)
    uri = options.uri if template is None and not options.values else filled_in(options)

    bar = Bar.of(options)
    bar.wanted = bar.wanted or (options.output is not None and is_wanted(quiet=options.quiet))

    def progress(done: float, total: float | None, message: str | None) -> None:
        bar.update(message or f"reading {uri}", done, total)

    async def show(client: Client) -> int:
        bar.update(f"reading {uri}")
        try:
            result = await client.read_resource(uri, progress=progress if bar.wanted else None)
        except (PeerError, ResourceError):
            if ":" in uri:
                raise
            bar.stop()
            return failed(f"{uri} is not the URI of a resource; carrel ls {target.name} lists them", SERVER_ERROR)
        bar.stop()
        if options.output is not None:
            save(result, options.output)
        elif options.json:
            write_json(result)
        else:
            write(result, uri)
        return 0

    return ask(target, options, show, bar=bar)


def template_in(arguments: list[str]) -> UriTemplate | None:
    """Return the URI template in the arguments, or None."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for argument in arguments[:end]:
        if "{" in argument and ":" in argument.partition("{")[0] and not argument.startswith("-"):
            try:
                return UriTemplate(argument)
            except UriTemplateError as error:
                raise ConfigError(f"{argument} is not a URI template: {error}") from None
    return None


def add_variables(reader: Parser, template: UriTemplate) -> None:
    """Add an option for each variable of a template, unless an option of that name exists."""
    group = reader.add_argument_group("the template")
    for name in dict.fromkeys(variable.name for variable in template.variables):
        if f"--{name}" not in reader._option_string_actions:
            group.add_argument(f"--{name}", dest=f"variable {name}", metavar="VALUE", action="append")


def filled_in(options: argparse.Namespace) -> str:
    """Expand the template with the values of its variables and return the URI.

    Raises:
        ConfigError: a variable is missing, or the template has no variable of that name.
    """
    template = UriTemplate(options.uri)
    names = list(dict.fromkeys(variable.name for variable in template.variables))
    values: dict[str, str | list[str]] = {}
    for name in names:
        given = getattr(options, f"variable {name}", None)
        if given is not None:
            values[name] = given if len(given) > 1 else given[0]
    for pair in options.values:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"{pair!r} is not a variable: write name=value")
        if name not in names:
            raise ConfigError(f"{options.uri} has no variable {name!r}{near(name, names)}")
        values[name] = value
    missing = [name for name in names if name in template.required and name not in values]
    if missing:
        raise ConfigError(f"{options.uri} needs {', '.join(f'--{shown(name)} VALUE' for name in missing)}")
    return template.expand(values)


def save(result: ReadResourceResult, file: str) -> None:
    """Write the contents of a resource to a file.

    Raises:
        ConfigError: the file cannot be written.
    """
    data = b"".join(
        part.blob if isinstance(part, BlobResourceContents) else part.text.encode("utf-8", "surrogatepass")
        for part in result.contents
    )
    try:
        Path(file).write_bytes(data)
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}") from None


def write(result: ReadResourceResult, uri: str) -> None:
    """Print the contents of a resource.

    Raises:
        ConfigError: the contents are binary and the output is a terminal.
    """
    for contents in result.contents:
        if not isinstance(contents, BlobResourceContents):
            write_text(contents.text)
        elif sys.stdout.isatty():
            kind = contents.mime_type or "binary"
            raise ConfigError(f"{uri} is {kind}, {len(contents.blob)} bytes: write it to a file with -o FILE")
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(contents.blob)
            sys.stdout.buffer.flush()
