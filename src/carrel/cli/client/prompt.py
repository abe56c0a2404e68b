"""``carrel prompt``: shows the messages of a prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from carrel.cli.client.call import described
from carrel.cli.client.connection import ask, read_target, shown
from carrel.cli.client.named import named_parser, unlisted
from carrel.cli.options import Parser
from carrel.cli.terminal.output import bold, write_json, write_text
from carrel.errors import ConfigError
from carrel.near_names import near

if TYPE_CHECKING:
    from carrel.client.client import Client
    from carrel.wire.prompts import Prompt

__all__ = ["parser", "run"]

SUMMARY = "Show the messages of a prompt, with its arguments filled in."
EXAMPLES = """\
examples:
  carrel prompt server.py review code='x = 1'
  carrel prompt review code='x = 1' --json -- npx -y some-server
"""


def parser() -> Parser:
    """Return the argument parser of ``carrel prompt``."""
    about = "text arguments"
    return named_parser("prompt", SUMMARY, EXAMPLES, "prompt", "the name of the prompt", arguments=about)


def run(arguments: list[str]) -> int:
    """Run ``carrel prompt`` and return the exit code: 0, 1 if the server returns an error, 3 without a connection.

    Raises:
        ConfigError: there is no such prompt, or the arguments are invalid.
    """
    options, target = read_target(parser(), arguments)
    values = dict(split_pair(pair) for pair in options.arguments)

    async def show(client: Client) -> int:
        prompts = {prompt.name: prompt for prompt in await client.list_prompts()}
        if options.prompt in prompts:
            check(prompts[options.prompt], values)
        with unlisted(target, "prompt", options.prompt, prompts):
            result = await client.get_prompt(options.prompt, values or None)
        if options.json:
            write_json(result)
            return 0
        for message in result.messages:
            write_text(bold(f"[{message.role}]"), escape=False)
            write_text(described(message.content))
        return 0

    return ask(target, options, show)


def split_pair(pair: str) -> tuple[str, str]:
    """Split ``key=value``.

    Raises:
        ConfigError: there is no "=".
    """
    key, equals, value = pair.partition("=")
    if not equals or not key:
        raise ConfigError(f"{pair!r} is not an argument: write key=value")
    return key, value


def check(prompt: Prompt, values: dict[str, str]) -> None:
    """Check the arguments of a prompt.

    Raises:
        ConfigError: an argument is missing or unknown.
    """
    known = {argument.name: argument for argument in prompt.arguments or ()}
    unknown = next((key for key in values if key not in known), None)
    if unknown is not None:
        raise ConfigError(f"{prompt.name} has no argument {unknown!r}{near(unknown, known)}")
    missing = [name for name, argument in known.items() if argument.required and name not in values]
    if missing:
        raise ConfigError(f"{prompt.name} needs {shown(', '.join(missing))}")
