"""Models behind Chat Completions: servers on this machine, other vendors, and OpenAI's audio models.

Ollama, LM Studio, vLLM, llama.cpp, OpenRouter and many more are compatible with OpenAI's API, with variations that are
handled here.
https://developers.openai.com/api/reference/resources/chat
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec
from openai import APIError, AsyncOpenAI

from carrel.chat.arguments import tool_use
from carrel.chat.model import ModelAnswer, ModelEvent, ModelRequest, TextDelta, ThinkingDelta, Usage
from carrel.chat.models.conversation import only_content, only_results, only_uses, text_of_blocks, valid_id
from carrel.chat.models.failures import VendorAccess, http_errors, raise_api_error
from carrel.chat.models.vendors import VendorKey
from carrel.chat.models.wav import wav
from carrel.vendors.declaration import Declaration
from carrel.vendors.openai_chat import content, declare, tool_results
from carrel.wire.client_features import SampledContent, SamplingMessage, blocks_of
from carrel.wire.content import AudioContent, TextContent

__all__ = ["CompatibleModel", "open_client", "open_compatible"]

STOP_REASONS = {
    "content_filter": "refusal",
    "length": "maxTokens",
    "max_tokens": "maxTokens",
    "stop": "endTurn",
    "tool_calls": "toolUse",
}
#: Members of a delta that hold reasoning; DeepSeek, vLLM, llama.cpp and LM Studio, and OpenRouter and Ollama.
REASONING = ("reasoning_content", "reasoning")
#: Key for servers that require none, because the SDK demands one.
NO_KEY = "not-needed"
#: Maximum number of stop sequences in a request.
MOST_STOPS = 4
#: Samples per second of the audio that OpenAI streams: 16 bit, one channel.
RATE = 24_000
FILTERED = "[A content filter stopped the answer.]"


class CompatibleModel:
    """Model of a server that is compatible with OpenAI's Chat Completions. ``client`` is closed with it.

    ``prefix`` is the name of the vendor, or the URL. ``speaks`` asks for audio too, which only OpenAI has.
    """

    def __init__(
        self, client: AsyncOpenAI, model: str, access: VendorAccess, prefix: str, *, speaks: bool = False
    ) -> None:
        self._client = client
        self._model = model
        self._access = access
        self._prefix = prefix
        self._speaks = speaks

    @property
    def name(self) -> str:
        """The model's name as ``--model`` takes it."""
        return f"{self._prefix}{'#' if '://' in self._prefix else ':'}{self._model}"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream the next message; see ``Model``."""
        declared = {tool.name: declare(tool) for tool in request.tools}
        stream = ChatStream(self._model, declared)
        found = parameters(self._model, request, declared, speaks=self._speaks)
        try:
            with http_errors(self._access, stream):
                events: Any = await self._client.chat.completions.create(**found)
                async with events:
                    async for chunk in events:
                        for event in stream.feed(chunk):
                            yield event
        except APIError as error:
            raise_api_error(self._access, error, begun=stream.begun)
        for event in stream.end():
            yield event
        yield stream.completion()

    async def models(self) -> list[str]:
        """Return the names of the models that the server has."""
        try:
            return [model.id async for model in self._client.models.list()]
        except APIError as error:
            raise_api_error(self._access, error, begun=False)

    async def close(self) -> None:
        """Close connections."""
        await self._client.close()


def open_compatible(
    model: str, access: VendorAccess, key: VendorKey | None, address: str | None, retries: int | None, prefix: str
) -> CompatibleModel:
    """Return a model of a compatible server with its own client."""
    return CompatibleModel(open_client(key, address, retries), model, access, prefix)


def open_client(key: VendorKey | None, address: str | None, retries: int | None) -> AsyncOpenAI:
    """Return a client of OpenAI's SDK."""
    options: dict[str, Any] = {} if address is None else {"base_url": address}
    if retries is not None:
        options["max_retries"] = retries
    return AsyncOpenAI(api_key=key.text if key else NO_KEY, **options)


def parameters(
    model: str, request: ModelRequest, declared: Mapping[str, Declaration], *, speaks: bool
) -> dict[str, Any]:
    """Return the parameters of the request."""
    system = [{"role": "system", "content": request.system_prompt}] if request.system_prompt else []
    found: dict[str, Any] = {
        "model": model,
        "messages": system + messages(request.messages),
        "max_tokens": request.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if speaks:
        found |= {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "pcm16"}}
    if request.temperature is not None:
        found["temperature"] = request.temperature
    if request.stop_sequences:
        found["stop"] = list(request.stop_sequences)[:MOST_STOPS]
    if declared:
        found["tools"] = [declaration.tool for declaration in declared.values()]
        if request.tool_choice and request.tool_choice.mode:
            found["tool_choice"] = request.tool_choice.mode
    return found


