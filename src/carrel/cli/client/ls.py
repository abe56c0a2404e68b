"""``carrel ls``: lists the resources, templates, tools and prompts of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from carrel.cli.client.call import fields_of, kinds_of
from carrel.cli.client.connection import add_connection_options, ask, read_target, shown
from carrel.cli.options import Parser
from carrel.cli.terminal.output import table, write_json, write_text
from carrel.cli.terminal.progress import Bar, counted

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.wire.prompts import Prompt
    from carrel.wire.resources import Resource, ResourceTemplate
    from carrel.wire.tools import Tool

__all__ = ["parser", "run", "unless_in"]

SUMMARY = "List the resources, templates, tools and prompts of a server."
EXAMPLES = """\
examples:
  carrel ls server.py
  carrel ls http://127.0.0.1:8000/mcp --json
  carrel ls ./notes                             a folder, as carrel serve shares it
  carrel ls -- npx -y @modelcontextprotocol/server-everything
"""
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def parser() -> Parser:
    """Return the argument parser of ``carrel ls``."""
    reader = Parser("ls", SUMMARY, epilog=EXAMPLES)
    add_connection_options(reader)
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel ls`` and return the exit code: 0, 1 if the server answered with an error, 3 without a connection.

    Raises:
        ConfigError: wrong use.
    """
    options, target = read_target(parser(), arguments)
    bar = Bar.of(options)

    async def show(client: Client) -> int:
        resources = await counted(client.list_resources(), bar, "resources")
        templates = await counted(client.list_resource_templates(), bar, "templates")
        tools = await counted(client.list_tools(), bar, "tools")
        prompts = await counted(client.list_prompts(), bar, "prompts")
        bar.stop()
        if options.json:
            write_json({"resources": resources, "resourceTemplates": templates, "tools": tools, "prompts": prompts})
            return 0
        tables = (
            table("Resources", [resource_row(resource) for resource in resources]),
            table("Templates", [template_row(template) for template in templates]),
            table("Tools", [tool_row(tool) for tool in tools]),
            table("Prompts", [prompt_row(prompt) for prompt in prompts]),
        )
        write_text(
            "\n\n".join(one for one in tables if one) or "The server has no resources, tools or prompts.", escape=False
        )
        return 0

    return ask(target, options, show, bar=bar)


def resource_row(resource: Resource) -> tuple[str, ...]:
    about = unless_in(resource.uri, resource.title or resource.name)
    facts = [about, *([first_line(resource.description)] if resource.description is not None else [])]
    return (
        shown(resource.uri),
        shown(resource.mime_type or ""),
        size(resource.size),
        shown(": ".join(fact for fact in facts if fact)),
    )


def unless_in(uri: str, title: str) -> str:
    """Return a title, or an empty string if the URI already contains it, as for files."""
    return "" if title in uri or title in unquote(uri) else title


def template_row(template: ResourceTemplate) -> tuple[str, ...]:
    about = template.title or template.name
    return (
        shown(template.uri_template),
        shown(template.mime_type or ""),
        shown(about if template.description is None else f"{about}: {first_line(template.description)}"),
    )


def tool_row(tool: Tool) -> tuple[str, ...]:
    """Return a tool as a row: its name, its arguments (optional arguments with "?") and its description."""
    fields, required = fields_of(tool)
    arguments = [f"{name}{'' if name in required else '?'}: {kinds_of(field)}" for name, field in fields.items()]
    return shown(f"{tool.name}({', '.join(arguments)})", 200), shown(first_line(tool.description or tool.title or ""))


def prompt_row(prompt: Prompt) -> tuple[str, ...]:
    arguments = [f"{one.name}{'' if one.required else '?'}" for one in prompt.arguments or ()]
    about = first_line(prompt.description or prompt.title or "")
    return shown(f"{prompt.name}({', '.join(arguments)})", 200), shown(about)


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def size(value: int | float | None) -> str:
    """Format a size in bytes: 812 B, 1.5 MiB."""
    if value is None:
        return ""
    amount, unit = float(value), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.0f} B" if unit == 0 else f"{amount:.1f} {UNITS[unit]}"
