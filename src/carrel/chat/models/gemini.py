"""Models of Google through the Gemini API. Signatures of thoughts go back with the parts that they belong to.

https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

import msgspec
from google import genai
from google.genai import errors, types

from carrel.chat.arguments import tool_use
from carrel.chat.model import ModelAnswer, ModelEvent, ModelRequest, TextDelta, ThinkingDelta, Usage
from carrel.chat.models.conversation import only_content, only_results, only_uses, vendor_data, with_vendor_data
from carrel.chat.models.failures import VendorAccess, http_errors, raise_status, retry_time
from carrel.chat.models.vendors import VendorKey
from carrel.chat.models.wav import wav
from carrel.errors import TransportError
from carrel.vendors.declaration import Declaration
from carrel.vendors.gemini import content, declare, tool_results
from carrel.wire.client_features import SampledContent, SamplingMessage, ToolUseContent, blocks_of
from carrel.wire.content import AudioContent, ImageContent, TextContent

__all__ = ["GeminiModel", "open_gemini"]

VENDOR = "gemini"
#: Models that show their thoughts.
THINKS = re.compile(r"gemini-(?:2\.5|[3-9]|\d\d)(?!.*(?:image|tts|audio))")
MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
#: Signature for tool uses of other models, which have none.
UNSIGNED = b"skip_thought_signature_validator"
#: Maximum number of retries when Gemini returns MALFORMED_FUNCTION_CALL.
MOST_TRIES = 3
#: Finish reasons other than a refusal.
ORDINARY = {"STOP", "MAX_TOKENS", "FINISH_REASON_UNSPECIFIED", "CONTINUATION"}
MALFORMED = {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"}
RATE = re.compile(r"rate=(\d+)")
#: Responses of the request that is being made, so that they can be closed before their end.
RESPONSES: ContextVar[list[Any]] = ContextVar("RESPONSES")


def new_session() -> Any:
    """Return a session of aiohttp for the SDK, whose own warns and is not closed with it; None without aiohttp."""
    try:
        import aiohttp
    except ModuleNotFoundError:
        return None

    async def keep(_session: Any, _context: Any, ended: aiohttp.TraceRequestEndParams) -> None:
        RESPONSES.get([]).append(ended.response)

    tracing = aiohttp.TraceConfig()
    tracing.on_request_end.append(keep)
    return aiohttp.ClientSession(trust_env=True, trace_configs=[tracing])


class GeminiModel:
    """Model of Google. ``client`` is closed with it."""

    def __init__(self, client: genai.Client, model: str, access: VendorAccess, session: Any = None) -> None:
        self._client = client
        self._model = model
        self._access = access
        self._session = session

    @property
    def name(self) -> str:
        """The model's name as ``--model`` takes it."""
        return f"{VENDOR}:{self._model}"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Stream the next message; see ``Model``. Retry when Gemini returns MALFORMED_FUNCTION_CALL."""
        declared = {tool.name: declare(tool) for tool in request.tools}
        for _ in range(MOST_TRIES):
            stream = GeminiStream(self._model, declared)
            async with aclosing(self._chunks(request, declared, stream)) as chunks:
                async for chunk in chunks:
                    for event in stream.feed(chunk):
                        yield event
            if stream.finish not in MALFORMED or stream.said:
                break
        else:
            raise TransportError(f"{self._access.title}: the model returned a malformed function call")
        for event in stream.end():
            yield event
        yield stream.completion()

    async def _chunks(
        self, request: ModelRequest, declared: Mapping[str, Declaration], stream: GeminiStream
    ) -> AsyncGenerator[Any, None]:
        responses: list[Any] = []
        RESPONSES.set(responses)
        try:
            with http_errors(self._access, stream):
                chunks: Any = await self._client.aio.models.generate_content_stream(
                    model=self._model,
                    contents=contents(self._model, request.messages),  # type: ignore[arg-type]
                    config=config(self._model, request, declared),
                )
                async with aclosing(chunks):
                    async for chunk in chunks:
                        yield chunk
        except errors.APIError as error:
            raise_gemini_error(self._access, error)
        finally:
            for response in responses:  # the SDK leaves that to the garbage collector
                response.close()

    async def models(self) -> list[str]:
        """Return the names of the models that answer."""
        try:
            pager = await self._client.aio.models.list()
            found = [model async for model in pager]
        except errors.APIError as error:
            raise_gemini_error(self._access, error)
        answering = [model.name or "" for model in found if "generateContent" in (model.supported_actions or ())]
        return [name.removeprefix("models/") for name in answering]

    async def close(self) -> None:
        """Close connections."""
        await self._client.aio.aclose()
        if self._session is not None:
            await self._session.close()


def open_gemini(
    model: str, access: VendorAccess, key: VendorKey | None, address: str | None, retries: int | None
) -> GeminiModel:
    """Return a model of Google with its own client."""
    attempts = None if retries is None else retries + 1
    options: dict[str, Any] = {"retry_options": types.HttpRetryOptions(attempts=attempts)}
    if address is not None:
        options["base_url"] = address
    if session := new_session():
        options["aiohttp_client"] = session
    client = genai.Client(api_key=key.text if key else None, http_options=types.HttpOptions(**options))
    return GeminiModel(client, model, access, session)


def raise_gemini_error(access: VendorAccess, error: errors.APIError) -> None:
    """Raise the error for one of the SDK; see ``raise_status``."""
    body = error.details if isinstance(error.details, dict) else {}
    details = (body.get("error") or body).get("details") or []
    reasons = [each.get("reason") for each in details if isinstance(each, dict)]
    status = 401 if "API_KEY_INVALID" in reasons else error.code
    delays = [str(each["retryDelay"]) for each in details if isinstance(each, dict) and "retryDelay" in each]
    retry_after = next((float(text[:-1]) for text in delays if re.fullmatch(r"\d+(\.\d+)?s", text)), None)
    if retry_after is None:
        retry_after = retry_time(getattr(error.response, "headers", None) or {})
    raise_status(access, status, error.message or str(error.status), retry_after, error)


def config(model: str, request: ModelRequest, declared: Mapping[str, Declaration]) -> types.GenerateContentConfig:
    """Return the settings of the request."""
    found: dict[str, Any] = {
        "automatic_function_calling": {"disable": True},
        "max_output_tokens": request.max_tokens,
        "system_instruction": request.system_prompt or None,
        "temperature": request.temperature,
        "stop_sequences": list(request.stop_sequences) or None,
    }
    if THINKS.match(model):
        found["thinking_config"] = {"include_thoughts": True}
    if "-image" in model:
        found["response_modalities"] = ["TEXT", "IMAGE"]
    elif "-tts" in model:
        found["response_modalities"] = ["AUDIO"]
    if declared:
        found["tools"] = [{"function_declarations": [declaration.tool for declaration in declared.values()]}]
        if request.tool_choice and request.tool_choice.mode:
            found["tool_config"] = {"function_calling_config": {"mode": MODES[request.tool_choice.mode]}}
    return types.GenerateContentConfig.model_validate(found)


def contents(model: str, conversation: Sequence[SamplingMessage]) -> list[dict[str, Any]]:
    """Return a conversation as contents."""
    found: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for message in conversation:
        blocks = blocks_of(message)
        if message.role == "user":
            results = only_results(blocks)
            found += tool_results(results, names)
            if shown := content(only_content(blocks)):
                found.append({"role": "user", "parts": shown})
            elif not results:
                found.append({"role": "user", "parts": [{"text": "(empty message)"}]})
            continue
        names |= {use.id: use.name for use in only_uses(blocks)}
        first = next(iter(only_uses(blocks)), None)
        if parts := [part for block in blocks for part in _parts(block, model, unsigned=block is first)]:
            found.append({"role": "model", "parts": parts})
    return found


def _parts(block: Any, model: str, *, unsigned: bool) -> list[dict[str, Any]]:
    """Return a block of an answer as parts. ``unsigned``: a tool use that needs a signature, if it has none."""
    if isinstance(block, ToolUseContent):
        called = {"name": block.name, "args": block.input}
        parts: list[dict[str, Any]] = [
            {"functionCall": called if block.id.startswith("#") else {"id": block.id, **called}}
        ]
    else:
        parts = content(only_content([block]))
    signature = vendor_data(block, VENDOR, model).get("signature")
    if parts and signature is not None:
        parts[-1]["thoughtSignature"] = b64decode(signature)
    elif parts and unsigned and isinstance(block, ToolUseContent):
        parts[-1]["thoughtSignature"] = UNSIGNED
    return parts


class GeminiStream:
    """Response that arrives as chunks."""

    def __init__(self, model: str, declared: Mapping[str, Declaration]) -> None:
        self._model = model
        self._declared = declared
        self._content: list[SampledContent] = []
        self._answered_by = model
        self._usage = Usage()
        self._message = ""
        self._blocked = ""
        self.finish = ""
        self.begun = False

    @property
    def said(self) -> bool:
        """Whether there is anything in it already."""
        return bool(self._content)

    def feed(self, chunk: Any) -> list[ModelEvent]:
        """Take a chunk; return the events to pass on."""
        self.begun = True
        self._answered_by = chunk.model_version or self._answered_by
        if usage := chunk.usage_metadata:
            self._usage = Usage(
                input_tokens=(usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
                output_tokens=(usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
                cached_tokens=usage.cached_content_token_count or 0,
            )
        if (feedback := chunk.prompt_feedback) and feedback.block_reason:
            self._blocked = feedback.block_reason.value
            self._message = feedback.block_reason_message or ""
        found: list[ModelEvent] = []
        for candidate in (chunk.candidates or ())[:1]:
            if candidate.finish_reason:
                self.finish = candidate.finish_reason.value
                self._message = candidate.finish_message or self._message
            for part in (candidate.content and candidate.content.parts) or ():
                found += self._take(part)
        return found

    def _take(self, part: Any) -> list[ModelEvent]:
        if part.thought:
            return [ThinkingDelta(part.text)] if part.text else []
        found: list[ModelEvent] = []
        if part.function_call:
            call = part.function_call
            written = msgspec.json.encode(call.args or {}).decode()
            self._content.append(tool_use(call.id or f"#{uuid4().hex}", call.name or "", written, self._declared))
        elif part.inline_data and part.inline_data.data:
            self._content.append(_media(part.inline_data))
        elif part.text:
            found.append(self._say(part.text))
        if part.thought_signature and self._content:
            signature = b64encode(part.thought_signature).decode()
            with_vendor_data(self._content[-1], VENDOR, self._model, {"signature": signature})
        return found

    def _say(self, text: str) -> ModelEvent:
        last = self._content[-1] if self._content else None
        if isinstance(last, TextContent) and last.meta is None:
            last.text += text
        else:
            self._content.append(TextContent(text=text))
        return TextDelta(text)

    def end(self) -> list[ModelEvent]:
        """Return the events that the end of the stream leads to."""
        if self._blocked:
            reason, what = self._blocked, "did not take the request"
        elif self.finish and self.finish not in ORDINARY:
            reason, what = self.finish, "stopped the answer"
        else:
            return []
        self._blocked = reason
        text = f"[Gemini {what} ({reason.lower().replace('_', ' ')}){': ' + self._message if self._message else '.'}]"
        return [self._say(text)]

    def completion(self) -> ModelAnswer:
        """Return the whole answer."""
        if self._blocked:
            stop = "refusal"
        elif self.finish == "MAX_TOKENS":
            stop = "maxTokens"
        else:
            stop = "toolUse" if only_uses(self._content) else "endTurn"
        return ModelAnswer(content=self._content, stop_reason=stop, model=self._answered_by, usage=self._usage)


def _media(blob: Any) -> SampledContent:
    mime_type = blob.mime_type or "application/octet-stream"
    if mime_type.startswith(("audio/L16", "audio/pcm")):
        rate = RATE.search(mime_type)
        return AudioContent(data=wav(blob.data, int(rate[1]) if rate else 24_000), mime_type="audio/wav")
    kind = AudioContent if mime_type.startswith("audio/") else ImageContent
    return kind(data=blob.data, mime_type=mime_type)
