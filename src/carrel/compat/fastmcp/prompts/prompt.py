"""Prompt: messages for the arguments of a client."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import pydantic
import pydantic_core
from pydantic import BaseModel, Field, TypeAdapter

from carrel.compat.fastmcp.decorators import DecoratedPrompt, PromptMeta, get_fastmcp_meta, marking
from carrel.compat.fastmcp.exceptions import FastMCPError, PromptError, ValidationError
from carrel.compat.fastmcp.utilities.components import FastMCPComponent, read_model
from carrel.compat.fastmcp.utilities.functions import Callee
from carrel.compat.fastmcp.utilities.json_schema import compress_schema
from carrel.compat.fastmcp.utilities.tasks import TaskConfig
from carrel.compat.generation import fastmcp_generation
from carrel.compat.mcp.types import ContentBlock, GetPromptResult, PromptMessage, TextContent
from carrel.compat.mcp.types import Prompt as MCPPrompt
from carrel.compat.mcp.types import PromptArgument as MCPPromptArgument

__all__ = [
    "DecoratedPrompt",
    "FunctionPrompt",
    "Message",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "PromptResult",
    "prompt",
]

NOTE = "Provide as a JSON string matching the following schema: {}"
NOTE_OF_4 = "Provide a value matching the following JSON schema: {}. Encode non-string values as JSON."


class Message(BaseModel):
    """Message of a prompt: text, a content block, or anything else, which becomes JSON."""

    role: Literal["user", "assistant"]
    content: ContentBlock

    def __init__(self, content: Any, role: Literal["user", "assistant"] = "user") -> None:
        if not isinstance(content, BaseModel) or not hasattr(content, "type"):
            text = content if isinstance(content, str) else pydantic_core.to_json(content, fallback=str).decode()
            content = TextContent(type="text", text=text)
        super().__init__(role=role, content=read_model(content))

    def to_mcp_prompt_message(self) -> PromptMessage:
        """Return the message in the terms of the protocol."""
        return PromptMessage(role=self.role, content=self.content)


class PromptArgument(BaseModel):
    """Argument of a prompt."""

    name: str
    description: str | None = None
    required: bool = False


class PromptResult(BaseModel):
    """Messages of a prompt, with a description and ``_meta``.

    Raises:
        TypeError: the messages are neither text nor a list of ``Message``.
    """

    messages: list[Message]
    description: str | None = None
    meta: dict[str, Any] | None = None

    def __init__(self, messages: Any, description: str | None = None, meta: dict[str, Any] | None = None) -> None:
        if isinstance(messages, str):
            messages = [Message(messages)]
        if not isinstance(messages, list):
            raise TypeError(f"messages must be str or list[Message], got {type(messages).__name__}")
        for index, each in enumerate(messages):
            if not isinstance(each, Message):
                raise TypeError(
                    f"messages[{index}] must be Message, got {type(each).__name__}. "
                    f"Use Message({each!r}) to wrap the value."
                )
        super().__init__(messages=messages, description=description, meta=meta)

    def to_mcp_prompt_result(self) -> GetPromptResult:
        """Return the result in the terms of the protocol."""
        details: dict[str, Any] = {} if self.meta is None else {"_meta": self.meta}
        messages = [each.to_mcp_prompt_message() for each in self.messages]
        return GetPromptResult(description=self.description, messages=messages, **details)


class Prompt(FastMCPComponent):
    """Messages for the arguments of a client. Subclasses have ``render``."""

    KEY_PREFIX: ClassVar[str] = "prompt"

    arguments: list[PromptArgument] | None = None

    @classmethod
    def from_function(cls, fn: Callable[..., Any], **details: Any) -> FunctionPrompt:
        """Return the prompt of a function."""
        return FunctionPrompt.from_function(fn, **details)

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Return the messages."""
        raise NotImplementedError("Subclasses must implement render()")

    def convert_result(self, value: Any) -> PromptResult:
        """Convert the return value of a prompt's function to a result.

        Raises:
            TypeError: the value is not text, a message, a list of these or a result.
        """
        if isinstance(value, PromptResult):
            return value
        if isinstance(value, str | Message | PromptMessage):
            value = [value]
        if not isinstance(value, list | tuple):
            raise TypeError(f"Prompt must return str, list[Message], or PromptResult, got {type(value).__name__}")
        messages = [_message_of(index, each) for index, each in enumerate(value)]
        return PromptResult(messages, self.description, self.meta)

    def to_mcp_prompt(self, **changes: Any) -> MCPPrompt:
        """Return the prompt as it is listed."""
        fields: dict[str, Any] = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "arguments": [
                MCPPromptArgument(name=each.name, description=each.description, required=each.required)
                for each in self.arguments or ()
            ],
            "icons": self.icons,
            "_meta": self.get_meta(),
        }
        return MCPPrompt(**{**fields, **changes})


