"""Completion candidates for a command line: server names, and a server's tools, prompts, URIs and arguments.

The scripts of ``carrel completion`` request them while a command line is typed. The server must respond within a few
seconds. After any error there are no candidates, because a shell shows no errors during completion.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from carrel.cli import module_of
from carrel.cli.client.call import fields_of
from carrel.cli.client.connection import open_client
from carrel.cli.target import resolve
from carrel.errors import MCPError
from carrel.uri.template import UriTemplate, UriTemplateError

if TYPE_CHECKING:
    from carrel.client.client import Client

__all__ = ["WORDS", "Candidates", "candidates", "for_bash"]

#: Seconds to wait for the server.
PATIENCE = 4.0
#: Maximum number of candidates.
MAX_WORDS = 500
#: Characters that bash does not need escaped with a backslash.
PLAIN = re.compile(r"([^\w@%+=:,./~^-])")


class Candidates(NamedTuple):
    """Candidates to replace ``typed``. ``alone`` says that nothing else, such as a file, can stand there."""

    typed: str
    words: list[str]
    alone: bool = True


class TypedLine(NamedTuple):
    """Command line up to the cursor: positional arguments, options with values, and the word being typed."""

    positional: list[str]
    options: dict[str, list[str]]
    typed: str
    option: str | None
    """Option whose value is being typed."""


def candidates(line: str) -> Candidates:
    """Return the candidates for a command line up to the cursor, such as ``carrel call server.py a``."""
    words, typed = split(line)
    if len(words) < 2 or words[1] not in WORDS or "--" in words:
        return Candidates(typed, [])
    name = words[1]
    given = read_line(name, words[2:], typed)
    if given is None:
        return Candidates(typed, [])
    if not given.positional and given.option is None and not typed.startswith("-"):
        return Candidates(typed, beginning(typed, servers(typed)), alone=False)
    if not given.positional:
        return Candidates(typed, [])
    found: list[str] = []
    try:
        found = asyncio.run(WORDS[name](given))
    except (MCPError, TimeoutError, OSError, ValueError):
        pass
    return Candidates(typed, beginning(typed, found))


def split(line: str) -> tuple[list[str], str]:
    """Split a command line into complete words and the word being typed, without quotes."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        words += lexer
    except ValueError:  # an unclosed quote
        return words, lexer.token
    if line[-1:].isspace() and not line.endswith("\\ "):
        return words, ""
    return words[:-1], words[-1] if words else ""


def read_line(name: str, words: list[str], typed: str) -> TypedLine | None:
    """Parse the arguments of a command. Return None if the value of one of the command's options is being typed."""
    parser: argparse.ArgumentParser = module_of(name).parser()
    given = TypedLine([], {}, typed, None)
    waiting: str | None = None
    for word in words:
        if waiting is not None:
            given.options.setdefault(waiting, []).append(word)
            waiting = None
        elif word.startswith("-") and word != "-":
            option, equals, value = word.partition("=")
            if equals:
                given.options.setdefault(option, []).append(value)
            elif takes_value(parser, option):
                waiting = option
        else:
            given.positional.append(word)
    if waiting is not None and waiting in parser._option_string_actions:
        return None
    return given._replace(option=waiting)


def takes_value(parser: argparse.ArgumentParser, option: str) -> bool:
    """Return whether an option takes a value. Unknown options are template variables, which take a value."""
    action = parser._option_string_actions.get(option)
    return action is None or action.nargs != 0


def beginning(typed: str, words: Iterable[str]) -> list[str]:
    """Return the words that begin with ``typed``, without duplicates."""
    found = [word for word in dict.fromkeys(words) if word.startswith(typed) and word.isprintable()]
    return found[:MAX_WORDS]


def servers(typed: str) -> list[str]:
    """Return the names of configured servers."""
    from carrel.cli.server_names import MARK, names_of_servers

    mark = MARK if typed.startswith(MARK) else ""
    return [f"{mark}{name}" for name in names_of_servers()]


async def ask(given: TypedLine, request: Callable[[Client], Awaitable[list[str]]]) -> list[str]:
    """Connect to the server and return the result of ``request``.

    Raises:
        MCPError: there is no such server, or a request failed.
        TimeoutError: the server takes too long.
    """
    options = argparse.Namespace(timeout=PATIENCE, header=given.options.get("--header", []), quiet=True)
    target = await asyncio.to_thread(resolve, given.positional[0])
    async with asyncio.timeout(PATIENCE), open_client(target, options, stderr=lambda _: None) as client:
        return await request(client)


async def of_call(given: TypedLine) -> list[str]:
    """Return tool names, then the argument names and values of the given tool."""

    async def request(client: Client) -> list[str]:
        tools = await client.list_tools()
        if len(given.positional) == 1:
            return [tool.name for tool in tools]
        tool = next((tool for tool in tools if tool.name == given.positional[1]), None)
        if tool is None:
            return []
        fields, required = fields_of(tool)
        key, equals, _ = given.typed.partition("=")
        if equals:
            return [f"{key}={value}" for value in values_of(fields.get(key))]
        names = [*required, *(name for name in fields if name not in required)]
        return [f"{name}=" for name in names if name not in keys_of(given.positional[2:])]

    return await ask(given, request)


