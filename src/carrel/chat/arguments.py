"""Arguments of tool uses: the JSON that a model wrote, and the tool error for malformed JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from carrel.printable import printable
from carrel.vendors.declaration import Declaration
from carrel.wire.client_features import ToolResultContent, ToolUseContent
from carrel.wire.content import TextContent

__all__ = ["argument_error", "tool_use"]

#: Key of ``meta``: why the arguments of a tool use are malformed.
UNREADABLE = "carrel/unreadableArguments"
#: Characters of the model's own text in the error.
QUOTED = 300


def tool_use(
    id: str,
    name: str,
    written: str,
    declared: Mapping[str, Declaration],
    *,
    truncated: bool = False,
    meta: Mapping[str, Any] | None = None,
) -> ToolUseContent:
    """Return a tool use with the arguments that a model wrote, under the names that the server knows.

    If the arguments are not a JSON object, they are empty, and ``argument_error`` returns the tool error.
    ``truncated``: the response ended at the token limit.
    """
    noted = dict(meta or {})
    arguments: dict[str, Any] = {}
    try:
        found = json.loads(written) if written.strip() else {}
        if isinstance(found, dict):
            arguments = found
        else:
            noted[UNREADABLE] = f"they are {json.dumps(found)[:QUOTED]}, not an object"
    except (ValueError, RecursionError) as error:
        why = (
            "the answer was cut off at the limit of tokens" if truncated else getattr(error, "msg", "nested too deeply")
        )
        noted[UNREADABLE] = f"they are not valid JSON: {why}. You wrote: {printable(written, QUOTED)}"
    if declaration := declared.get(name):
        arguments = declaration.arguments(arguments)
    return ToolUseContent(id=id, name=name, input=arguments, meta=noted or None)


def argument_error(use: ToolUseContent) -> ToolResultContent | None:
    """Return the result for a tool use that must not be called, as its arguments could not be read; else None."""
    reason = (use.meta or {}).get(UNREADABLE)
    if reason is None:
        return None
    text = f"The arguments of {use.name} cannot be read: {reason}. The tool was not called; call it again."
    return ToolResultContent(tool_use_id=use.id, content=[TextContent(text=text)], is_error=True)
