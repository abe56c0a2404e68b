"""OpenAI's Chat Completions, as OpenAI and the servers that are compatible with it speak it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic_core import SchemaValidator

from chat.endpoints.openai_checks import check_data_url, check_functions, check_key, check_model
from chat.endpoints.party import Received
from chat.endpoints.script import (
    Answer,
    Break,
    CallTool,
    Decline,
    FailInStream,
    Hold,
    Say,
    Speak,
    Think,
    pieces,
)
from chat.endpoints.strict import Refused, check_types, decode, strictly

__all__ = ["check", "stream"]


@cache
def validator() -> SchemaValidator:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming  # takes long

    return strictly(CompletionCreateParamsStreaming)


def check(received: Received) -> None:
    """Refuse what Chat Completions refuse."""
    check_key(received.headers)
    body = received.body
    check_types(validator(), body)
    check_model(body["model"])
    check_functions(tool["function"] for tool in body.get("tools", []))
    if "tools" in body and not body["tools"]:
        raise Refused("[] is too short - 'tools'")
    if body.get("tool_choice") and not body.get("tools"):
        raise Refused("'tool_choice' is only allowed when 'tools' are specified.")
    if (body.get("audio") or {"format": "pcm16"})["format"] != "pcm16":
        raise Refused("Unsupported value: 'audio.format' does not support this value when stream=true: use 'pcm16'.")
    if ("audio" in body.get("modalities", [])) != body["model"].startswith("gpt-audio"):
        raise Refused("This model requires that either input content or output modality contain audio.")
    if not body["messages"]:
        raise Refused("[] is too short - 'messages'")
    wanted: list[str] = []
    for number, message in enumerate(body["messages"]):
        wanted = check_message(number, message, wanted)
    if wanted:
        raise Refused(unanswered(wanted))


def check_message(number: int, message: dict[str, Any], wanted: list[str]) -> list[str]:
    """Refuse a message that may not be where it is; return the tool calls that still need an answer."""
    role = message["role"]
    if role == "tool":
        if message["tool_call_id"] not in wanted:
            raise Refused(
                f"messages[{number}]: messages with role 'tool' must be a response to a preceding message with "
                "'tool_calls'."
            )
        return [each for each in wanted if each != message["tool_call_id"]]
    if wanted:
        raise Refused(unanswered(wanted))
    if role == "system" and number > 0:
        raise Refused("System message must be at the beginning.")
    if role == "user" and isinstance(message["content"], list):
        check_parts(message["content"])
    if role != "assistant":
        return []
    if not message.get("content") and not message.get("tool_calls") and not message.get("audio"):
        raise Refused(f"Invalid value for 'content': expected a string, got null. messages.[{number}].content")
    calls = message.get("tool_calls", [])
    for call in calls:
        check_functions([{"name": call["function"]["name"]}])
        try:
            json.loads(call["function"]["arguments"])
        except ValueError:
            raise Refused(f"messages[{number}]: tool call arguments must be JSON") from None
    return [call["id"] for call in calls]


def unanswered(wanted: list[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(wanted)}"
    )


def check_parts(parts: list[dict[str, Any]]) -> None:
    for part in parts:
        if part["type"] == "image_url":
            check_data_url(part["image_url"]["url"])
        elif part["type"] == "input_audio":
            if not decode(part["input_audio"]["data"]):
                raise Refused("The audio is empty.")
        elif part["type"] == "file":
            data, kind = check_data_url(part["file"]["file_data"])
            if kind == "application/pdf" and not data.startswith(b"%PDF-"):
                raise Refused("The file is not a valid PDF.")


def stream(answer: Answer, received: Received) -> Iterator[bytes | Hold | Break]:
    """Write an answer as chunks."""
    frame = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": received.body["model"],
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return line({**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}]})

    yield chunk({"role": "assistant", "content": ""})
    calls = 0
    for part in answer.parts:
        if isinstance(part, Hold | Break):
            yield part
        elif isinstance(part, FailInStream):
            yield line({"error": {"message": part.message, "type": part.kind, "code": part.kind, "param": None}})
            return
        else:
            for delta in deltas(part, calls):
                yield chunk(delta)
            calls += isinstance(part, CallTool)
    yield chunk({}, answer.stop or ("tool_calls" if calls else "stop"))
    if (received.body.get("stream_options") or {}).get("include_usage"):
        tokens = answer.tokens
        usage = {
            "prompt_tokens": tokens.input,
            "completion_tokens": tokens.output,
            "total_tokens": tokens.input + tokens.output,
            "prompt_tokens_details": {"cached_tokens": tokens.cached},
        }
        yield line({**frame, "choices": [], "usage": usage})
    yield b"data: [DONE]\n\n"


def deltas(part: Any, index: int) -> Iterator[dict[str, Any]]:
    """Give the deltas of one part. Local servers show reasoning as ``reasoning_content``."""
    if isinstance(part, Say):
        yield from ({"content": piece} for piece in pieces(part.text))
    elif isinstance(part, Decline):
        yield from ({"refusal": piece} for piece in pieces(part.text))
    elif isinstance(part, Think):
        yield from ({"reasoning_content": piece} for piece in pieces(part.text))
    elif isinstance(part, CallTool):
        function = {"name": part.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": f"call_{part.id}", "type": "function", "function": function}]}
        for piece in pieces(part.json):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
    elif isinstance(part, Speak):
        audio = base64.b64encode(part.data).decode()
        yield {"audio": {"id": "audio_1", "transcript": ""}}
        for start in range(0, len(audio), 400):
            yield {"audio": {"data": audio[start : start + 400]}}
        yield {"audio": {"expires_at": 1790003600}}
    else:
        raise TypeError(f"Chat Completions do not answer with {type(part).__name__}")


def line(message: Any) -> bytes:
    return f"data: {json.dumps(message)}\n\n".encode()
