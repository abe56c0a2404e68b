"""Prompts of servers as commands: ``/server:prompt name=value …``, and ``/prompt`` where one server alone has it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from carrel.chat.attachments import BUDGET
from carrel.chat.contents import plain_block
from carrel.errors import ConfigError
from carrel.host import Host
from carrel.near_names import did_you_mean
from carrel.wire.client_features import SamplingMessage
from carrel.wire.prompts import Prompt

__all__ = ["PromptCall", "check_arguments", "find_prompt", "get_prompt_messages", "read_pairs"]


class PromptCall(NamedTuple):
    """Prompt of a server, as a command names it."""

    server: str
    prompt: Prompt


async def find_prompt(host: Host, name: str) -> PromptCall | None:
    """Return the prompt that ``server:prompt`` or ``prompt`` names, or None.

    Raises:
        ConfigError: several servers have a prompt of that name.
    """
    listed = await host.list_prompts()
    for one in listed:
        if name == f"{one.server}:{one.item.name}":
            return PromptCall(one.server, one.item)
    found = [PromptCall(one.server, one.item) for one in listed if one.item.name == name]
    if len(found) > 1:
        names = " or ".join(f"/{one.server}:{name}" for one in found)
        raise ConfigError(f"several servers have a prompt {name!r}: write {names}")
    return found[0] if found else None


def read_pairs(text: str) -> dict[str, str]:
    """Return arguments that are written as ``name=value``, with quotes as in a shell.

    Raises:
        ConfigError: a quote is not closed, or a word is no such pair.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{text!r}: {error}".lower()) from None
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise ConfigError(f"{word!r} is not an argument: write name=value, and quote values with spaces")
        pairs[name] = value
    return pairs


def check_arguments(prompt: Prompt, values: Mapping[str, str]) -> list[str]:
    """Return the names of the required arguments that are missing.

    Raises:
        ConfigError: there is no such argument.
    """
    known = [argument.name for argument in prompt.arguments or ()]
    for name in values:
        if name not in known:
            hint = did_you_mean(name, known) or f"; it has {', '.join(known) or 'none'}"
            raise ConfigError(f"{prompt.name} has no argument {name!r}{hint}")
    return [one.name for one in prompt.arguments or () if one.required and one.name not in values]


async def get_prompt_messages(host: Host, call: PromptCall, values: Mapping[str, str]) -> Sequence[SamplingMessage]:
    """Get a prompt, and return its messages as conversation messages.

    Raises:
        MCPError: the server refuses, or has no such prompt any more.
    """
    result = await host.get_prompt(call.server, call.prompt.name, dict(values))
    return [
        SamplingMessage(role=message.role, content=[plain_block(call.server, message.content, BUDGET)])
        for message in result.messages
    ]
