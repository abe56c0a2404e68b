"""OpenAI's Responses API: items in, events out."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any

from pydantic_core import SchemaValidator

from chat.endpoints.openai_checks import check_data_url, check_functions, check_key, check_model
from chat.endpoints.party import Received
from chat.endpoints.script import (
    Answer,
    Break,
    CallTool,
    Decline,
    Draw,
    FailInStream,
    Hold,
    Say,
    Think,
    pieces,
)
from chat.endpoints.strict import Refused, check_types, strictly

__all__ = ["check", "stream"]


@cache
def validator() -> SchemaValidator:
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming  # takes long

    return strictly(ResponseCreateParamsStreaming)


def encrypted(summary: str) -> str:
    """Return the encrypted content of a reasoning item, which must come back as it is."""
    return hashlib.sha256(f"reasoning {summary}".encode()).hexdigest()


def check(received: Received) -> None:
    """Refuse what the Responses API refuses."""
    check_key(received.headers)
    body = received.body
    check_types(validator(), body)
    check_model(body["model"])
    if body.get("max_output_tokens") is not None and body["max_output_tokens"] < 16:
        raise Refused("Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16")
    if "temperature" in body and body["model"].startswith("gpt-6"):
        raise Refused("Unsupported parameter: 'temperature' is not supported with this model.")
    check_functions(tool for tool in body.get("tools", []) if tool["type"] == "function")
    if body.get("tool_choice") not in (None, "auto", "none") and not body.get("tools"):
        raise Refused("Tool choice 'required' must be specified with 'tools' parameter.")
    items = [{"role": "user", "content": body["input"]}] if isinstance(body["input"], str) else body["input"]
    check_items(items)


def check_items(items: list[dict[str, Any]]) -> None:
    calls: list[str] = []
    outputs: list[str] = []
    for number, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "message":
            check_message(item)
        elif kind == "function_call":
            if len(item["call_id"]) > 64:
                raise Refused(f"Invalid 'input[{number}].call_id': string too long. Expected a maximum length of 64")
            calls.append(item["call_id"])
            check_functions([{"name": item["name"]}])
        elif kind == "function_call_output":
            if item["call_id"] not in calls:
                raise Refused(f"No tool call found for function call output with call_id {item['call_id']}.")
            outputs.append(item["call_id"])
            check_parts(item["output"] if isinstance(item["output"], list) else [])
        elif kind == "reasoning":
            check_reasoning(item, items[number + 1 :])
        if "_thought_" in item.get("id", "") and (number == 0 or not is_thought_of(items, number)):
            raise Refused(f"Item '{item['id']}' of type '{kind}' was provided without its required 'reasoning' item")
    if missing := [each for each in calls if each not in outputs]:
        raise Refused(f"No tool output found for function call {missing[0]}.")
    if len(set(calls)) != len(calls):
        raise Refused("Duplicate item found with the same call_id.")


def is_thought_of(items: list[dict[str, Any]], number: int) -> bool:
    """Return whether the items of the same answer before this one begin with its reasoning."""
    for item in reversed(items[:number]):
        if item.get("type") == "reasoning":
            return True
        if item.get("type") == "function_call_output" or item.get("role") == "user":
            return False
    return False


def check_reasoning(item: dict[str, Any], following: list[dict[str, Any]]) -> None:
    text = "".join(part["text"] for part in item["summary"])
    if item.get("encrypted_content") is None:
        raise Refused(f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false.")
    if item["encrypted_content"] != encrypted(text):
        raise Refused("The encrypted content could not be verified.", kind="invalid_encrypted_content")
    if not following or following[0].get("type", "message") not in ("function_call", "message", "reasoning"):
        raise Refused(f"Item '{item['id']}' of type 'reasoning' was provided without its required following item.")


def check_message(item: dict[str, Any]) -> None:
    content = item["content"]
    if isinstance(content, str):
        return
    wanted = ("output_text", "refusal") if item["role"] == "assistant" else ("input_text", "input_image", "input_file")
    for part in content:
        if part["type"] not in wanted:
            raise Refused(f"Invalid value: '{part['type']}'. Supported values are: {', '.join(wanted)}.")
    check_parts(content)


def check_parts(parts: list[dict[str, Any]]) -> None:
    for part in parts:
        if part["type"] == "input_image":
            check_data_url(part["image_url"])
        elif part["type"] == "input_file":
            data, kind = check_data_url(part["file_data"])
            if not part.get("filename"):
                raise Refused("Missing required parameter: 'filename'.")
            if kind == "application/pdf" and not data.startswith(b"%PDF-"):
                raise Refused("The file is not a valid PDF.", kind="invalid_file")


def stream(answer: Answer, received: Received) -> Iterator[bytes | Hold | Break]:
    """Write an answer as server-sent events."""
    numbers = count()
    output: list[dict[str, Any]] = []

    def event(kind: str, **members: Any) -> bytes:
        message = {"type": kind, "sequence_number": next(numbers), **members}
        return f"event: {kind}\ndata: {json.dumps(message)}\n\n".encode()

    def response(status: str, **members: Any) -> dict[str, Any]:
        return {**frame(received.body), "status": status, "output": output, **members}

    yield event("response.created", response=response("in_progress"))
    yield event("response.in_progress", response=response("in_progress"))
    for part in answer.parts:
        if isinstance(part, Hold | Break):
            yield part
        elif isinstance(part, FailInStream):
            failure = {"code": part.kind, "message": part.message}
            yield event("response.failed", response=response("failed", error=failure))
            return
        else:
            begun, events, done = item(part, len(output), thought=answer.has(Think))
            yield event("response.output_item.added", output_index=len(output), item=begun)
            for kind, members in events:
                yield event(kind, item_id=begun["id"], output_index=len(output), **members)
            yield event("response.output_item.done", output_index=len(output), item=done)
            output.append(done)
    tokens = answer.tokens
    usage = {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": 0},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.input + tokens.output,
    }
    if answer.stop in ("max_output_tokens", "content_filter"):
        details = {"reason": answer.stop}
        yield event("response.incomplete", response=response("incomplete", incomplete_details=details, usage=usage))
    else:
        yield event("response.completed", response=response("completed", usage=usage))


def frame(body: dict[str, Any]) -> dict[str, Any]:
    """Return the members of a response that repeat the request."""
    return {
        "id": "resp_01",
        "object": "response",
        "created_at": 1790000000,
        "model": f"{body['model']}-2026-10-01" if body["model"].startswith("gpt") else body["model"],
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_p": 1.0,
        "usage": None,
    }


Events = list[tuple[str, dict[str, Any]]]


def item(part: Any, index: int, *, thought: bool) -> tuple[dict[str, Any], Events, dict[str, Any]]:
    """Return an output item as it begins, the events that fill it, and the item as it ends."""
    mark = "thought_" if thought else ""
    if isinstance(part, CallTool):
        begun: dict[str, Any] = {
            "id": f"fc_{mark}{part.id}",
            "type": "function_call",
            "status": "in_progress",
            "call_id": f"call_{part.id}",
            "name": part.name,
            "arguments": "",
        }
        name = "response.function_call_arguments"
        events: Events = [(f"{name}.delta", {"delta": piece}) for piece in pieces(part.json)]
        events.append((f"{name}.done", {"arguments": part.json, "name": part.name}))
        return begun, events, {**begun, "status": "completed", "arguments": part.json}
    if isinstance(part, Think):
        begun = {"id": f"rs_{index}", "type": "reasoning", "summary": [], "encrypted_content": ""}
        whole = {"type": "summary_text", "text": part.text}
        name = "response.reasoning_summary"
        events = [(f"{name}_part.added", {"summary_index": 0, "part": {"type": "summary_text", "text": ""}})]
        events += [(f"{name}_text.delta", {"summary_index": 0, "delta": piece}) for piece in pieces(part.text)]
        events.append((f"{name}_text.done", {"summary_index": 0, "text": part.text}))
        events.append((f"{name}_part.done", {"summary_index": 0, "part": whole}))
        return begun, events, {**begun, "summary": [whole], "encrypted_content": encrypted(part.text)}
    if isinstance(part, Draw):
        begun = {"id": f"ig_{index}", "type": "image_generation_call", "status": "in_progress", "result": None}
        image = base64.b64encode(part.data).decode()
        events = [("response.image_generation_call.in_progress", {}), ("response.image_generation_call.completed", {})]
        done = {**begun, "status": "completed", "result": image, "output_format": part.mime_type.partition("/")[2]}
        return begun, events, done
    if isinstance(part, Say | Decline):
        return message(part, index)
    raise TypeError(f"the Responses API does not answer with {type(part).__name__}")


def message(part: Say | Decline, index: int) -> tuple[dict[str, Any], Events, dict[str, Any]]:
    """Return a message item with one part: text, or a refusal."""
    begun = {"id": f"msg_{index}", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
    if isinstance(part, Decline):
        name, member, extra = "response.refusal", "refusal", {}
        whole: dict[str, Any] = {"type": "refusal", "refusal": part.text}
    else:
        name, member, extra = "response.output_text", "text", {"logprobs": []}
        whole = {"type": "output_text", "text": part.text, "annotations": [], "logprobs": []}
    events: Events = [("response.content_part.added", {"content_index": 0, "part": {**whole, member: ""}})]
    events += [(f"{name}.delta", {"content_index": 0, "delta": piece, **extra}) for piece in pieces(part.text)]
    events.append((f"{name}.done", {"content_index": 0, member: part.text, **extra}))
    events.append(("response.content_part.done", {"content_index": 0, "part": whole}))
    return begun, events, {**begun, "status": "completed", "content": [whole]}
