"""Prompts: functions that return messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, validate_call

from carrel.compat.mcp2 import types
from carrel.compat.mcp2.server.mcpserver.utilities.context_injection import find_context_parameter, inject_context
from carrel.compat.mcp2.server.mcpserver.utilities.func_metadata import content_of, func_metadata
from carrel.compat.mcp2.server.mcpserver.utilities.functions import call_function, name_of
from carrel.compat.mcp2.server.mcpserver.utilities.types import Audio, Image
from carrel.compat.mcp2.shared.exceptions import MCPError
from carrel.compat.mcp2.types.base import InputRequired

if TYPE_CHECKING:
    from carrel.compat.mcp2.server.mcpserver.context import Context

__all__ = ["AssistantMessage", "Message", "Prompt", "PromptArgument", "UserMessage", "message_validator"]

#: For pydantic, which reads annotations at run time.
ContentBlock: Any = types.ContentBlock
Icon: Any = types.Icon


class Message(BaseModel):
    """Message of a prompt. A text, an image or audio becomes a content block."""

    model_config = ConfigDict(defer_build=True)

    role: Literal["user", "assistant"]
    content: ContentBlock

    def __init__(self, content: Any, **kwargs: Any) -> None:
        if isinstance(content, str | Image | Audio):
            content = content_of(content)[0]
        super().__init__(content=content, **kwargs)


class UserMessage(Message):
    """Message of the user."""

    role: Literal["user", "assistant"] = "user"

    def __init__(self, content: Any, **kwargs: Any) -> None:
        super().__init__(content=content, **kwargs)


class AssistantMessage(Message):
    """Message of the model."""

    role: Literal["user", "assistant"] = "assistant"

    def __init__(self, content: Any, **kwargs: Any) -> None:
        super().__init__(content=content, **kwargs)


message_validator: TypeAdapter[UserMessage | AssistantMessage] = TypeAdapter(
    Annotated[UserMessage | AssistantMessage, Field(union_mode="left_to_right")],
    config=ConfigDict(defer_build=True),
)


class PromptArgument(BaseModel):
    """Argument of a prompt."""

    model_config = ConfigDict(defer_build=True)

    name: str
    description: str | None = None
    required: bool = False


class Prompt(BaseModel):
    """Prompt of a server."""

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
        icons: list[types.Icon] | None = None,
        context_kwarg: str | None = None,
    ) -> Prompt:
        """Return the prompt of a function, which returns messages, content, texts, or several of them."""
        found = name_of(fn, name)
        context_kwarg = context_kwarg or find_context_parameter(fn)
        skipped = [] if context_kwarg is None else [context_kwarg]
        schema = func_metadata(fn, skipped, structured_output=False).arg_model.model_json_schema()
        required = schema.get("required", [])
        arguments = [
            PromptArgument(name=each, description=field.get("description"), required=each in required)
            for each, field in schema.get("properties", {}).items()
        ]
        return cls(
            name=found,
            title=title,
            description=description or fn.__doc__ or "",
            arguments=arguments,
            fn=validate_call(fn),
            icons=icons,
            context_kwarg=context_kwarg,
        )

    async def render(self, arguments: dict[str, Any] | None, context: Context[Any, Any]) -> Any:
        """Return the messages of the prompt, or its questions to the client.

        Raises:
            ValueError: an argument is missing, or the function failed.
        """
        missing = {each.name for each in self.arguments or () if each.required} - set(arguments or {})
        if missing:
            raise ValueError(f"Missing required arguments: {missing}")
        try:
            given = inject_context(self.fn, arguments or {}, context, self.context_kwarg)
            result = await call_function(self.fn, given)
            if isinstance(result, InputRequired):
                return result
            return [_message_of(each) for each in (result if isinstance(result, list | tuple) else [result])]
        except MCPError:
            raise
        except Exception as error:
            raise ValueError(f"Error rendering prompt {self.name}") from error


def _message_of(given: Any) -> Message:
    if isinstance(given, Message):
        return given
    if isinstance(given, dict):
        return message_validator.validate_python(given)
    if isinstance(given, str | Image | Audio | types.ContentBlock):
        return UserMessage(given)
    return Message(role="user", content=pydantic_core.to_json(given, fallback=str, indent=2).decode())
