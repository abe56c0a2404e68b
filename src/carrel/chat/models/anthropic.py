"""Models of Anthropic through the Messages API, with thinking, tools and prompt caching.

https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from anthropic import APIError, AsyncAnthropic

from carrel.chat.arguments import tool_use
from carrel.chat.model import ModelAnswer, ModelEvent, ModelRequest, TextDelta, ThinkingDelta, Usage
from carrel.chat.models.conversation import (
    only_content,
    only_results,
    only_uses,
    text_of_blocks,
    valid_id,
    vendor_data,
    with_vendor_data,
)
from carrel.chat.models.failures import VendorAccess, http_errors, raise_api_error
from carrel.chat.models.image_limits import within_limits
from carrel.chat.models.vendors import VendorKey
from carrel.vendors.anthropic import content, declare, tool_results
from carrel.vendors.declaration import Declaration
from carrel.wire.client_features import SampledContent, SamplingMessage, ToolResultContent, blocks_of
from carrel.wire.content import TextContent

__all__ = ["AnthropicModel", "open_anthropic"]

VENDOR = "anthropic"
STOP_REASONS = {
    "end_turn": "endTurn",
    "max_tokens": "maxTokens",
    "model_context_window_exceeded": "maxTokens",
    "pause_turn": "endTurn",
    "refusal": "refusal",
    "stop_sequence": "stopSequence",
    "tool_use": "toolUse",
}
#: Models before adaptive thinking; they take a temperature.
OLDER = re.compile(r"claude-(?:[123]|instant|\w+-4(?:-[0-5])?(?:-\d{8})?$)")
#: Models that always think, and so cannot be forced to use a tool.
ALWAYS_THINKS = re.compile(r"claude-(?:fable|mythos)|claude-opus-5-5")
#: Largest image: 5 MiB in base64, and pixels of a side. https://platform.claude.com/docs/en/build-with-claude/vision
MAX_IMAGE = 5 * 1024 * 1024 * 3 // 4
MAX_PIXELS = 8000
CACHED = {"type": "ephemeral"}
USE_A_TOOL = "Answer with the use of one of the tools."


class AnthropicModel:
    """Model of Anthropic. ``client`` is closed with it."""

    def __init__(self, client: AsyncAnthropic, model: str, access: VendorAccess) -> None:
        self._client = client
        self._model = model
        self._access = access

    @property
    def name(self) -> str:
        """The model's name as ``--model`` takes it."""
        return f"{VENDOR}:{self._model}"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream the next message; see ``Model``."""
        declared = {tool.name: declare(tool) for tool in request.tools}
        stream = AnthropicStream(self._model, declared)
        try:
            with http_errors(self._access, stream):
                # Not messages.stream(): its parser of incomplete JSON fails on arguments that are not JSON.
                events: Any = await self._client.messages.create(**parameters(self._model, request, declared))
                async with events:
                    async for event in events:
                        for found in stream.feed(event):
                            yield found
        except APIError as error:
            raise_api_error(self._access, error, begun=stream.begun)
        yield stream.completion()

    async def models(self) -> list[str]:
        """Return the names of the models that the key gives access to."""
        try:
            return [model.id async for model in self._client.models.list(limit=1000)]
        except APIError as error:
            raise_api_error(self._access, error, begun=False)

    async def close(self) -> None:
        """Close connections."""
        await self._client.close()


def open_anthropic(
    model: str, access: VendorAccess, key: VendorKey | None, address: str | None, retries: int | None
) -> AnthropicModel:
    """Return a model of Anthropic with its own client. A key of a variable ``…_TOKEN`` is a bearer token."""
    options: dict[str, Any] = {} if address is None else {"base_url": address}
    if retries is not None:
        options["max_retries"] = retries
    if key:
        options["auth_token" if key.variable.endswith("_TOKEN") else "api_key"] = key.text
    return AnthropicModel(AsyncAnthropic(**options), model, access)


def parameters(model: str, request: ModelRequest, declared: Mapping[str, Declaration]) -> dict[str, Any]:
    """Return the parameters of the request."""
    found: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens,
        "messages": messages(model, request.messages),
        "stream": True,
    }
    system = [request.system_prompt] if request.system_prompt else []
    mode = request.tool_choice.mode if request.tool_choice else None
    forced = mode == "required" and bool(declared)
    older = OLDER.match(model) is not None
    if forced and ALWAYS_THINKS.match(model):
        system.append(USE_A_TOOL)  # thinking cannot be combined with a forced use, nor turned off
        forced = False
    if not older:
        found["thinking"] = {"type": "disabled"} if forced else {"type": "adaptive", "display": "summarized"}
    elif request.temperature is not None:
        found["extra_body"] = {"temperature": min(request.temperature, 1.0)}
    if declared:
        found["tools"] = [declaration.tool for declaration in declared.values()]
        if forced or mode == "none":
            found["tool_choice"] = {"type": "any" if forced else "none"}
    if request.stop_sequences:
        found["stop_sequences"] = [each for each in request.stop_sequences if each.strip()]
    mark_cached(found, system)
    return found


def mark_cached(found: dict[str, Any], system: Sequence[str]) -> None:
    """Mark where prefixes end that are worth caching: after the tools and the system prompt, and after the messages."""
    if system:
        found["system"] = [{"type": "text", "text": "\n\n".join(system), "cache_control": CACHED}]
    elif "tools" in found:
        found["tools"][-1] = {**found["tools"][-1], "cache_control": CACHED}
    if found["messages"] and (last := found["messages"][-1]["content"]):
        last[-1] = {**last[-1], "cache_control": CACHED}


def messages(model: str, conversation: Sequence[SamplingMessage]) -> list[dict[str, Any]]:
    """Return a conversation as messages. Thinking goes back with the answers of the same model."""
    found: list[dict[str, Any]] = []
    for message in conversation:
        blocks = blocks_of(message)
        if message.role == "user":
            results = [_accepted(result) for result in only_results(blocks)]
            found += tool_results(results)
            if shown := content(within_limits(only_content(blocks), MAX_IMAGE, MAX_PIXELS)):
                found.append({"role": "user", "content": shown})
            elif not results:
                found.append({"role": "user", "content": [{"type": "text", "text": "(empty message)"}]})
            continue
        written: list[dict[str, Any]] = []
        for block in blocks:
            written += vendor_data(block, VENDOR, model).get("thinking", [])
            for use in only_uses([block]):
                written.append({"type": "tool_use", "id": valid_id(use.id), "name": use.name, "input": use.input})
            if text := text_of_blocks([block]).rstrip():
                written.append({"type": "text", "text": text})
        if any("thinking" not in block["type"] for block in written):
            found.append({"role": "assistant", "content": written})
    return found


def _accepted(result: ToolResultContent) -> ToolResultContent:
    return ToolResultContent(
        tool_use_id=valid_id(result.tool_use_id),
        content=within_limits(result.content, MAX_IMAGE, MAX_PIXELS),
        structured_content=result.structured_content,
        is_error=result.is_error,
    )


class AnthropicStream:
    """Response that arrives as events of the Messages API."""

    def __init__(self, model: str, declared: Mapping[str, Declaration]) -> None:
        self._model = model
        self._declared = declared
        self._blocks: dict[int, dict[str, Any]] = {}
        self._answered_by = model
        self._usage: dict[str, int] = {}
        self._stop: str | None = None
        self._refusal: str | None = None
        self.begun = False

    def feed(self, event: Any) -> list[ModelEvent]:
        """Take an event; return those to pass on."""
        self.begun = True
        if event.type == "message_start":
            self._answered_by = event.message.model
            self._count(event.message.usage)
        elif event.type == "content_block_start":
            self._blocks[event.index] = {"json": "", **event.content_block.to_dict()}
        elif event.type == "content_block_delta":
            return self._grow(self._blocks[event.index], event.delta)
        elif event.type == "message_delta":
            self._stop = event.delta.stop_reason
            self._count(event.usage)
            if self._stop == "refusal":
                details = event.delta.stop_details
                self._refusal = refusal_text(details.category, details.explanation) if details else refusal_text()
                return [TextDelta(self._refusal)]
        return []

    def _grow(self, block: dict[str, Any], delta: Any) -> list[ModelEvent]:
        if delta.type == "text_delta":
            block["text"] += delta.text
            return [TextDelta(delta.text)]
        if delta.type == "thinking_delta":
            block["thinking"] += delta.thinking
            return [ThinkingDelta(delta.thinking)]
        if delta.type == "signature_delta":
            block["signature"] = delta.signature
        elif delta.type == "input_json_delta":
            block["json"] += delta.partial_json
        return []

    def _count(self, usage: Any) -> None:
        names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        self._usage |= {name: value for name in names if (value := getattr(usage, name, None)) is not None}

    def completion(self) -> ModelAnswer:
        """Return the whole answer."""
        read, written = (self._usage.get(f"cache_{name}_input_tokens", 0) for name in ("read", "creation"))
        usage = Usage(
            input_tokens=self._usage.get("input_tokens", 0) + read + written,
            output_tokens=self._usage.get("output_tokens", 0),
            cached_tokens=read,
            written_tokens=written,
        )
        stop = STOP_REASONS.get(self._stop or "end_turn", self._stop or "endTurn")
        return ModelAnswer(content=self._content(), stop_reason=stop, model=self._answered_by, usage=usage)

    def _content(self) -> list[SampledContent]:
        found: list[SampledContent] = []
        thinking: list[dict[str, Any]] = []
        for _, block in sorted(self._blocks.items()):
            new: SampledContent
            if block["type"] == "thinking":
                thinking.append({name: block[name] for name in ("type", "thinking", "signature")})
                continue
            if block["type"] == "redacted_thinking":
                thinking.append({name: block[name] for name in ("type", "data")})
                continue
            if block["type"] == "text" and block["text"]:
                new = TextContent(text=block["text"])
            elif block["type"] == "tool_use" and self._refusal is None:
                truncated = self._stop == "max_tokens"
                new = tool_use(block["id"], block["name"], block["json"], self._declared, truncated=truncated)
            else:
                continue
            found.append(with_vendor_data(new, VENDOR, self._model, {"thinking": thinking} if thinking else {}))
            thinking = []
        if self._refusal is not None:
            found.append(TextContent(text=self._refusal))
        return found


def refusal_text(category: str | None = None, explanation: str | None = None) -> str:
    """Return the text for a user when a model declines."""
    about = f" ({category})" if category else ""
    return f"[Claude declined to answer{about}{': ' + explanation if explanation else '.'}]"
