"""``carrel find``: finds resources, templates, tools and prompts of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from carrel.cli.client.call import described
from carrel.cli.client.connection import SERVER_ERROR, add_connection_options, ask, read_target, shown
from carrel.cli.client.found_texts import hits_of, lines_of, nearest_lines, nothing_relevant
from carrel.cli.client.ls import first_line, unless_in
from carrel.cli.options import Parser
from carrel.cli.terminal.messages import print_stderr
from carrel.cli.terminal.output import bold, table, write_json, write_text
from carrel.cli.terminal.progress import Bar, counted
from carrel.host.filters import ItemFilter, uri_of

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.search.results import SearchHit
    from carrel.wire.tools import CallToolResult, Tool

__all__ = ["parser", "run", "search_tool"]

SUMMARY = "Search a server: with its search tool if it has one, and in names and descriptions."
EXAMPLES = """\
examples:
  carrel find ./notes red wine
  carrel find http://127.0.0.1:8000/mcp invoice --names
  carrel find ./notes 'type:text/markdown changed:<7d -draft'
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
    reader.add_argument(
        "text",
        metavar="TEXT",
        nargs="+",
        help="words, all of which must occur in any order and case, and terms such as type:image or changed:<7d",
    )
    reader.add_argument("--names", action="store_true", help="search names and descriptions only")
    return reader


def run(arguments: list[str]) -> int:
    """Run ``carrel find`` and return the exit code: 0, 1 if nothing relevant is found, 3 without a connection.

    Raises:
        ConfigError: the arguments are invalid.
    """
    options, target = read_target(parser(), arguments)
    filters = ItemFilter(" ".join(options.text))
    filters.check()
    bar = Bar.of(options)

    async def show(client: Client) -> int:
        tools = await client.list_tools()
        searcher = None if options.names or not filters.words else search_tool(tools)
        texts: CallToolResult | None = None
        if searcher is not None:
            tool, argument = searcher
            bar.update(f"{tool.name} searches")
            texts = await searched(client, tool.name, {argument: filters.words}, options.timeout, bar)
        matches = await by_name(client, tools, filters, bar)
        bar.stop()
        found, hits = selected(texts, filters, client.server.name if client.server is not None else "")
        if options.json:
            missed = None if found is not None else nothing_relevant(texts)
            about = {} if missed is None else {"nearest": missed.nearest, "absent": missed.absent}
            write_json({"matches": [match._asdict() for match in matches], "search": found, **about})
            return 0 if matches or found is not None else SERVER_ERROR
        links = None if found is None or hits is not None else linked(found)
        matches += [link for link in links or () if all(link.name != match.name for match in matches)]
        blocks = [
            table(
                "Names",
                [(match.kind, shown(match.name, 200), shown(unless_in(match.name, match.about))) for match in matches],
            )
        ]
        if hits:
            blocks.append("\n".join([bold("Texts"), *lines_of(hits, filters.words)]))
        if any(blocks):
            write_text("\n\n".join(filter(None, blocks)), escape=False)
        if found is not None and hits is None and links is None:
            write_text("\n".join(described(block) for block in found.content))
        if not matches and found is None:
            missed = nothing_relevant(texts)
            write_text("\n".join(["Nothing found."] if missed is None else nearest_lines(missed)), escape=False)
            if not options.names and not options.quiet and (searcher is None or searcher[0].name == SEARCH_TOOLS[0]):
                print_stderr("Only names and descriptions were searched. To search texts: carrel serve PATH --search")
        return 0 if matches or found is not None else SERVER_ERROR

    return ask(target, options, show, bar=bar)


def selected(
    result: CallToolResult | None, filters: ItemFilter, server: str
) -> tuple[CallToolResult | None, list[SearchHit] | None]:
    """Return the result of a search tool and its hits that match a filter. The result is None if nothing is found.

    The hits are None if the tool lists none. Its result is left out then if the filter has terms with fields.
    """
    if result is None or result.is_error:
        return None, None
    hits = hits_of(result)
    fields = filters.fields
    if hits is None:
        links = linked(result)
        found = bool(result.content if links is None else links) and not fields
        return (result if found else None), None
    hits = [hit for hit in hits if fields.matches(server, hit.resource)]
    if not hits:
        return None, None
    structured = {**(result.structured_content or {}), "hits": msgspec.to_builtins(hits)}
    return (msgspec.structs.replace(result, structured_content=structured) if fields else result), hits


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


async def by_name(client: Client, tools: list[Tool], filters: ItemFilter, bar: Bar) -> list[FoundItem]:
    """Return the items that match a filter: with all its words in their names, titles, URIs or descriptions."""
    server = client.server.name if client.server is not None else ""
    lists: list[tuple[str, Sequence[Any]]] = [
        ("resource", await counted(client.list_resources(), bar, "resources")),
        ("template", await counted(client.list_resource_templates(), bar, "templates")),
        ("tool", tools),
        ("prompt", await counted(client.list_prompts(), bar, "prompts")),
    ]
    return [
        FoundItem(kind, uri_of(item) or item.name, first_line(item.description or item.title or name_of(item)))
        for kind, items in lists
        for item in items
        if filters.matches(server, item)
    ]


def name_of(item: Any) -> str:
    return str(item.name) if uri_of(item) else ""
