"""``carrel call``: calls a tool of a server and prints its result."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from carrel.cli.client.connection import SERVER_ERROR, ask, read_target, shown
from carrel.cli.client.named import is_unknown, missing, named_parser, unlisted
from carrel.cli.options import Parser
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.terminal.output import write_json, write_text
from carrel.cli.terminal.progress import Bar
from carrel.errors import ConfigError
from carrel.near_names import near
from carrel.wire.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink, TextContent

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.wire.tools import CallToolResult, Tool

__all__ = ["parser", "read_arguments", "run"]

#: Text that is a number or a boolean in JSON.
WRITTEN = re.compile(r"true|false|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
SUMMARY = "Call a tool of a server and print its result."
EXAMPLES = """\
examples:
  carrel call server.py add a=1 b=2             a tool of a Python file
  carrel call http://127.0.0.1:8000/mcp search query='red wine' limit:=5
  carrel call echo message=hi -- npx -y @modelcontextprotocol/server-everything

key=value is text, or the type that the tool's schema gives the argument (a number, true or false).
The arguments of a tool that is not listed are numbers, true or false if they are written so.
key:=json is JSON: limit:=5, tags:='["a", "b"]'. Exit code 0: done; 1: the tool reported an error;
2: wrong use; 3: no connection.
"""


def parser() -> Parser:
    """Return the argument parser of ``carrel call``."""
    about = "arguments: key=value, or key:=json"
    return named_parser("call", SUMMARY, EXAMPLES, "tool", "the name of the tool", arguments=about)


def run(arguments: list[str]) -> int:
    """Run ``carrel call`` and return the exit code: 0, 1 if the tool reported an error, 3 without a connection.

    Raises:
        ConfigError: there is no such tool, or the arguments are invalid.
    """
    options, target = read_target(parser(), arguments)
    pairs = [split_pair(pair) for pair in options.arguments]
    handlers = None
    bar = Bar.of(options)
    if sys.stdin is not None and sys.stdin.isatty():
        from carrel.cli.terminal.client_requests import Terminal, on_the_terminal, read_line, say

        handlers = on_the_terminal(Terminal(read_line, say, bar.hidden))

    def show_progress(done: float, total: float | None, message: str | None) -> None:
        if bar.wanted:
            bar.update(message or f"{options.tool} works", done, total)
        elif not options.quiet:
            write_progress(done, total, message)

    async def call(client: Client) -> int:
        tools = {tool.name: tool for tool in await client.list_tools()}
        name, tool = options.tool, tools.get(options.tool)
        given = read_untyped(pairs) if tool is None else read_arguments(tool, pairs)
        bar.update(f"{name} works")
        with unlisted(target, "tool", name, tools):
            result = await client.call_tool(name, given, progress=show_progress)
        if tool is None and result.is_error and is_unknown("tool", result.text):
            raise missing(target, "tool", name, tools)
        bar.stop()
        write(result, as_json=options.json)
        return SERVER_ERROR if result.is_error else 0

    return ask(target, options, call, handlers, bar)


def split_pair(pair: str) -> tuple[str, str, bool]:
    """Split ``key=value`` or ``key:=json`` into the key, the value, and whether the value is JSON.

    Raises:
        ConfigError: the text has neither form.
    """
    key, equals, value = pair.partition("=")
    if not equals or not key.rstrip(":"):
        raise ConfigError(f"{pair!r} is not an argument: write key=value, or key:=json")
    return key.removesuffix(":"), value, key.endswith(":")


def read_untyped(pairs: list[tuple[str, str, bool]]) -> dict[str, Any]:
    """Return the arguments of a tool that is not listed; text becomes a number or a boolean if it is written as one.

    Raises:
        ConfigError: a value is not JSON.
    """
    return {key: read_json(key, text) if is_json or WRITTEN.fullmatch(text) else text for key, text, is_json in pairs}


def read_arguments(tool: Tool, pairs: list[tuple[str, str, bool]]) -> dict[str, Any]:
    """Return the arguments of a tool. Text is converted to a number or a boolean if the tool's schema says so.

    Raises:
        ConfigError: a value is not JSON, or an argument is missing or unknown.
    """
    fields, required = fields_of(tool)
    schema = tool.input_schema if isinstance(tool.input_schema, dict) else {}
    closed = schema.get("additionalProperties") is False
    values: dict[str, Any] = {}
    for key, text, is_json in pairs:
        if key not in fields and closed:
            raise ConfigError(f"{tool.name} has no argument {key!r}{near(key, fields)}")
        values[key] = read_json(key, text) if is_json else converted(text, definition_of(fields.get(key), schema))
    missing = [key for key in required if key not in values]
    if missing:
        wanted = ", ".join(f"{shown(key)} ({kinds_of(fields.get(key))})" for key in missing)
        raise ConfigError(f"{tool.name} needs {wanted}")
    return values


def fields_of(tool: Tool) -> tuple[Mapping[str, Any], list[str]]:
    """Return the schemas of a tool's arguments and the names of required arguments. A server may send any schema."""
    schema = tool.input_schema if isinstance(tool.input_schema, dict) else {}
    fields, required = schema.get("properties"), schema.get("required")
    names = required if isinstance(required, list) else []
    return fields if isinstance(fields, dict) else {}, [name for name in names if isinstance(name, str)]


