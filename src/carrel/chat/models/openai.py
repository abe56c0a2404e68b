"""Models of OpenAI through the Responses API. Nothing is stored at OpenAI; reasoning goes back encrypted.

https://developers.openai.com/api/reference/resources/responses
"""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import msgspec
from openai import APIError, AsyncOpenAI, BadRequestError

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
from carrel.chat.models.failures import VendorAccess, http_errors, raise_api_error, raise_status
from carrel.chat.models.openai_compatible import CompatibleModel, open_client
from carrel.chat.models.vendors import VendorKey
from carrel.chat.stop_sequences import StopSequences
from carrel.vendors.declaration import Declaration
from carrel.vendors.openai_responses import content, declare, tool_results
from carrel.wire.client_features import SampledContent, SamplingMessage, blocks_of
from carrel.wire.content import ImageContent, TextContent

__all__ = ["OpenAIModel", "open_openai"]

VENDOR = "openai"
#: Models that reason; they take no temperature.
REASONS = re.compile(r"o\d|gpt-(?:[5-9]|\d\d)(?!.*chat)")
#: Models that answer with audio, which only Chat Completions offer.
SPEAKS = re.compile(r"gpt-audio|gpt-4o.*-audio")
#: The least number of tokens that an answer may be limited to.
LEAST_TOKENS = 16
MODES = {"auto": "auto", "required": "required", "none": "none"}
DECLINED = "[The model declined to answer: {}]"
FILTERED = "[OpenAI's content filter stopped the answer.]"
#: Codes of failed responses that are not retried.
LASTING = re.compile(r"invalid|image|policy|unsupported|empty|download|misalignment")


