"""``carrel find``: finds resources, templates, tools and prompts of a server."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from carrel.cli.client.call import described
from carrel.cli.client.connection import SERVER_ERROR, add_connection_options, ask, read_target, shown
from carrel.cli.client.ls import first_line, unless_in
from carrel.cli.options import Parser
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.terminal.output import table, write_json, write_text
from carrel.cli.terminal.progress import Bar, counted

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.wire.tools import CallToolResult, Tool

__all__ = ["parser", "run", "search_tool"]

SUMMARY = "Search a server: with its search tool if it has one, and in names and descriptions."
EXAMPLES = """\
examples:
  carrel find ./notes 'red wine'
  carrel find http://127.0.0.1:8000/mcp invoice --names
  carrel find "carrel serve texts --search" 猫       in the texts of a folder, not only in names
"""
#: Names of search tools. Carrel's servers use the first.
SEARCH_TOOLS = ("search_resources", "search")
#: Seconds between two searches if the index is not complete yet.
PAUSE = 0.3


class FoundItem(NamedTuple):
    """Search result: its kind, its identifier (URI or name), and its description."""

    kind: str
    name: str
    about: str


def parser() -> Parser:
    """Return the argument parser of ``carrel find``."""
    reader = Parser("find", SUMMARY, epilog=EXAMPLES)
    add_connection_options(reader)
    reader.add_argument("text", metavar="TEXT", help="words; all of them must occur, in any order and case")
    reader.add_argument("--names", action="store_true", help="search names and descriptions only")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel find`` and return the exit code: 0, 1 if nothing is found, 3 without a connection.

    Raises:
        ConfigError: the arguments are invalid.
    """
    options, target = read_target(parser(), arguments)
    bar = Bar.of(options)

    async def show(client: Client) -> int:
        tools = await client.list_tools()
        searcher = None if options.names else search_tool(tools)
        result: CallToolResult | None = None
        if searcher is not None:
            tool, argument = searcher
            bar.update(f"{tool.name} searches")
            result = await searched(client, tool.name, {argument: options.text}, options.timeout, bar)
        matches = await by_name(client, tools, options.text, bar)
        bar.stop()
        links = None if result is None else linked(result)
        found = result is not None and not result.is_error and bool(result.content if links is None else links)
        if options.json:
            write_json({"matches": [match._asdict() for match in matches], "search": result if found else None})
            return 0 if matches or found else SERVER_ERROR
        matches += [link for link in links or () if all(link.name != match.name for match in matches)]
        if matches:
            rows = [
                (match.kind, shown(match.name, 200), shown(unless_in(match.name, match.about))) for match in matches
            ]
            write_text(table("Names", rows), escape=False)
        if found and links is None and result is not None:
            write_text("\n".join(described(block) for block in result.content))
        if not matches and not found:
            write_text("Nothing found.")
            if not options.names and not options.quiet and (searcher is None or searcher[0].name == SEARCH_TOOLS[0]):
                print_stderr("Only names and descriptions were searched. To search texts: carrel serve PATH --search")
        return 0 if matches or found else SERVER_ERROR

    return ask(target, options, show, bar=bar)


async def searched(client: Client, name: str, arguments: dict[str, str], patience: float, bar: Bar) -> CallToolResult:
    """Call a search tool until its index is complete or some seconds have passed. Return the last result."""
    deadline = monotonic() + patience
    while True:
        result = await client.call_tool(name, arguments)
        answer = result.structured_content
        if not isinstance(answer, dict) or answer.get("complete") is not False or monotonic() >= deadline:
            return result
        bar.update("the search index is being built")
        await asyncio.sleep(PAUSE)


def search_tool(tools: list[Tool]) -> tuple[Tool, str] | None:
    """Return a read-only search tool with one required string argument, and the name of that argument."""
    for tool in tools:
        hints = tool.annotations
        if tool.name not in SEARCH_TOOLS or hints is None or not hints.read_only_hint:
            continue
        required: list[Any] = tool.input_schema.get("required") or []
        field = (tool.input_schema.get("properties") or {}).get(required[0] if required else "")
        if len(required) == 1 and isinstance(field, dict) and field.get("type") == "string":
            return tool, required[0]
    return None


def linked(result: CallToolResult) -> list[FoundItem] | None:
    """Return the resources of a search result that lists resources or has no hits; None for any other result."""
    structured = result.structured_content
    if isinstance(structured, dict) and structured.get("hits") == []:
        return []
    listed = structured.get("resources") if isinstance(structured, dict) else None
    if not isinstance(listed, list) or not all(isinstance(one, dict) and "uri" in one for one in listed):
        return None
    return [FoundItem("resource", str(one["uri"]), str(one.get("title") or one.get("name") or "")) for one in listed]


async def by_name(client: Client, tools: list[Tool], text: str, bar: Bar) -> list[FoundItem]:
    """Return the items with all words of ``text`` in the name, title, URI or description."""
    words = text.lower().split()
    found = []

    def add(kind: str, name: str, *texts: str | None) -> None:
        every = " ".join(one for one in (name, *texts) if one).lower()
        if all(word in every for word in words):
            about = next((one for one in reversed(texts) if one), "")
            found.append(FoundItem(kind, name, first_line(about)))

    for resource in await counted(client.list_resources(), bar, "resources"):
        add("resource", resource.uri, resource.name, resource.title, resource.description)
    for template in await counted(client.list_resource_templates(), bar, "templates"):
        add("template", template.uri_template, template.name, template.title, template.description)
    for tool in tools:
        add("tool", tool.name, tool.title, tool.description)
    for prompt in await counted(client.list_prompts(), bar, "prompts"):
        add("prompt", prompt.name, prompt.title, prompt.description)
    return found