def read_json(key: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{key}:={text} is not JSON: {error}") from None


def definition_of(field: Any, schema: Mapping[str, Any]) -> Any:
    """Resolve a field's ``$ref`` in the definitions of its schema. Other fields are returned unchanged."""
    named = field.get("$ref") if isinstance(field, dict) else None
    definitions = schema.get("$defs")
    if not isinstance(named, str) or not isinstance(definitions, dict):
        return field
    return definitions.get(named.removeprefix("#/$defs/"), field)


def converted(text: str, field: Any) -> Any:
    """Convert text to the JSON type of a field. Return the text if the field accepts text or conversion fails."""
    kinds = kinds_of(field)
    if "string" in kinds or is_untyped(field):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text  # the server reports the error


def is_untyped(field: Any) -> bool:
    """Return whether the schema of a field specifies no type."""
    if not isinstance(field, dict) or isinstance(field.get("type"), str) or isinstance(field.get("$ref"), str):
        return not isinstance(field, dict)
    return not any(_items(field, name) for name in ("type", "anyOf", "oneOf"))


def kinds_of(field: Any) -> str:
    """Describe the types that the schema of a field allows."""
    if not isinstance(field, dict):
        return name_of(field)
    kinds, choices = field.get("type"), _items(field, "enum")
    every = [kinds] if isinstance(kinds, str) else [kind for kind in _items(field, "type") if isinstance(kind, str)]
    every += [kinds_of(part) for name in ("anyOf", "oneOf") for part in _items(field, name)]
    if not every and choices:
        return " or ".join(msgspec.json.encode(choice).decode() for choice in choices) + " string"
    return " or ".join(dict.fromkeys(every)) or name_of(field)


def name_of(field: Any) -> str:
    """Return the type name of a field whose schema is a reference (``$ref``), or else its title."""
    if not isinstance(field, dict):
        return "any value"
    named, title = field.get("$ref"), field.get("title")
    if isinstance(named, str) and named.rpartition("/")[2]:
        return named.rpartition("/")[2]
    return title if isinstance(title, str) and title else "any value"


def _items(field: Mapping[str, Any], name: str) -> list[Any]:
    found = field.get(name)
    return found if isinstance(found, list) else []


def write_progress(done: float, total: float | None, message: str | None) -> None:
    """Print progress as a line on standard error if there is no progress bar."""
    share = f"{done:g}" if total is None else f"{done:g} of {total:g}"
    text = f"{share} {shown(message, 200)}" if message else share
    print_stderr(text)


def write(result: CallToolResult, *, as_json: bool) -> None:
    """Print a result: its text, and one line for each other content block. Errors go to standard error."""
    if as_json:
        write_json(result)
        return
    lines = [described(block) for block in result.content]
    if not lines and result.structured_content:
        lines = [msgspec.json.format(msgspec.json.encode(result.structured_content)).decode()]
    if result.is_error:
        print_stderr(*(f"carrel: {shown(line)}" for line in lines or ["the tool failed"]))
    else:
        write_text("\n".join(lines))


def described(block: object) -> str:
    """Return the text of a content block, or a line that describes the block."""
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ImageContent | AudioContent):
        return f"[{block.mime_type}, {len(block.data)} bytes; --json prints it]"
    if isinstance(block, ResourceLink):
        return f"[{block.uri}]"
    if isinstance(block, EmbeddedResource):
        text = getattr(block.resource, "text", None)
        return text if isinstance(text, str) else f"[{block.resource.uri}]"
    return f"[{type(block).__name__}]"
