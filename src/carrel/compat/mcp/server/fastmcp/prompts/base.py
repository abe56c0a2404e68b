"""Prompt: a function that returns messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, validate_call

from carrel.compat.mcp.server.fastmcp.context import find_context_parameter, inject_context
from carrel.compat.mcp.server.fastmcp.utilities.func_metadata import func_metadata
from carrel.compat.mcp.types import ContentBlock, TextContent
from carrel.compat.mcp.types.base import Icon

__all__ = ["AssistantMessage", "Message", "Prompt", "PromptArgument", "UserMessage"]


class Message(BaseModel):
    """Message of a prompt. Its content may be given as text."""

    model_config = ConfigDict(defer_build=True)

    role: Literal["user", "assistant"]
    content: ContentBlock

    def __init__(self, content: str | ContentBlock, **details: Any) -> None:
        block = TextContent(type="text", text=content) if isinstance(content, str) else content
        super().__init__(content=block, **details)


class UserMessage(Message):
    """Message of the user."""

    role: Literal["user", "assistant"] = "user"

    def __init__(self, content: str | ContentBlock, **details: Any) -> None:
        super().__init__(content, **details)


class AssistantMessage(Message):
    """Message of the assistant."""

    role: Literal["user", "assistant"] = "assistant"

    def __init__(self, content: str | ContentBlock, **details: Any) -> None:
        super().__init__(content, **details)


message_validator: TypeAdapter[UserMessage | AssistantMessage] = TypeAdapter(
    UserMessage | AssistantMessage, config=ConfigDict(defer_build=True)
)


class PromptArgument(BaseModel):
    """Argument of a prompt."""

    model_config = ConfigDict(defer_build=True)

    name: str
    description: str | None = None
    required: bool = False


class Prompt(BaseModel):
    """Function that returns the messages of a prompt: text, a message, a dict, or several of these."""

    model_config = ConfigDict(defer_build=True)

    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    fn: Callable[..., Any] = Field(exclude=True)
    icons: list[Icon] | None = None
    context_kwarg: str | None = Field(None, exclude=True)

    @classmethod
    def from_function(
        cls,
        fn: Callable[..., Any],
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[Icon] | None = None,
        context_kwarg: str | None = None,
    ) -> Prompt:
        """Return the prompt of a function.

        Raises:
            ValueError: it has no name.
        """
        named = name or fn.__name__
        if named == "<lambda>":
            raise ValueError("You must provide a name for lambda functions")
        parameter = context_kwarg or find_context_parameter(fn)
        schema = func_metadata(fn, () if parameter is None else (parameter,)).arg_model.model_json_schema()
        required = schema.get("required", ())
        arguments = [
            PromptArgument(name=key, description=details.get("description"), required=key in required)
            for key, details in schema.get("properties", {}).items()
        ]
        return cls(
            name=named,
            title=title,
            description=description or fn.__doc__ or "",
            arguments=arguments,
            fn=validate_call(fn),
            icons=icons,
            context_kwarg=parameter,
        )

    async def render(self, arguments: dict[str, Any] | None = None, context: Any = None) -> list[Message]:
        """Return the messages.

        Raises:
            ValueError: an argument is missing or wrong, or the function failed.
        """
        given = arguments or {}
        missing = {each.name for each in self.arguments or () if each.required} - set(given)
        if missing:
            raise ValueError(f"Missing required arguments: {missing}")
        try:
            result = self.fn(**inject_context(self.fn, given, context, self.context_kwarg))
            if inspect.iscoroutine(result):
                result = await result
            return [_message_of(each) for each in (result if isinstance(result, list | tuple) else [result])]
        except Exception as error:
            raise ValueError(f"Error rendering prompt {self.name}: {error}") from error


def _message_of(given: Any) -> Message:
    try:
        if isinstance(given, Message):
            return given
        if isinstance(given, dict):
            return message_validator.validate_python(given)
        if isinstance(given, str):
            return UserMessage(given)
        return Message(pydantic_core.to_json(given, fallback=str, indent=2).decode(), role="user")
    except Exception as error:
        raise ValueError(f"Could not convert prompt result to message: {given}") from error