class OpenAIModel(CompatibleModel):
    """Model of OpenAI. ``client`` is closed with it."""

    def __init__(self, client: AsyncOpenAI, model: str, access: VendorAccess) -> None:
        super().__init__(client, model, access, VENDOR)
        self._summaries = REASONS.match(model) is not None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream the next message; see ``Model``. Stop sequences are applied here: the API does not support them."""
        declared = {tool.name: declare(tool) for tool in request.tools}
        stream = ResponsesStream(self._model, declared, self._access, request.stop_sequences)
        try:
            with http_errors(self._access, stream):
                async with await self._begin(parameters(self._model, request, declared)) as events:
                    async for event in events:
                        for found in stream.feed(event):
                            yield found
                        if stream.stopped:
                            break
        except APIError as error:
            raise_api_error(self._access, error, begun=stream.begun)
        if remaining := stream.remaining():
            yield TextDelta(remaining)
        yield stream.completion()

    async def _begin(self, found: dict[str, Any]) -> Any:
        if not self._summaries:
            return await self._client.responses.create(**found)
        try:
            return await self._client.responses.create(**found, reasoning={"summary": "auto"})
        except BadRequestError as error:
            if "reasoning.summary" not in (error.param or "") and "reasoning summar" not in error.message.lower():
                raise
            self._summaries = False  # only organizations that OpenAI has verified get them
            return await self._client.responses.create(**found)

    async def models(self) -> list[str]:
        """Return the names of the models that the key gives access to."""
        return sorted(await super().models())


def open_openai(
    model: str, access: VendorAccess, key: VendorKey | None, address: str | None, retries: int | None
) -> CompatibleModel:
    """Return a model of OpenAI with its own client; models that speak use Chat Completions."""
    client = open_client(key, address, retries)
    if SPEAKS.match(model):
        return CompatibleModel(client, model, access, VENDOR, speaks=True)
    return OpenAIModel(client, model, access)


def parameters(model: str, request: ModelRequest, declared: Mapping[str, Declaration]) -> dict[str, Any]:
    """Return the parameters of the request."""
    found: dict[str, Any] = {
        "model": model,
        "input": items(model, request.messages),
        "max_output_tokens": max(request.max_tokens, LEAST_TOKENS),
        "store": False,
        "stream": True,
    }
    if request.system_prompt:
        found["instructions"] = request.system_prompt
    if REASONS.match(model):
        found["include"] = ["reasoning.encrypted_content"]
    elif request.temperature is not None:
        found["temperature"] = request.temperature
    if declared:
        found["tools"] = [declaration.tool for declaration in declared.values()]
        if request.tool_choice and request.tool_choice.mode:
            found["tool_choice"] = MODES[request.tool_choice.mode]
    return found


def items(model: str, conversation: Sequence[SamplingMessage]) -> list[dict[str, Any]]:
    """Return a conversation as input items. Reasoning goes back with the answers of the same model."""
    found: list[dict[str, Any]] = []
    for message in conversation:
        blocks = blocks_of(message)
        if message.role == "user":
            results = only_results(blocks)
            found += [{**result, "call_id": valid_id(result["call_id"])} for result in tool_results(results)]
            if shown := content(only_content(blocks)):
                found.append({"role": "user", "content": shown})
            elif not results:
                found.append({"role": "user", "content": "(empty message)"})
            continue
        for block in blocks:
            back = vendor_data(block, VENDOR, model)
            for use in only_uses([block]):
                found += back.get("reasoning", [])
                called = {"type": "function_call", "call_id": valid_id(use.id), "name": use.name}
                found.append({**called, "arguments": msgspec.json.encode(use.input).decode()})
            if text := text_of_blocks([block]):
                found += back.get("reasoning", [])
                phase = {"phase": back["phase"]} if "phase" in back else {}
                found.append({"role": "assistant", "content": text, **phase})
    return found


class ResponsesStream:
    """Response that arrives as events of the Responses API."""

    def __init__(
        self, model: str, declared: Mapping[str, Declaration], access: VendorAccess, stop_sequences: Sequence[str]
    ) -> None:
        self._model = model
        self._declared = declared
        self._access = access
        self._stop = StopSequences(stop_sequences)
        self._content: list[SampledContent] = []
        self._reasoning: list[dict[str, Any]] = []
        self._text = ""
        self._answered_by = model
        self._usage = Usage()
        self._reason = ""
        self._refused = False
        self.begun = False

    @property
    def stopped(self) -> bool:
        """Whether a stop sequence was found."""
        return self._stop.stopped

    def feed(self, event: Any) -> list[ModelEvent]:
        """Take an event; return those to pass on."""
        self.begun = True
        match event.type:
            case "response.output_text.delta":
                return self._say(self._stop.feed(event.delta))
            case "response.refusal.delta":
                self._refused = True
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [ThinkingDelta(event.delta)]
            case "response.reasoning_summary_part.added" if event.summary_index:
                return [ThinkingDelta("\n\n")]
            case "response.output_item.done":
                return self._take(event.item)
            case "response.completed" | "response.incomplete":
                return self._end(event.response)
            case "response.failed":
                failure = event.response.error
                self._fail(failure.code, failure.message)
            case "error":
                self._fail(event.code or "", event.message)
        return []

    def _say(self, text: str) -> list[ModelEvent]:
        self._text += text
        return [TextDelta(text)] if text else []

    def _take(self, item: Any) -> list[ModelEvent]:
        if item.type == "reasoning":
            self._reasoning.append(_reasoning(item))
        elif item.type == "function_call":
            truncated = item.status == "incomplete"
            self._add(tool_use(item.call_id, item.name, item.arguments, self._declared, truncated=truncated))
        elif item.type == "image_generation_call" and item.result:
            mime_type = f"image/{getattr(item, 'output_format', None) or 'png'}"
            self._add(ImageContent(data=base64.b64decode(item.result), mime_type=mime_type))
        elif item.type == "message":
            return self._take_message(item)
        return []

    def _take_message(self, item: Any) -> list[ModelEvent]:
        found = self._say(self._stop.end())
        for part in item.content:
            if part.type == "refusal":
                found += self._say(DECLINED.format(part.refusal))
        phase = getattr(item, "phase", None)
        if self._text:
            self._add(TextContent(text=self._text), {"phase": phase} if phase else {})
            self._text = ""
        return found

    def _add(self, block: SampledContent, members: dict[str, Any] | None = None) -> None:
        members = members or {}
        if self._reasoning and not isinstance(block, ImageContent):
            members["reasoning"], self._reasoning = self._reasoning, []
        self._content.append(with_vendor_data(block, VENDOR, self._model, members))

    def _end(self, response: Any) -> list[ModelEvent]:
        self._answered_by = response.model
        if usage := response.usage:
            details = usage.input_tokens_details
            self._usage = Usage(
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=getattr(details, "cached_tokens", None) or 0,
                written_tokens=getattr(details, "cache_write_tokens", None) or 0,
            )
        self._reason = (response.incomplete_details and response.incomplete_details.reason) or ""
        if self._reason != "content_filter":
            return []
        self._refused = True
        self._add(TextContent(text=FILTERED))
        return [TextDelta(FILTERED)]

    def _fail(self, code: str, message: str) -> None:
        busy = {"rate_limit_exceeded": 429, "server_is_overloaded": 503, "overloaded_error": 503}
        raise_status(self._access, busy.get(code, 400 if LASTING.search(code) else 500), message)

    def remaining(self) -> str:
        """Return text that no event has brought to its end."""
        held = "" if self.stopped else self._stop.end()
        if self._text or held:
            self._add(TextContent(text=self._text + held))
        return held

    def completion(self) -> ModelAnswer:
        """Return the whole answer."""
        if self._refused:
            reason = "refusal"
        elif self.stopped:
            reason = "stopSequence"
        elif self._reason:
            reason = "maxTokens"
        else:
            reason = "toolUse" if only_uses(self._content) else "endTurn"
        return ModelAnswer(content=self._content, stop_reason=reason, model=self._answered_by, usage=self._usage)


def _reasoning(item: Any) -> dict[str, Any]:
    """Return a reasoning item as it goes back."""
    summary = [{"type": "summary_text", "text": part.text} for part in item.summary]
    return {"type": "reasoning", "id": item.id, "summary": summary, "encrypted_content": item.encrypted_content}
