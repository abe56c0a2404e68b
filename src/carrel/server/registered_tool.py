"""Registered tool: its function, how it is listed, and the validators of its arguments and results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from carrel.catalog.request import TaskSupport
from carrel.errors import ConfigError
from carrel.log import Log
from carrel.server.invocation import Function
from carrel.server.registry import RegisteredItem
from carrel.wire.tools import Tool, ToolExecution

if TYPE_CHECKING:
    from carrel.protocol.json_schema import Validator

__all__ = ["RegisteredTool"]

#: Types whose values always match the schema of the type, except NaN and infinity.
EXACT = (str, int, bool, float)
#: Keywords of an object schema that do not constrain its members.
ANY_OBJECT = {"type", "title", "description", "additionalProperties"}
log = Log("carrel")


class RegisteredTool(RegisteredItem):
    """A registered tool. Its wire form for tools/list is made on first use."""

    name: str
    details: dict[str, Any]
    function: Function
    structured: bool | None
    task: TaskSupport = "forbidden"
    detaches: bool = False
    mask_errors: bool = False
    """Whether exceptions other than ToolError are hidden from models."""
    input: Validator | None = None
    output: Validator | UnsetType | None = UNSET
    """Validator of results; UNSET until it is known whether the return annotation has a schema."""
    exact: type | None = None
    """A type whose values always fit their schema, and are not checked; NaN and infinity do not."""
    by_hand: bool = False
    """Whether the output schema was set explicitly, and describes unchanged results."""
    headers: Mapping[bytes, tuple[str, ...]] | None = None
    ui: dict[str, Any] | None = None
    """``_meta.ui``: the page that shows its results, and its visibility."""

    def describe(self) -> Tool:
        """Return the tool as it is listed."""
        if self.item is None:
            signature = self.function.signature
            output = self.find_output()
            self.details["description"] = self.details["description"] or signature.description
            self.item = Tool(
                name=self.name,
                input_schema=signature.input_schema if self.input is None else self.input.schema,
                output_schema=None if output is None else output.schema,
                execution=None if self.task == "forbidden" else ToolExecution(task_support=self.task),
                **self.details,
            )
        tool: Tool = self.item
        return tool

    def set_schemas(self, input_schema: dict[str, Any] | None, output_schema: dict[str, Any] | None) -> None:
        """Set explicit schemas, and run the checks that are possible at registration.

        Raises:
            ConfigError: a schema is not valid, contradicts another option, or is missing.
        """
        if input_schema is not None and input_schema.get("type") != "object":
            raise ConfigError(f'{self.name}: input_schema must have "type": "object"')
        if self.structured is False and output_schema is not None:
            raise ConfigError(f"{self.name}: structured=False and output_schema exclude each other")
        try:
            if input_schema is not None or output_schema is not None:
                from carrel.protocol.http import header_parameters
                from carrel.protocol.json_schema import Validator

                self.headers = None if input_schema is None else header_parameters(input_schema)
                self.input = None if input_schema is None else Validator(input_schema)
                self.output = UNSET if output_schema is None else Validator(output_schema, "result")
                self.by_hand = output_schema is not None and self.structured is not True
            if self.output is UNSET and self.function.signature.returns_nothing_known:
                self.output = None
            if self.structured:
                self.find_output()
        except (ConfigError, ValueError) as error:
            raise ConfigError(f"The tool {self.name}: {error}") from None

    def find_output(self) -> Validator | None:
        """Return the validator of results for the listed schema, or None without a schema.

        Raises:
            ConfigError: structured results were requested, and their type is unknown, or has no valid schema.
        """
        if self.output is UNSET:
            from carrel.protocol.json_schema import Validator

            signature = self.function.signature
            schema = signature.output_schema
            try:
                self.output = None if schema is None else Validator(schema, "result", foreign=True)
            except ConfigError as error:
                if self.structured:
                    raise
                log.warning("tool %s has no output schema: %s", self.name, error)
                self.output = None
            if schema is not None and self.output is not None:
                if signature.wraps and signature.returns in EXACT:
                    self.exact = signature.returns
                elif (
                    not signature.wraps
                    and schema.keys() <= ANY_OBJECT
                    and schema.get("additionalProperties", True) is True
                ):
                    self.exact = dict
        return self.output

    def header_parameters(self) -> Mapping[bytes, tuple[str, ...]]:
        """Return the arguments that HTTP requests repeat in headers."""
        if self.headers is None:
            from carrel.protocol.http import header_parameters

            self.headers = header_parameters(self.describe().input_schema)
        return self.headers
