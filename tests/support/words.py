"""A provider of everything that there can be: resources, templates, directories, tools, prompts, skills, changes."""

import asyncio
import json
from typing import Any

import pytest

from carrel.catalog.provider import Change, Hit, Page, Provider
from carrel.errors import InvalidCursor, InvalidParams, ResourceNotFound
from carrel.testing import ProviderContract
from carrel.wire.completion import Completion
from carrel.wire.content import TextContent
from carrel.wire.prompts import GetPromptResult, Prompt, PromptMessage
from carrel.wire.resources import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents
from carrel.wire.skills import Skill, SkillResource
from carrel.wire.tools import CallToolResult, Tool

EMPTY = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
TEMPLATE = "word:{name}"


def after(items: dict[str, Any], request: Any, listing: str) -> Page[Any]:
    """Return a page of items sorted by key, whose cursor is the last key."""
    keys = sorted(items)
    if request.cursor is not None:
        try:
            name, last = json.loads(request.cursor)
        except (ValueError, TypeError):
            raise InvalidCursor from None
        if name != listing or json.dumps([name, last]) != request.cursor:
            raise InvalidCursor
        keys = [key for key in keys if key > last]
    found = keys[: request.limit]
    more = len(keys) > request.limit
    return Page([items[key] for key in found], json.dumps([listing, found[-1]]) if more else None)


class Words(Provider):
    """Provider of everything, which keeps the contract. Instances can share their words, as they would a disk."""

    name = "words"
    prefixes = ("word:",)

    def __init__(self, words: dict[str, str] | None = None) -> None:
        self.words = {name: name * 3 for name in "abcdef"} if words is None else words
        self.listeners: set[asyncio.Queue[Any]] = set()

    async def stop(self) -> None:
        for queue in self.listeners:
            queue.put_nowait(None)

    # Resources

    def resource(self, name: str) -> Resource:
        return Resource(f"word:{name}", name)

    def list_resources(self, request):
        return after({name: self.resource(name) for name in self.words}, request, "words")

    def list_directory(self, uri, request):
        if uri != "word:a":
            raise ResourceNotFound(uri)
        return after({name: self.resource(name) for name in "bcd"}, request, "inside a")

    def read_resource(self, uri, request):
        name = uri.removeprefix("word:")
        if not uri.startswith("word:") or name not in self.words:
            raise ResourceNotFound(uri)
        return ReadResourceResult(contents=[TextResourceContents(uri, self.words[name])])

    def list_templates(self, request):
        return after({TEMPLATE: ResourceTemplate(TEMPLATE, "a word")}, request, "templates")

    def complete(self, reference, argument, value, context, request):
        if getattr(reference, "uri", None) != TEMPLATE or argument != "name":
            raise InvalidParams("there is no such template or variable")
        return Completion([name for name in self.words if name.startswith(value)][:100])

    def search(self, query, request):
        found = [name for name in sorted(self.words) if query.strip() and query in f"{name} {self.words[name]}"]
        return Page([Hit(self.resource(name), 1 - at / 10) for at, name in enumerate(found)][: request.limit])

    # Tools, prompts, skills

    def list_tools(self, request):
        return after({name: Tool(name=name, input_schema={"type": "object"}) for name in ("x", "y")}, request, "tools")

    def call_tool(self, name, arguments, request):
        if name not in ("x", "y"):
            return super().call_tool(name, arguments, request)
        return CallToolResult(content=[TextContent("done")])

    def list_prompts(self, request):
        return after({name: Prompt(name=name) for name in ("p", "q")}, request, "prompts")

    def get_prompt(self, name, arguments, request):
        if name not in ("p", "q"):
            return super().get_prompt(name, arguments, request)
        return GetPromptResult(messages=[PromptMessage("user", TextContent("go"))])

    def skill(self, name: str) -> Skill:
        return Skill(f"word:{name}", {"name": name}, [SkillResource(f"word:{name}", EMPTY, 0)])

    def list_skills(self, request):
        return after({name: self.skill(name) for name in self.words if not self.words[name]}, request, "skills")

    def get_skill(self, uri, request):
        name = uri.removeprefix("word:")
        if self.words.get(name, "x"):
            raise ResourceNotFound(uri)
        return self.skill(name)

    # Changes

    def report(self, kind: str, name: str) -> None:
        for queue in self.listeners:
            queue.put_nowait([Change(kind, f"word:{name}")])

    async def watch(self, interest):
        queue: asyncio.Queue[Any] = asyncio.Queue()
        self.listeners.add(queue)
        try:
            yield ()
            while (batch := await queue.get()) is not None:
                yield batch
        finally:
            self.listeners.discard(queue)


class WordsContract(ProviderContract):
    """The contract tests of a provider of words, by itself or in whatever is over it."""

    words = Words

    @pytest.fixture
    def provider(self) -> Words:
        return self.words({**{name: name * 3 for name in ("a", "b", "bb", "c", "d")}, "s": "", "t": ""})

    def again(self, provider):
        return type(provider)(provider.words)

    async def create(self, provider):
        name = f"a{len(provider.words)}"
        provider.words[name] = "new"
        provider.report("created", name)
        return f"word:{name}"

    async def change(self, provider, uri):
        provider.words[uri.removeprefix("word:")] += "!"
        provider.report("changed", uri.removeprefix("word:"))

    async def remove(self, provider, uri):
        del provider.words[uri.removeprefix("word:")]
        provider.report("removed", uri.removeprefix("word:"))

    def missing(self, provider):
        return "word:zzz"

    async def container(self, provider):
        return "word:a"

    async def unreadable(self, provider):
        return ["word:", "word:../a"]

    async def searched(self, provider):
        return "b", "word:b"

    async def completed(self, provider):
        return TEMPLATE, "name", "", "c"

    async def called(self, provider):
        return "x", {"some": 1}

    async def prompted(self, provider):
        return "p", {}
