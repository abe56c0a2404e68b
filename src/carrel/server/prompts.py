"""Prompts of a server: registration, prompts/list and prompts/get.

https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, get_args

from carrel.awaitables import MaybeAwaitable
from carrel.errors import ConfigError, InvalidParams
from carrel.protocol.json_values import InvalidArguments
from carrel.protocol.methods import LIST_PROMPTS
from carrel.server.completion import CompletableFunction, Completers
from carrel.server.invocation import Function
from carrel.server.options import PromptOptions, check_options, details_of, name_of, visibility_of
from carrel.server.registry import ItemRegistry, RegisteredItem
from carrel.server.results import block_of
from carrel.wire.base import Result, Role
from carrel.wire.content import TextContent
from carrel.wire.prompts import GetPromptResult, Prompt, PromptArgument, PromptMessage

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call
    from carrel.server.runtime import Runtime

__all__ = ["Prompts", "messages_of", "unknown_prompt"]

P = ParamSpec("P")
R = TypeVar("R")
MESSAGES = "a prompt returns text, a content block, PromptMessages or a list of these"
ROLES: tuple[str, ...] = get_args(Role)


class RegisteredPrompt(RegisteredItem):
    function: Function
    completers: Completers


class Prompts(ItemRegistry[RegisteredPrompt]):
    """Registry of prompts, and handlers of their requests. ``app.prompts`` is one."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, LIST_PROMPTS)

    def add(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        replace: bool = False,
        **options: Unpack[PromptOptions],
    ) -> CompletableFunction[P, R]:
        """Register a function as a prompt, and notify clients that the list changed.

        Its parameters are the prompt's arguments. It returns text, a content block, ``PromptMessage``s or a mixture.
        For ``tags`` and ``when`` see ``tools.add``.

        Raises:
            ConfigError: the name is taken, and ``replace`` is not set.
        """
        check_options("prompts.add()", options, PromptOptions.__annotations__)
        name = name_of("prompt", function, name)
        if not replace:
            self.check_free(name)
        called = Function(self._runtime, function, f"prompt {name}")
        signature = called.signature
        if signature.returns_none:
            raise ConfigError(f"The prompt {name} is annotated to return None; {MESSAGES}")
        arguments = [
            PromptArgument(parameter.alias, description=parameter.description or None, required=parameter.required)
            for parameter in signature.parameters
        ]
        prompt = Prompt(name=name, arguments=arguments or None, **details_of(options, signature.description))
        completers = Completers(f"prompt {name}", [argument.name for argument in arguments], signature)
        self.put(name, RegisteredPrompt(called, completers, item=prompt, **visibility_of(options)))
        return CompletableFunction(function, completers)

    @property
    def completes(self) -> bool:
        """Whether any argument can be completed."""
        return any(entry.completers for entry in self.entries)

    def get(
        self, entry: RegisteredPrompt, given: Mapping[str, str], call: Call, channel: Channel
    ) -> MaybeAwaitable[Result]:
        """Return the messages of a prompt, or an awaitable of them.

        Raises:
            InvalidParams: the arguments are not valid.
        """
        signature = entry.function.signature
        try:
            arguments = signature.convert(given)
        except InvalidArguments as error:
            raise InvalidParams(f"Invalid params: {error}", parameter=error.parameter) from None
        value = entry.function.invoke(arguments, call, channel)
        if entry.function.immediate:
            return _result(value, entry.item)
        return self._get_later(value, entry.item)

    @staticmethod
    async def _get_later(pending: Any, prompt: Prompt) -> GetPromptResult:
        return _result(await pending, prompt)

    def known(self, name: str) -> RegisteredPrompt:
        """Return an enabled prompt.

        Raises:
            InvalidParams: there is no such prompt.
        """
        entry = self.entries.get(name)
        if entry is None:
            raise unknown_prompt(name)
        return entry


def unknown_prompt(name: str) -> InvalidParams:
    """Return the error for a prompt that does not exist."""
    return InvalidParams(f"Invalid params: unknown prompt: {name[:200]}", parameter="name")


def messages_of(value: Any) -> list[PromptMessage]:
    """Convert the return value of a prompt function to messages; content without a role is the user's.

    Raises:
        TypeError: a part of it cannot be turned into a message.
    """
    if isinstance(value, PromptMessage):
        return [_checked(value)]
    if isinstance(value, dict) and set(value) == {"role", "content"}:
        content = value["content"]
        block = TextContent(content) if isinstance(content, str) else block_of(content)
        return [_checked(PromptMessage(value["role"], block))]
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [message for item in value for message in messages_of(item)]
    return [PromptMessage("user", block_of(value))]


def _checked(message: PromptMessage) -> PromptMessage:
    if message.role not in ROLES:
        raise TypeError(f"the role of a message is {' or '.join(ROLES)}, not {message.role!r}")
    return message


def _result(value: Any, prompt: Prompt) -> GetPromptResult:
    if isinstance(value, GetPromptResult):
        return value
    if value is None:
        raise TypeError(f"The prompt {prompt.name} has returned None; {MESSAGES}")
    return GetPromptResult(description=prompt.description, messages=messages_of(value))