async def of_tools(given: TypedLine) -> list[str]:
    """Return tool names."""
    return await of_call(given) if len(given.positional) == 1 else []


async def of_prompt(given: TypedLine) -> list[str]:
    """Return prompt names, then the argument names of the given prompt, and argument values completed by the server."""

    async def request(client: Client) -> list[str]:
        prompts = await client.list_prompts()
        if len(given.positional) == 1:
            return [prompt.name for prompt in prompts]
        prompt = next((prompt for prompt in prompts if prompt.name == given.positional[1]), None)
        if prompt is None:
            return []
        key, equals, typed = given.typed.partition("=")
        known = keys_of(given.positional[2:])
        if equals:
            found = await client.complete(prompt, key, typed, known)
            return [f"{key}={value}" for value in found.values]
        return [f"{argument.name}=" for argument in prompt.arguments or () if argument.name not in known]

    return await ask(given, request)


async def of_cat(given: TypedLine) -> list[str]:
    """Return URIs and templates; for a template, options for its variables, and values completed by the server."""
    if len(given.positional) == 1 and given.option is None and not given.typed.startswith("-"):
        return await ask(given, uris_of)
    template = next((word for word in given.positional[1:] if "{" in word), None)
    if template is None:
        return []
    try:
        names = UriTemplate(template).names
    except UriTemplateError:
        return []
    known = {option.removeprefix("--"): values[-1] for option, values in given.options.items()}
    known |= keys_of(given.positional[2:])
    key, equals, typed = given.typed.removeprefix("--").partition("=")
    if given.option is None and not equals:
        return [f"--{name}" if given.typed.startswith("-") else f"{name}=" for name in names if name not in known]
    name = key if given.option is None else given.option.removeprefix("--")
    head = given.typed[: len(given.typed) - len(typed)] if given.option is None else ""
    wanted = typed if given.option is None else given.typed

    async def request(client: Client) -> list[str]:
        templates = await client.list_resource_templates()
        found = next((one for one in templates if one.uri_template == template), None)
        if found is None or name not in names:
            return []
        context = {key: value for key, value in known.items() if key in names and key != name}
        return [f"{head}{value}" for value in (await client.complete(found, name, wanted, context)).values]

    return await ask(given, request)


async def of_watch(given: TypedLine) -> list[str]:
    """Return resource URIs."""
    return await ask(given, uris_of)


async def of_skills(given: TypedLine) -> list[str]:
    """Return skill names."""

    async def request(client: Client) -> list[str]:
        return [skill.name for skill in await client.skills.list_skills()]

    return await ask(given, request) if len(given.positional) == 1 else []


async def of_server(given: TypedLine) -> list[str]:
    """Return no candidates: only the server is completed."""
    return []


async def uris_of(client: Client) -> list[str]:
    """Return the URIs and templates that a server lists."""
    if client.capabilities.resources is None:
        return []
    templates = [template.uri_template for template in await client.list_resource_templates()]
    return [*(resource.uri for resource in await client.list_resources()), *templates]


def keys_of(pairs: Iterable[str]) -> Mapping[str, str]:
    """Return the arguments typed so far that have the form ``key=value`` or ``key:=json``."""
    split_pairs = [pair.partition("=") for pair in pairs if "=" in pair]
    return {key.removesuffix(":"): value for key, _, value in split_pairs}


def values_of(field: object) -> list[str]:
    """Return the values of an argument, if its schema lists them."""
    if not isinstance(field, dict):
        return []
    if field.get("type") == "boolean":
        return ["true", "false"]
    choices = field.get("enum") or [part["const"] for part in field.get("oneOf") or () if "const" in part]
    if not isinstance(choices, list):
        return []
    return [choice if isinstance(choice, str) else msgspec.json.encode(choice).decode() for choice in choices]


def for_bash(line: str, word: str, found: Candidates) -> list[str]:
    """Convert candidates for bash, whose current ``word`` begins after the last colon or equals sign."""
    typed = found.typed
    if word[:1] in ("'", '"'):
        return found.words
    last = "" if word in ("=", ":", "://", ":=") else word.replace("\\", "")
    start = len(typed) - len(last) if typed.endswith(last) else 0
    return [PLAIN.sub(r"\\\1", each[start:]) for each in found.words]


WORDS: Mapping[str, Callable[[TypedLine], Coroutine[Any, Any, list[str]]]] = {
    "call": of_call,
    "cat": of_cat,
    "prompt": of_prompt,
    "skills": of_skills,
    "tools": of_tools,
    "watch": of_watch,
    **dict.fromkeys(("context", "doctor", "find", "info", "login", "logout", "ls", "tree"), of_server),
}
"""Commands whose arguments are completed, each with the function that completes the arguments after the server."""
