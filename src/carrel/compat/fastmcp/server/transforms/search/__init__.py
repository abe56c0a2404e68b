"""Search in place of a long list of tools: a tool that finds tools, and one that calls them."""

from __future__ import annotations

import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

from pydantic_core import SchemaError, SchemaValidator, ValidationError, core_schema

from carrel.compat.fastmcp.server.context import Context
from carrel.compat.fastmcp.server.dependencies import get_context
from carrel.compat.fastmcp.server.transforms.catalog import CatalogTransform
from carrel.compat.fastmcp.server.transforms.transform import GetToolNext
from carrel.compat.fastmcp.tools.tool import Tool, ToolResult
from carrel.compat.fastmcp.utilities.versions import VersionSpec
from carrel.compat.generation import fastmcp_generation

__all__ = [
    "BM25SearchTransform",
    "BaseSearchTransform",
    "RegexSearchTransform",
    "SearchResultSerializer",
    "serialize_tools_for_output_json",
    "serialize_tools_for_output_markdown",
]

SearchResultSerializer: TypeAlias = Callable[[Sequence[Tool]], Any]
MAX_PATTERN = 1000
#: Parameters of BM25: how fast the weight of repetitions levels off, and how much long texts are discounted.
SATURATION, LENGTH_WEIGHT = 1.5, 0.75


def _text_of(tool: Tool) -> str:
    """Return the text of a tool that is searched: names and descriptions of the tool and its parameters."""
    parts = [tool.name, tool.description or ""]
    for name, field in (tool.parameters or {}).get("properties", {}).items():
        parts += [name, field.get("description", "") if isinstance(field, dict) else ""]
    return " ".join(filter(None, parts))


