"""Tool metadata that a client needs for calls: custom headers from parameters, output schemas, and task support.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters
https://modelcontextprotocol.io/specification/2026-07-28/server/tools#output-schema
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from carrel.errors import ConfigError, InvalidMessage
from carrel.log import Log
from carrel.protocol.http import SAFE_INTEGER, encode_value, header_parameters
from carrel.wire.tools import CallToolResult, Tool

if TYPE_CHECKING:
    from carrel.protocol.json_schema import Validator

__all__ = ["KnownTools"]

log = Log("carrel.client")


class KnownTool(msgspec.Struct, eq=False):
    """Metadata of a listed tool. ``headers`` are paths of properties, by the header that mirrors them."""

    headers: Mapping[str, tuple[str, ...]]
    output_schema: dict[str, Any] | None
    tasks: str
    validator: Validator | None = None


class KnownTools:
    """Metadata of the tools that a server has listed, by name, with output schema validation."""

    def __init__(self) -> None:
        self._tools: dict[str, KnownTool] = {}
        self.complete = False
        """Whether all tools have been listed."""

    def forget(self) -> None:
        """Forget all tools, because the list has changed."""
        self._tools = {}
        self.complete = False

    def take(self, tools: Sequence[Tool], *, mirrored: bool) -> list[Tool]:
        """Store the metadata of tools, and return those that can be called.

        With ``mirrored``, parameters are mirrored in headers, and tools with invalid header annotations are left out.
        """
        usable: list[Tool] = []
        for tool in tools:
            try:
                headers = header_parameters(tool.input_schema) if mirrored else {}
            except ValueError as error:
                log.warning("the tool %s is left out: %s", tool.name, error)
                self._tools.pop(tool.name, None)
                continue
            self._tools[tool.name] = KnownTool(
                {name.decode(): path for name, path in headers.items()},
                None if tool.output_schema is UNSET else tool.output_schema,
                "forbidden" if tool.execution is UNSET else tool.execution.task_support or "forbidden",
            )
            usable.append(tool)
        return usable

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    def tasks(self, name: str) -> str | None:
        """Return the task support of a tool: "required", "optional", "forbidden"; None if the tool is not known."""
        tool = self._tools.get(name)
        return None if tool is None else tool.tasks

    def headers(self, name: str, arguments: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers that mirror the arguments of a call.

        Raises:
            ConfigError: an integer argument is outside the safe range, and so cannot be in a header.
        """
        tool = self._tools.get(name)
        if tool is None or not tool.headers:
            return {}
        found: dict[str, str] = {}
        for header, path in tool.headers.items():
            value: Any = arguments
            for step in path:
                value = value.get(step) if isinstance(value, Mapping) else None
            if isinstance(value, int) and abs(value) > SAFE_INTEGER:
                raise ConfigError(f"{'.'.join(path)} is repeated in a header, and goes to {SAFE_INTEGER} at most")
            if value is not None:
                found[header] = encode_value(value)
        return found

    def check(self, name: str, result: CallToolResult) -> None:
        """Validate a result against the output schema of its tool (JSON Schema), if that is known.

        Raises:
            InvalidMessage: it does not match.
        """
        tool = self._tools.get(name)
        if tool is None or tool.output_schema is None or result.is_error is True:
            return
        if result.structured_content is UNSET:
            raise InvalidMessage(f"The tool {name} has an output schema, and gave back no structured content")
        if tool.validator is None:
            from carrel.protocol.json_schema import Validator

            try:
                tool.validator = Validator(tool.output_schema, "result", foreign=True)
                tool.validator.check()
            except ConfigError as error:
                log.warning("the output schema of the tool %s is not used: %s", name, error)
                tool.output_schema = None
                return
        try:
            tool.validator.validate(result.structured_content)
        except ValueError as error:
            raise InvalidMessage(f"The result of the tool {name} is not what its output schema says: {error}") from None
