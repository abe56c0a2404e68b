"""Completion of the user's input: commands, prompts with their arguments, and resources after ``@``."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from carrel.chat.prompts import find_prompt
from carrel.chat.terminal.text import clean_line
from carrel.errors import MCPError
from carrel.host import Host
from carrel.uri.template import UriTemplate, UriTemplateError
from carrel.wire.resources import ResourceTemplate

__all__ = ["ChatCompleter", "variable_at"]

#: Suggestions that are shown at a time.
MOST = 50
WORD = re.compile(r'(?<![^\s(\[{])@("?)([^\s"]*)$')


class ChatCompleter(Completer):
    """Completer of the input of a chat.

    Args:
        host: the servers, whose lists are kept in memory; arguments are completed by the servers themselves.
        commands: descriptions of the commands by name.
        values: returns the values that an argument of a command may have, by the command's name.
    """

    def __init__(
        self, host: Host, commands: Mapping[str, str], values: Callable[[str], Iterable[tuple[str, str]]]
    ) -> None:
        self._host = host
        self._commands = commands
        self._values = values

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing: all completions are asynchronous."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Yield the completions at the cursor. A server that does not answer gives none."""
        text = document.text_before_cursor
        word = WORD.search(text)
        try:
            if word is not None:
                found: Sequence[Completion] = await self._resources(word[2])
            elif text.startswith("/") and "\n" not in text:
                found = await self._command(text[1:])
            else:
                return
        except MCPError:
            return
        for one in found[:MOST]:
            yield one

    # Commands and prompts

    async def _command(self, text: str) -> Sequence[Completion]:
        name, space, remaining = text.partition(" ")
        if not space:
            prompts = {
                f"{one.server}:{one.item.name}": one.item.description or one.item.title or "prompt"
                for one in await self._host.list_prompts()
            }
            return [
                entry(known, name, about)
                for known, about in {**self._commands, **prompts}.items()
                if known.startswith(name) or (name and f":{name}" in known)
            ]
        if name == "attach" and remaining.startswith("@"):
            return await self._resources(remaining[1:])
        if name in self._commands:
            last = remaining.rpartition(" ")[2]
            values = self._values(name)
            return [entry(value, last, about) for value, about in values if value.startswith(last)]
        return await self._argument(name, remaining)

    async def _argument(self, name: str, text: str) -> Sequence[Completion]:
        call = await find_prompt(self._host, name)
        if call is None:
            return []
        words = text.split(" ")
        last = words.pop()
        given = {key: value for key, _, value in (word.partition("=") for word in words) if key}
        key, equals, value = last.partition("=")
        if not equals:
            return [
                entry(f"{one.name}=", last, one.description or ("required" if one.required else "optional"))
                for one in call.prompt.arguments or ()
                if one.name not in given and one.name.startswith(last)
            ]
        found = await self._host.complete(call.server, call.prompt, key, value, given)
        return [entry(_quoted(one), value) for one in found.values if is_usable(one)]

    # Resources

    async def _resources(self, typed: str) -> Sequence[Completion]:
        server = next((name for name in self._host.servers if typed.startswith(f"{name}:")), None)
        if server is not None:
            return await self._of_server(server, typed[len(server) + 1 :])
        names = [entry(f"{name}:", typed, "server") for name in self._host.servers if name.startswith(typed)]
        if not typed:
            return names
        found = [(one.server, one.item.resource) for one in await self._host.search(typed, limit=MOST)]
        found += [(one.server, one.item) for one in await self._host.list_resources(uri_prefix=typed)]
        resources = {f"{name}:{one.uri}": one.title or one.name for name, one in found if is_usable(one.uri)}
        return [*names, *(entry(target, typed, about) for target, about in resources.items())]

    async def _of_server(self, server: str, typed: str) -> Sequence[Completion]:
        listed = await self._host.list_resources(servers=[server])
        lowered = typed.lower()
        resources = {one.item.uri: one.item.title or one.item.name for one in listed if is_usable(one.item.uri)}
        first = [entry(uri, typed, about) for uri, about in resources.items() if uri.startswith(typed)]
        within = [
            entry(uri, typed, about)
            for uri, about in resources.items()
            if not uri.startswith(typed) and (lowered in uri.lower() or lowered in about.lower())
        ]
        found = [*first, *within]
        for one in await self._host.list_resource_templates(servers=[server]):
            found += await self._of_template(server, one.item, typed)
        return found

    async def _of_template(self, server: str, template: ResourceTemplate, typed: str) -> Sequence[Completion]:
        try:
            parsed = UriTemplate(template.uri_template)
            at = variable_at(parsed, typed)
        except UriTemplateError:
            return []
        if at is None:
            start = parsed.prefix
            is_new = start.startswith(typed) and start != typed
            return [entry(start, typed, f"template {template.uri_template}")] if is_new else []
        name, value, known = at
        head = typed[: len(typed) - len(value)]
        try:
            values = (await self._host.complete(server, template, name, value, known)).values
        except MCPError:
            return []
        found = []
        for one in values:
            if not is_usable(one):
                continue
            more = {**known, name: one}
            whole = parsed.expand(more) if parsed.required <= set(more) else parsed.head(more)
            if whole.startswith(head):
                found.append(entry(whole, typed, f"{name} of {template.uri_template}"))
        return found


def variable_at(template: UriTemplate, typed: str) -> tuple[str, str, dict[str, str]] | None:
    """Return the variable that the end of a URI is in, its value so far, and the values before it; None if none is.

    For ``book://{author}/{title}`` and ``book://lem/so``: ("title", "so", {"author": "lem"}).
    """
    known: dict[str, str] = {}
    for name in template.names:
        head = template.head(known)
        if not typed.startswith(head):
            return None
        remaining = typed[len(head) :]
        after = template.head({**known, name: "x"})[len(head) + 1 :]
        if not after or after not in remaining:
            return name, remaining, known
        known[name] = remaining.partition(after)[0]
    return None


def entry(text: str, typed: str, about: str = "") -> Completion:
    """Return a completion that replaces the typed text."""
    return Completion(
        text, start_position=-len(typed), display=clean_line(text, 60), display_meta=clean_line(about, 60)
    )


def is_usable(text: str) -> bool:
    """Return whether a text of a server may be put into the input: it has no control characters, and fits in."""
    return text.isprintable() and len(text) < 1000


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text and '"' not in text else text