def serialize_tools_for_output_json(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return tools as a list of tools has them."""
    by_alias = fastmcp_generation() > 3
    return [tool.to_mcp_tool().model_dump(mode="json", by_alias=by_alias, exclude_none=True) for tool in tools]


def serialize_tools_for_output_markdown(tools: Sequence[Tool]) -> str:
    """Return tools as Markdown: names, descriptions, parameters and results."""
    blocks = []
    for tool in tools:
        lines = [f"### {tool.name}", *(["", tool.description.strip()] if tool.description else [])]
        lines += ["", *_section(tool.parameters, "Parameters")]
        lines += ["", *_section(tool.output_schema, "Returns")] if tool.output_schema is not None else []
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) or "No tools matched the query."


def _section(schema: dict[str, Any], title: str) -> list[str]:
    fields = schema.get("properties")
    if fields is None:
        return [f"**{title}**", f"- `value` ({_kind(schema)})"]
    required = schema.get("required") or ()
    rows = [f"- `{name}` ({_kind(field)}{', required' if name in required else ''})" for name, field in fields.items()]
    return [f"**{title}**", *(rows or ["*(no parameters)*"])]


def _kind(schema: Any) -> str:
    """Return the type of a schema in one word."""
    if not isinstance(schema, dict):
        return "any"
    kind = schema.get("type")
    if isinstance(kind, str) and kind:
        return f"{_kind(schema.get('items'))}[]" if kind == "array" else kind
    options = schema.get("anyOf") or schema.get("oneOf")
    if options and "$ref" not in schema:
        kinds = list(dict.fromkeys(map(_kind, options)))
        others = [each for each in kinds if each != "null"]
        return " | ".join(others) + ("?" if "null" in kinds else "") if others else "null"
    return "object" if {"$ref", "allOf", "properties"} & schema.keys() else "any"


class BaseSearchTransform(CatalogTransform):
    """Transform that lists a search tool and a call tool. Tools that it hides are still called by name."""

    def __init__(
        self,
        *,
        max_results: int = 5,
        always_visible: Sequence[str] | None = None,
        search_tool_name: str = "search_tools",
        call_tool_name: str = "call_tool",
        search_result_serializer: SearchResultSerializer | None = None,
    ) -> None:
        super().__init__()
        self._max_results = max_results
        self._always_visible = set(always_visible or ())
        self._search_tool_name, self._call_tool_name = search_tool_name, call_tool_name
        self._serialize = search_result_serializer or serialize_tools_for_output_json

    async def transform_tools(self, tools: Sequence[Any]) -> Sequence[Any]:
        """Return the tools that stay, the search tool and the call tool."""
        kept = [each for each in tools if each.name in self._always_visible]
        return [*kept, self._make_search_tool(), self._make_call_tool()]

    async def get_tool(self, name: str, call_next: GetToolNext, *, version: VersionSpec | None = None) -> Any:
        """Return the search tool, the call tool, or one of the others."""
        if name == self._search_tool_name:
            return self._make_search_tool()
        return self._make_call_tool() if name == self._call_tool_name else await call_next(name, version=version)

    def _make_search_tool(self) -> Tool:
        raise NotImplementedError

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        raise NotImplementedError

    async def _found(self, query: str) -> Any:
        catalog = await self.get_tool_catalog(get_context())
        hidden = [each for each in catalog if each.name not in self._always_visible]
        found = self._serialize(await self._search(hidden, query))
        return await found if inspect.isawaitable(found) else found

    def _make_call_tool(self) -> Tool:
        own = {self._call_tool_name, self._search_tool_name}

        async def call_tool(
            ctx: Context,
            name: Annotated[str, "The name of the tool to call"],
            arguments: Annotated[dict[str, Any] | None, "Arguments to pass to the tool"] = None,
        ) -> ToolResult:
            """Call a tool by name with the given arguments.

            Use this to execute tools discovered via search_tools.
            """
            if name in own:
                raise ValueError(f"'{name}' is a synthetic search tool and cannot be called via the call_tool proxy")
            found: ToolResult = await ctx.fastmcp.call_tool(name, arguments)
            return found

        return Tool.from_function(call_tool, name=self._call_tool_name)


class RegexSearchTransform(BaseSearchTransform):
    """Search by a regular expression, in time linear in the length of the texts."""

    def _make_search_tool(self) -> Tool:
        async def search_tools(
            pattern: Annotated[
                str,
                "Case-insensitive regex pattern for tool names, descriptions, and parameters, "
                "up to 1000 characters; lookarounds and backreferences are not supported",
            ],
        ) -> str | list[dict[str, Any]]:
            """Search for tools matching a regex pattern.

            Returns matching tool definitions in the same format as list_tools.
            Invalid, unsupported, or overlong patterns return an empty list.
            """
            return await self._found(pattern)  # type: ignore[no-any-return]

        return Tool.from_function(search_tools, name=self._search_tool_name)

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        if len(query) > MAX_PATTERN:
            return []
        try:
            schema = core_schema.str_schema(pattern=f"(?i){query}", regex_engine="rust-regex")
            validator = SchemaValidator(schema)
        except SchemaError:
            return []
        found: list[Tool] = []
        for tool in tools:
            try:
                validator.validate_python(_text_of(tool))
            except ValidationError:
                continue
            found.append(tool)
            if len(found) >= self._max_results:
                break
        return found


class BM25SearchTransform(BaseSearchTransform):
    """Search by words, with the most relevant tools first."""

    def _make_search_tool(self) -> Tool:
        async def search_tools(
            query: Annotated[str, "Natural language query to search for tools"],
        ) -> str | list[dict[str, Any]]:
            """Search for tools using natural language.

            Returns matching tool definitions ranked by relevance,
            in the same format as list_tools.
            """
            return await self._found(query)  # type: ignore[no-any-return]

        return Tool.from_function(search_tools, name=self._search_tool_name)

    async def _search(self, tools: Sequence[Tool], query: str) -> Sequence[Tool]:
        texts = [Counter(_words(_text_of(tool))) for tool in tools]
        average = sum(map(Counter.total, texts)) / len(texts) if texts else 0
        scores = [0.0] * len(texts)
        for word in _words(query):
            having = sum(word in text for text in texts)
            rarity = math.log((len(texts) - having + 0.5) / (having + 0.5) + 1)
            for index, text in enumerate(texts):
                if word in text:
                    length = 1 - LENGTH_WEIGHT + LENGTH_WEIGHT * text.total() / average
                    scores[index] += rarity * text[word] * (SATURATION + 1) / (text[word] + SATURATION * length)
        ranked = sorted(range(len(texts)), key=lambda index: -scores[index])
        return [tools[index] for index in ranked[: self._max_results] if scores[index] > 0]


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", text.lower()) if len(word) > 1]
