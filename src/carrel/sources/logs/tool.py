"""Tool search_logs: entries by pattern, time and level, for hosts whose model cannot read resources."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw

from carrel.errors import InvalidParams, ResourceError, ToolError
from carrel.sources.logs.reader import RECENT
from carrel.uri.parse import UriError, percent_encode
from carrel.wire.content import TextContent
from carrel.wire.resources import TextResourceContents
from carrel.wire.tools import CallToolResult, Tool, ToolAnnotations

__all__ = ["SEARCH_LOGS", "search_logs"]


class LogsArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of search_logs."""

    match: str | None = None
    timeframe: str | None = None
    since: str | None = None
    until: str | None = None
    level: str | None = None
    log: str | None = None
    tail: int | None = None


def text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


SEARCH_LOGS = Tool(
    name="search_logs",
    title="Search logs",
    description="Find log entries by text, time and level. Without a time, entries of the last 15 minutes.",
    input_schema={
        "type": "object",
        "properties": {
            "match": text("Text, or a pattern (RE2), that an entry has to contain"),
            "timeframe": text("How far back, such as 5m, 2h or 1d"),
            "since": text("Earliest time, in ISO 8601"),
            "until": text("Latest time, in ISO 8601"),
            "level": text("Least level: trace, debug, info, notice, warning, error, critical, alert or emergency"),
            "log": text("Name of the one log to look at"),
            "tail": {"type": "integer", "minimum": 1, "description": "Return only so many of the newest entries"},
        },
        "additionalProperties": False,
    },
    annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
)


async def search_logs(arguments: Raw, read: Callable[[str], Awaitable[TextResourceContents]]) -> CallToolResult:
    """Search logs, as the arguments specify; ``read`` reads a URI.

    Raises:
        InvalidParams: the arguments do not match the schema.
        ToolError: there is no such log, level or time.
    """
    try:
        given = msgspec.json.decode(arguments, type=LogsArguments)
        query = "&".join(
            f"{name}={percent_encode(str(value))}"
            for name, value in msgspec.structs.asdict(given).items()
            if value is not None
        )
    except (msgspec.DecodeError, UriError) as error:
        raise InvalidParams(f"Invalid params: arguments: {error}", parameter="arguments") from None
    try:
        found = await read(f"{RECENT}?{query}" if query else RECENT)
    except (InvalidParams, ResourceError) as error:
        raise ToolError(error.message if isinstance(error, InvalidParams) else str(error)) from None
    return CallToolResult(content=[TextContent(found.text or "There are no such entries.\n")])