def _message_of(index: int, given: Any) -> Message:
    if isinstance(given, Message):
        return given
    if isinstance(given, PromptMessage):
        return Message(given.content, given.role)
    if isinstance(given, str):
        return Message(given)
    raise TypeError(
        f"messages[{index}] must be Message or str, got {type(given).__name__}. "
        f"Use Message({given!r}) to wrap the value."
    )


class FunctionPrompt(Prompt):
    """Prompt of a function. Arguments that are no text come as JSON in a string."""

    fn: Callable[..., Any] = Field(exclude=True)
    callee: Any = Field(default=None, exclude=True)

    def model_post_init(self, context: Any, /) -> None:
        """Take the function as it was given, if there is no more about it."""
        super().model_post_init(context)
        self.callee = self.callee or Callee(self.fn)

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        *,
        metadata: PromptMeta | None = None,
        **details: Any,
    ) -> FunctionPrompt:
        """Return the prompt of a function.

        Raises:
            TypeError: both ``metadata`` and details are given.
            ValueError: it has no name, or takes any number of arguments.
        """
        given = {key: each for key, each in details.items() if each is not None}
        if metadata is not None and given:
            raise TypeError(
                "Cannot pass both 'metadata' and individual parameters to from_function(). Use one of them."
            )
        mark = metadata if metadata is not None or given else get_fastmcp_meta(fn)
        given = mark.details if isinstance(mark, PromptMeta) else given
        name, description, task = (given.pop(key, None) for key in ("name", "description", "task"))
        for each in inspect.signature(fn).parameters.values():
            if each.kind is each.VAR_POSITIONAL:
                raise ValueError("Functions with *args are not supported as prompts")
            if each.kind is each.VAR_KEYWORD:
                raise ValueError("Functions with **kwargs are not supported as prompts")
        callee = Callee(fn)
        mode = TaskConfig.of(task)
        mode.validate_function(callee.function, name or callee.name)
        if (name or callee.name) == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        schema = callee.described(compress_schema(callee.schema(), prune_titles=True))
        required = schema.get("required", ())
        arguments = [
            PromptArgument(name=key, description=_describe(callee.hints.get(key), field), required=key in required)
            for key, field in schema.get("properties", {}).items()
        ]
        return cls(
            fn=callee.function,
            callee=callee,
            name=name or callee.name,
            description=callee.description if description is None else description,
            arguments=arguments,
            task_config=mode,
            **given,
        )

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Return the messages.

        Raises:
            PromptError: an argument is wrong, or the function failed.
            ValidationError: an argument is missing (in version 3 a ValueError).
        """
        given = arguments or {}
        missing = {each.name for each in self.arguments or () if each.required} - set(given)
        if missing:
            raise (ValidationError if fastmcp_generation() > 3 else ValueError)(
                f"Missing required arguments: {missing}"
            )
        callee: Callee = self.callee
        try:
            values = {name: self._converted(name, value) for name, value in given.items() if name in callee.parameters}
            return self.convert_result(await callee.call(callee.adapter.validate_python(values)))
        except Exception as error:
            if fastmcp_generation() == 2:
                raise PromptError(f"Error rendering prompt {self.name}.") from error
            if isinstance(error, FastMCPError):
                raise
            raise PromptError(f"Error rendering prompt {self.name!r}: {error}") from error

    def _converted(self, name: str, value: Any) -> Any:
        kind = self.callee.hints.get(name, str)
        if kind is str or not isinstance(value, str):
            return value
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        try:
            if fastmcp_generation() > 3:
                return _read_text(adapter, value)
            try:
                return adapter.validate_json(value)
            except pydantic.ValidationError:
                return adapter.validate_python(value)
        except pydantic.ValidationError as error:
            raise PromptError(
                f"Could not convert argument '{name}' with value '{value}' to expected type {kind}. Error: {error}"
            ) from error


def _read_text(adapter: TypeAdapter[Any], text: str) -> Any:
    """Return the value that FastMCP 4 gives to an argument: text if the type takes text, or else a value of JSON.

    Raises:
        pydantic.ValidationError: it is neither.
    """
    try:
        found = adapter.validate_python(text)
    except pydantic.ValidationError:
        return adapter.validate_json(text)
    if isinstance(found, str):
        return found
    try:
        return adapter.validate_json(text)
    except pydantic.ValidationError:
        return found


def _describe(kind: Any, field: dict[str, Any]) -> str | None:
    """Return the description of an argument, with the schema of one that is no text."""
    told: str | None = field.get("description")
    if kind in (None, str):
        return told
    schema = json.dumps(TypeAdapter(kind).json_schema(), separators=(",", ":"))
    note = (NOTE_OF_4 if fastmcp_generation() > 3 else NOTE).format(schema)
    return f"{told}\n\n{note}" if told else note


def prompt(name_or_fn: Any = None, *, name: str | None = None, **details: Any) -> Any:
    """Mark the decorated function as a prompt, for ``add_prompt``.

    Raises:
        TypeError: the function is a class method, or there are two names.
    """
    return marking(functools.partial(PromptMeta, **details), name_or_fn, name)
