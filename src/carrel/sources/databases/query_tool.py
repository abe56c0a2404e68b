"""Tool that runs a read-only SQL query. It is disabled unless the option ``query`` enables it."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import msgspec

from carrel.errors import InvalidParams, ToolError
from carrel.sources.databases.failure import DatabaseFailed, StatementRejected, TooMuch
from carrel.sources.databases.queries import run_query
from carrel.sources.databases.reader import DatabaseReader
from carrel.sources.databases.render import FORMATS, QueryResult, RenderOptions, render_rows
from carrel.sources.databases.shared_tables import check_shared
from carrel.sources.databases.statements import check_statement
from carrel.wire.content import TextContent
from carrel.wire.tools import CallToolResult, Tool, ToolAnnotations

__all__ = ["call_query_tool", "query_tool", "tool_name"]


class QueryArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of the tool."""

    sql: str
    limit: int | None = None
    format: str = "markdown"


def tool_name(name: str) -> str:
    """Return the name of the tool for a database."""
    return f"query_{re.sub('[^A-Za-z0-9_-]', '_', name)}"[:64]


def query_tool(reader: DatabaseReader, name: str) -> Tool:
    """Return the tool as it is listed."""
    options = reader.database.options
    product = reader.database.product
    return Tool(
        name=tool_name(name),
        title=f"Query {name}",
        description=(
            f"Run one read-only SQL query (SELECT or WITH … SELECT) in the {product} database {name}. Its tables are "
            f"described in the resource {reader.base}/schema. At most {options.max_rows:,} rows and "
            f"{options.time_limit:g} seconds."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "sql": {"type": "string", "description": f"one query in the SQL of {product}"},
                "limit": {"type": "integer", "minimum": 1, "maximum": options.max_rows, "description": "most rows"},
                "format": {"type": "string", "enum": ["markdown", "json", "csv"], "default": "markdown"},
            },
            "required": ["sql"],
            "additionalProperties": False,
        },
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
    )


async def call_query_tool(reader: DatabaseReader, arguments: msgspec.Raw, client: str) -> CallToolResult:
    """Run a query.

    Raises:
        InvalidParams: the arguments are not valid.
        ToolError: the statement is rejected or fails, and why.
    """
    options = reader.database.options
    try:
        given = msgspec.json.decode(arguments, type=QueryArguments)
    except msgspec.DecodeError as error:
        raise InvalidParams(f"Invalid params: arguments: {error}", parameter="arguments") from None
    if given.format not in FORMATS:
        raise InvalidParams(f"Invalid params: format: one of {', '.join(FORMATS)}", parameter="format")
    limit = options.max_rows if given.limit is None else given.limit
    if not 1 <= limit <= options.max_rows:
        raise InvalidParams(f"Invalid params: limit: a number from 1 to {options.max_rows:,}", parameter="limit")
    try:
        statement = check_statement(given.sql, reader.database.sqlglot, allowed=options.allow_functions)
        catalog = await reader.catalog(client, "schema", "sample")
        check_shared(statement.tables, catalog, reader.database.sqlglot)
        read = partial(
            run_query,
            statement=statement,
            values={},
            limit=limit,
            max_bytes=options.max_bytes,
            catalog=catalog,
        )
        job = partial(render_rows, read=read, options=RenderOptions(given.format, {}, more=True))
        text = (await reader.processes.run(client, job, QueryResult)).text
    except StatementRejected as error:
        raise ToolError(f"Refused: {error}") from None
    except DatabaseFailed as error:
        raise ToolError(f"The database reported: {error}") from None
    except TooMuch as error:
        raise ToolError(
            f"The rows are over the limit of {options.max_bytes:,} bytes; the first {error.fitting:,} are within it. "
            "Request fewer rows or columns"
        ) from None
    if given.format != "json":
        return CallToolResult(content=[TextContent(text)])
    structured: Any = msgspec.Raw(text.encode())
    return CallToolResult(content=[TextContent(text)], structured_content=structured)
