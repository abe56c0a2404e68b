"""Prompts of a server: registration, prompts/list and prompts/get.

https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, get_args

import msgspec

from carrel.catalog.ordered_list import OrderedList
from carrel.errors import ConfigError, InvalidParams
from carrel.protocol.json_values import InvalidArguments
from carrel.server.checks import name_of
from carrel.server.completion import CompletableFunction, Completers, Run
from carrel.server.invocation import Function
from carrel.server.metadata import Meta, icons_of, tagged, tags_of
from carrel.server.options import When
from carrel.server.results import block_of
from carrel.wire.base import Icon, Role
from carrel.wire.content import TextContent
from carrel.wire.prompts import GetPromptResult, Prompt, PromptArgument, PromptMessage

if TYPE_CHECKING:
    from carrel.protocol.channel import Channel
    from carrel.protocol.server import Call
    from carrel.server.runtime import Runtime
    from carrel.server.visibility import Switches

__all__ = ["Prompts", "messages_of", "unknown_prompt"]

P = ParamSpec("P")
R = TypeVar("R")
MESSAGES = "a prompt returns text, a content block, PromptMessages or a list of these"
ROLES: tuple[str, ...] = get_args(Role)


class RegisteredPrompt(msgspec.Struct, eq=False):
    prompt: Prompt
    function: Function
    completers: Completers
    tags: frozenset[str] = frozenset()
    when: When | None = None
    """Whether it exists for the caller of a request; None: for all."""


class Prompts:
    """Registry of prompts, and handlers of their requests. ``app.prompts`` is one."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.entries: OrderedList[RegisteredPrompt] = OrderedList()
        """Registered prompts, by name."""
        self.guarded = False
        """Whether any has a ``when``, so that lists depend on the caller."""
        self._switches: Switches[RegisteredPrompt] | None = None

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
        tags: Iterable[str] = (),
        when: When | None = None,
        replace: bool = False,
    ) -> CompletableFunction[P, R]:
        """Register a function as a prompt, and notify clients that the list changed.

        Its parameters are the prompt's arguments. It returns text, a content block, ``PromptMessage``s or a mixture.
        For ``tags`` and ``when`` see ``tools.add``.

        Raises:
            ConfigError: the name is taken, and ``replace`` is not set.
        """
        name = name_of("prompt", function, name)
        if (name in self.entries or (self._switches is not None and name in self._switches.off)) and not replace:
            raise ConfigError(f"There is a prompt {name} already")
        called = Function(self._runtime, function, f"prompt {name}")
        signature = called.signature
        if signature.returns_none:
            raise ConfigError(f"The prompt {name} is annotated to return None; {MESSAGES}")
        arguments = [
            PromptArgument(parameter.alias, description=parameter.description or None, required=parameter.required)
            for parameter in signature.parameters
        ]
        prompt = Prompt(
            name=name,
            title=title,
            description=description or signature.description,
            arguments=arguments or None,
            icons=icons_of(icons),
            meta=tagged(meta, labels := tags_of(tags)),
        )
        choices = {parameter.alias: signature.choices(parameter) for parameter in signature.parameters}
        completers = Completers({argument: values for argument, values in choices.items() if values})
        self.guarded = self.guarded or when is not None
        self._put(name, RegisteredPrompt(prompt, called, completers, labels, when))
        return CompletableFunction(function, completers, [argument.name for argument in arguments])

    def remove(self, name: str) -> None:
        """Remove a prompt, and notify clients that the list changed.

        Raises:
            KeyError: no such name.
        """
        if self._switches is None:
            self.entries.remove(name)
        else:
            self._switches.remove(name)
        self._changed((name,))

    def disable(self, *names: str, tags: Iterable[str] = ()) -> None:
        """Disable prompts by name, or all prompts with one of ``tags``, including later additions.

        Clients see them as missing until they are enabled again, and are notified that the list changed.

        Raises:
            KeyError: no such name.
        """
        self._switch().disable(names, tags_of(tags))

    def enable(self, *names: str, tags: Iterable[str] = ()) -> None:
        """Enable prompts that were disabled by the same name or tags.

        Raises:
            KeyError: no such name.
        """
        self._switch().enable(names, tags_of(tags))

    def _switch(self) -> Switches[RegisteredPrompt]:
        if self._switches is None:
            from carrel.server.visibility import Switches  # few servers disable anything

            self._switches = Switches(self.entries, self._changed)
        return self._switches

    def _changed(self, names: Iterable[str]) -> None:
        self._runtime.notify(lists={"prompts_list_changed": names})

    def _put(self, name: str, entry: RegisteredPrompt) -> None:
        if self._switches is None:
            self.entries.put(name, entry)
        else:
            self._switches.put(name, entry)
        self._changed((name,))

    @property
    def completes(self) -> bool:
        """Whether any argument can be completed."""
        return any(entry.completers for entry in self.entries)

    def get(self, name: str, given: Mapping[str, str], call: Call, channel: Channel) -> Any:
        """Return the messages of a prompt, or an awaitable of them.

        Raises:
            InvalidParams: there is no such prompt, or the arguments are not valid.
        """
        entry = self.find(name)
        signature = entry.function.signature
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
        entry = self.find(name)
        names = [parameter.alias for parameter in entry.function.signature.parameters]
        if argument not in names:
            raise InvalidParams(
                f"Invalid params: prompt {name} has no argument {argument[:200]!r}", parameter="argument"
            )
        return entry.completers.suggest(argument, value, dict(context), run)

    def find(self, name: str) -> RegisteredPrompt:
        """Return a prompt.

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
