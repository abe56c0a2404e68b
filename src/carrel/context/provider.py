"""Provider of contexts: a tool and a prompt that pack resources for a question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Raw

from carrel.catalog.provider import Page, Provider, Request
from carrel.catalog.request import RequestContext
from carrel.context.index import ContextIndex
from carrel.context.options import Ask
from carrel.context.pack import ContextPack
from carrel.context.results import NEAREST, Format, describe_unused
from carrel.errors import InvalidParams
from carrel.search.provider import request_to_read
from carrel.wire.content import TextContent
from carrel.wire.prompts import GetPromptResult, Prompt, PromptArgument, PromptMessage
from carrel.wire.tools import CallToolResult, Tool, ToolAnnotations

__all__ = ["CONTEXT", "ContextProvider"]

CONTEXT = "context"
#: Default budget of the tool and the prompt, in tokens, and the largest one.
USUAL, MOST = 4000, 1_000_000

_URIS = {"type": "array", "items": {"type": "string"}, "default": []}
TOOL = Tool(
    name=CONTEXT,
    title="Context for a question",
    description="Read what the resources here say about a question: the best passages, with URIs and lines, up to "
    "a budget of tokens. Prefer it to search if you need the text itself.",
    input_schema={
        "type": "object",
        "properties": {
            "question": {"type": "string", "description": "The question, in any language"},
            "budget": {
                "type": "integer",
                "minimum": 1,
                "maximum": MOST,
                "default": USUAL,
                "description": "How many tokens to return at most",
            },
            "pin": {**_URIS, "description": "URIs of resources to put first"},
            "open": {**_URIS, "description": "URIs of resources that the user has open: they count more"},
            "without": {**_URIS, "description": "URIs to leave out, or patterns such as *.log"},
            "model_tokens": {
                "type": "integer",
                "minimum": 0,
                "maximum": MOST,
                "default": 0,
                "description": "How many tokens the model of the client may read and write to add search words and to "
                "rank what is found (sampling); 0: it is not asked",
            },
            "format": {"type": "string", "enum": ["markdown", "xml", "json"], "default": "markdown"},
        },
        "required": ["question"],
        "additionalProperties": False,
    },
    annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
)
PROMPT = Prompt(
    name=CONTEXT,
    title="Ask with context",
    description="A question, with what the resources here say about it",
    arguments=[
        PromptArgument(name="question", description="The question, in any language", required=True),
        PromptArgument(name="budget", description=f"How many tokens the context may take (default: {USUAL})"),
    ],
)


class ContextArguments(msgspec.Struct, forbid_unknown_fields=True):
    """Arguments of the tool."""

    question: str
    budget: Annotated[int, Meta(ge=1, le=MOST)] = USUAL
    pin: list[str] = []
    open: list[str] = []
    without: list[str] = []
    model_tokens: Annotated[int, Meta(ge=0, le=MOST)] = 0
    format: Format = "markdown"


class ContextProvider(Provider):
    """Provider of a tool and a prompt that pack contexts. The provider of the search starts the index."""

    name = CONTEXT
    tool_names = frozenset({CONTEXT})
    prompt_names = frozenset({CONTEXT})

    def __init__(self, index: ContextIndex) -> None:
        self._index = index
        index.skip.add(self)

    def list_tools(self, request: Request) -> Page[Tool]:
        """Return the tool."""
        return Page([TOOL] if request.cursor is None else [])

    async def call_tool(self, name: str, arguments: Raw, request: Request) -> CallToolResult:
        """Pack a context.

        Raises:
            InvalidParams: there is no such tool.
        """
        if name != CONTEXT:
            raise InvalidParams(f"Invalid params: unknown tool: {name[:200]}", parameter="name")
        try:
            given = msgspec.json.decode(arguments, type=ContextArguments)
            pack = await self._pack(given, request)
        except (msgspec.ValidationError, ValueError) as error:
            return CallToolResult(content=[TextContent(f"Invalid arguments: {error}")], is_error=True)
        if given.format == "json":
            found = pack.as_json()
            return CallToolResult(content=[TextContent(msgspec.json.encode(found).decode())], structured_content=found)
        texts = [pack.text or _nothing(pack), "\n".join(describe_unused(pack.left_out))]
        return CallToolResult(content=[TextContent(each) for each in texts if each])

    def list_prompts(self, request: Request) -> Page[Prompt]:
        """Return the prompt."""
        return Page([PROMPT] if request.cursor is None else [])

    async def get_prompt(self, name: str, arguments: Mapping[str, str], request: Request) -> GetPromptResult:
        """Return the question with its context.

        Raises:
            InvalidParams: there is no such prompt, or an argument is wrong.
        """
        if name != CONTEXT:
            raise InvalidParams(f"Invalid params: unknown prompt: {name[:200]}", parameter="name")
        try:
            given = msgspec.convert(dict(arguments), ContextArguments, strict=False)
            pack = await self._pack(given, request)
        except (msgspec.ValidationError, ValueError) as error:
            raise InvalidParams(f"Invalid params: {error}", parameter="arguments") from None
        context = TextContent(pack.text or _nothing(pack))
        messages = [PromptMessage(role="user", content=content) for content in (context, TextContent(given.question))]
        return GetPromptResult(messages=messages, description=PROMPT.description)

    async def _pack(self, given: ContextArguments, request: Request) -> ContextPack:
        """Pack a context. With ``model_tokens``, the model of the client helps if the client supports sampling."""
        if not given.question.strip():
            raise ValueError("question is empty")
        if given.model_tokens and request.contexts is not None:
            async with request.contexts.open(request, repeatable=True) as context:
                return await self._packed(given, request, _asker(context))
        return await self._packed(given, request, None)

    async def _packed(self, given: ContextArguments, request: Request, model: Ask | None) -> ContextPack:
        pack = await self._packed_now(given, request, model)
        if pack.items or pack.packed.complete:
            return pack
        await self._index.ready_soon()  # the server has just started
        return await self._packed_now(given, request, model)

    async def _packed_now(self, given: ContextArguments, request: Request, model: Ask | None) -> ContextPack:
        return await self._index.context(
            given.question,
            budget=given.budget,
            pin=given.pin,
            open=given.open,
            without=given.without,
            format=given.format,
            model=model,
            model_tokens=given.model_tokens,
            request=request_to_read(request),
        )


def _asker(context: RequestContext) -> Ask:
    """Return the function that sends a prompt to the model of the client (sampling)."""

    async def ask(prompt: str, most: int) -> str:
        return (await context.sample(prompt, most)).text

    return ask


def _nothing(pack: ContextPack) -> str:
    """Return the text for a pack without items."""
    if any(each.reason == "over the budget" for each in pack.left_out):
        return "The budget is too small for what was found."
    nearest = [f"- <{each.uri}>" for each in pack.left_out if each.reason == NEAREST]
    if nearest:
        return "\n".join(["Nothing relevant is found. The nearest resources:", *nearest])
    return "Nothing is found." if pack.packed.complete else "Nothing is found yet: the index is not complete."
