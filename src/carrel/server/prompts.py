"""Prompts of a server: registration, prompts/list and prompts/get.

https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, get_args

import msgspec

from carrel.catalog.listing import Listing
from carrel.errors import ConfigError, InvalidParams
from carrel.protocol.json_values import InvalidArguments
from carrel.server.completion import CompletableFunction, Completers, Run
from carrel.server.invocation import Function
from carrel.server.metadata import Meta, icons_of
from carrel.server.tools import block_of
from carrel.wire.base import Icon, Role
from carrel.wire.content import TextContent
from carrel.wire.prompts import GetPromptResult, Prompt, PromptArgument, PromptMessage

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call
    from carrel.server.runtime import Runtime

__all__ = ["Prompts", "messages_of"]

P = ParamSpec("P")
R = TypeVar("R")
ROLES: tuple[str, ...] = get_args(Role)


class RegisteredPrompt(msgspec.Struct, eq=False):
    prompt: Prompt
    function: Function
    completers: Completers


class Prompts:
    """Registry of prompts, and handlers of their requests. ``app.prompts`` is one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.entries: Listing[RegisteredPrompt] = Listing()
        """Registered prompts, by name."""

    @property
    def used(self) -> bool:
        """Whether anything was ever registered."""
        return bool(self.entries.changes)

    def add(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Iterable[Icon | dict[str, Any] | str] | None = None,
        meta: Meta | None = None,
        replace: bool = False,
    ) -> CompletableFunction[P, R]:
        """Register a function as a prompt, and notify clients that the list changed.

        Its parameters are the prompt's arguments. It returns text, a content block, ``PromptMessage``s or a mixture.

        Raises:
            ConfigError: the name is taken, and ``replace`` is not set.
        """
        name = name or str(getattr(function, "__name__", type(function).__name__))
        if name in self.entries and not replace:
            raise ConfigError(f"There is a prompt {name} already")
        called = Function(self._runtime, function, f"prompt {name}")
        signature = called.signature
        arguments = [
            PromptArgument(parameter.name, description=parameter.description or None, required=parameter.required)
            for parameter in signature.parameters
        ]
        prompt = Prompt(
            name=name,
            title=title,
            description=description or signature.description,
            arguments=arguments or None,
            icons=icons_of(icons),
            meta=meta,
        )
        choices = {parameter.name: signature.choices(parameter) for parameter in signature.parameters}
        completers = Completers({argument: values for argument, values in choices.items() if values})
        self.entries.put(name, RegisteredPrompt(prompt, called, completers))
        self._runtime.announce(lists=("prompts_list_changed",))
        return CompletableFunction(function, completers, [argument.name for argument in arguments])

    def remove(self, name: str) -> None:
        """Remove a prompt, and notify clients that the list changed.

        Raises:
            KeyError: there is none of that name.
        """
        self.entries.remove(name)
        self._runtime.announce(lists=("prompts_list_changed",))

    @property
    def completes(self) -> bool:
        """Whether any argument can be completed."""
        return any(entry.completers for entry in self.entries)

    def get(self, name: str, given: Mapping[str, str], call: Call, channel: Channel) -> Any:
        """Return the messages of a prompt, or an awaitable of them.

        Raises:
            InvalidParams: there is no such prompt, or the arguments are not valid.
        """
        entry = self._find(name)
        signature = entry.function.signature
        names = [parameter.name for parameter in signature.parameters]
        missing = [item.name for item in signature.parameters if item.required and item.name not in given]
        unknown = [name for name in given if name not in names] if not signature.open else []
        if missing:
            raise InvalidParams(f"Invalid params: missing required argument {missing[0]}", parameter=missing[0])
        if unknown:
            raise InvalidParams(f"Invalid params: unknown argument {unknown[0][:200]!r}", parameter=unknown[0])
        try:
            arguments = signature.convert(given)
        except InvalidArguments as error:
            raise InvalidParams(f"Invalid params: {error}", parameter=error.parameter) from None
        value = entry.function.invoke(arguments, call, channel)
        if entry.function.immediate:
            return _result(value, entry.prompt)
        return self._get_later(value, entry.prompt)

    @staticmethod
    async def _get_later(pending: Any, prompt: Prompt) -> GetPromptResult:
        return _result(await pending, prompt)

    def suggest(self, name: str, argument: str, value: str, context: Mapping[str, str], run: Run) -> Any:
        """Return suggestions for an argument of a prompt, or an awaitable of them.

        Raises:
            InvalidParams: there is no such prompt or argument.
        """
        entry = self._find(name)
        names = [parameter.name for parameter in entry.function.signature.parameters]
        if argument not in names:
            raise InvalidParams(
                f"Invalid params: prompt {name} has no argument {argument[:200]!r}", parameter="argument"
            )
        return entry.completers.suggest(argument, value, dict(context), run)

    def _find(self, name: str) -> RegisteredPrompt:
        entry = self.entries.get(name)
        if entry is None:
            raise InvalidParams(f"Invalid params: unknown prompt: {name[:200]}", parameter="name")
        return entry


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
    return GetPromptResult(description=prompt.description, messages=messages_of(value))