def messages(conversation: Sequence[SamplingMessage]) -> list[dict[str, Any]]:
    """Return a conversation as messages."""
    found: list[dict[str, Any]] = []
    for message in conversation:
        blocks = blocks_of(message)
        if message.role == "assistant":
            calls = [
                {
                    "id": valid_id(use.id),
                    "type": "function",
                    "function": {"name": use.name, "arguments": msgspec.json.encode(use.input).decode()},
                }
                for use in only_uses(blocks)
            ]
            text = text_of_blocks([block for block in blocks if not isinstance(block, AudioContent)])
            if text or calls:
                found.append({"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})})
            continue
        results = only_results(blocks)
        for each in tool_results(results):
            valid = {"tool_call_id": valid_id(each["tool_call_id"])} if "tool_call_id" in each else {}
            found.append({**each, **valid})
        if shown := content(only_content(blocks)):
            only_text = len(shown) == 1 and shown[0]["type"] == "text"  # some servers take nothing but a text
            found.append({"role": "user", "content": shown[0]["text"] if only_text else shown})
        elif not results:
            found.append({"role": "user", "content": "(empty message)"})
    return found


class PartialToolCall:
    """Tool call that arrives in pieces."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments = ""


class ChatStream:
    """Response that arrives as chunks."""

    def __init__(self, model: str, declared: Mapping[str, Declaration]) -> None:
        self._declared = declared
        self._answered_by = model
        self._text = ""
        self._refusal = ""
        self._audio = ""
        self._calls: dict[int, PartialToolCall] = {}
        self._finish = ""
        self._usage = Usage()
        self.begun = False

    def feed(self, chunk: Any) -> list[ModelEvent]:
        """Take a chunk; return the events to pass on."""
        self.begun = True
        self._answered_by = chunk.model or self._answered_by
        if usage := chunk.usage:
            details = usage.prompt_tokens_details
            self._usage = Usage(
                input_tokens=usage.prompt_tokens or 0,
                output_tokens=usage.completion_tokens or 0,
                cached_tokens=(details and details.cached_tokens) or 0,
            )
        found: list[ModelEvent] = []
        for choice in chunk.choices or ():
            self._finish = choice.finish_reason or self._finish
            if choice.delta is not None:
                found += self._grow(choice.delta)
        return found

    def _grow(self, delta: Any) -> list[ModelEvent]:
        found: list[ModelEvent] = []
        thought = next((text for name in REASONING if isinstance(text := getattr(delta, name, None), str) and text), "")
        if thought:
            found.append(ThinkingDelta(thought))
        self._refusal += delta.refusal or ""
        audio = getattr(delta, "audio", None)
        spoken_text = (audio and audio.transcript) or ""
        self._audio += (audio and audio.data) or ""
        if text := (delta.content or "") + spoken_text:
            self._text += text
            found.append(TextDelta(text))
        for piece in delta.tool_calls or ():
            self._grow_call(piece)
        return found

    def _grow_call(self, piece: Any) -> None:
        index = piece.index
        if index is None:  # whole calls, of servers that do not number them
            index = len(self._calls) if piece.id or not self._calls else len(self._calls) - 1
        call = self._calls.setdefault(index, PartialToolCall())
        if piece.id and call.id and piece.id != call.id:  # whole calls, all with the number 0
            call = self._calls.setdefault(len(self._calls), PartialToolCall())
        call.id = call.id or piece.id or ""
        if piece.function is not None:
            call.name = call.name or piece.function.name or ""
            call.arguments += piece.function.arguments or ""

    def end(self) -> list[ModelEvent]:
        """Return the events that the end of the stream leads to."""
        said = f"[The model declined to answer: {self._refusal}]" if self._refusal else ""
        if self._finish == "content_filter":
            said = FILTERED
        self._text += said
        return [TextDelta(said)] if said else []

    def completion(self) -> ModelAnswer:
        """Return the whole answer."""
        found: list[SampledContent] = [TextContent(text=self._text)] if self._text else []
        if self._audio:
            found.append(AudioContent(data=wav(base64.b64decode(self._audio), RATE), mime_type="audio/wav"))
        truncated = self._finish == "length"
        for _, call in sorted(self._calls.items()):
            identifier = call.id or f"call_{uuid4().hex[:24]}"
            found.append(tool_use(identifier, call.name, call.arguments, self._declared, truncated=truncated))
        stop = STOP_REASONS.get(self._finish, "endTurn")
        if stop == "endTurn" and self._calls:  # Ollama says "stop"
            stop = "toolUse"
        if self._refusal:
            stop = "refusal"
        return ModelAnswer(content=found, stop_reason=stop, model=self._answered_by, usage=self._usage)
