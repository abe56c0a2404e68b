"""``carrel tools``: shows the tools of a server, with their arguments and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from carrel.cli.client.call import kinds_of
from carrel.cli.client.connection import ask, read_target, shown
from carrel.cli.client.named import find_named, named_parser
from carrel.cli.options import Parser
from carrel.cli.terminal.output import bold, wrapped, write_json, write_text
from carrel.columns import aligned

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.wire.tools import Tool

__all__ = ["parser", "run"]

SUMMARY = "Show the tools of a server: description, arguments, result, and the effects that the server declares."
EXAMPLES = """\
examples:
  carrel tools server.py                        all of them
  carrel tools server.py add                    one
  carrel tools http://127.0.0.1:8000/mcp --json
"""
HINTS = {
    "read_only_hint": ("reads only", "changes things"),
    "destructive_hint": ("may destroy", "destroys nothing"),
    "idempotent_hint": ("repeating it changes nothing", ""),
    "open_world_hint": ("reaches beyond the server", "stays within the server"),
}


def parser() -> Parser:
    """Return the argument parser of ``carrel tools``."""
    return named_parser("tools", SUMMARY, EXAMPLES, "tool", "the name of one tool (default: all of them)")


def run(arguments: list[str]) -> int:
    """Run ``carrel tools`` and return the exit code: 0, 1 if the server answered with an error, 3 without a connection.

    Raises:
        ConfigError: wrong use, or there is no such tool.
    """
    options, target = read_target(parser(), arguments)

    async def show(client: Client) -> int:
        tools = await client.list_tools()
        if options.tool is not None:
            tools = [find_named(target, "tool", options.tool, {tool.name: tool for tool in tools})]
        if options.json:
            write_json(tools)
        else:
            write_text("\n\n".join(described(tool) for tool in tools) or "The server has no tools.", escape=False)
        return 0

    return ask(target, options, show)


def described(tool: Tool) -> str:
    """Format a tool as text: its name, description, arguments, result and annotations."""
    lines = [bold(shown(tool.name)) + (f"  {shown(tool.title)}" if tool.title else "")]
    lines += [part for line in (tool.description or "").strip().splitlines() for part in wrapped(shown(line), "  ")]
    lines += fields_of(tool.input_schema)
    if tool.output_schema is not None:
        results = fields_of(tool.output_schema)
        lines += ["  returns:", *(f"  {line}" for line in results)] if results else ["  returns structured content"]
    hints = [] if tool.annotations is None else hints_of(tool)
    return "\n".join([*lines, f"  ({', '.join(hints)}, says the server)"] if hints else lines)


def fields_of(schema: dict[str, Any]) -> list[str]:
    """Return a line for each property of an object schema: name, types and description."""
    properties = schema.get("properties")
    required = schema.get("required") or ()
    rows = []
    for name, field in (properties if isinstance(properties, dict) else {}).items():
        about = str(field.get("description", "")) if isinstance(field, dict) else ""
        rows.append((f"{name}{'' if name in required else '?'}", kinds_of(field), " ".join(about.split())))
    return [line for row in aligned(rows, None) for line in wrapped(shown(row), "    ", "        ")]


def hints_of(tool: Tool) -> list[str]:
    values = [(words, getattr(tool.annotations, name)) for name, words in HINTS.items()]
    return [words[0] if value else words[1] for words, value in values if value is not None and (value or words[1])]
