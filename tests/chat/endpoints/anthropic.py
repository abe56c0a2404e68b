"""Anthropic's Messages API: streaming, tools, thinking with signatures, and the checks that its API makes.

https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic_core import SchemaValidator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from chat.endpoints.party import KEY, Endpoint, Received, Vendor, serving
from chat.endpoints.script import (
    Answer,
    Break,
    CallTool,
    Decline,
    FailInStream,
    Failure,
    Hold,
    Say,
    Script,
    Think,
    pieces,
)
from chat.endpoints.strict import Refused, check_image, check_names, check_schema, check_types, decode, strictly

__all__ = ["anthropic_endpoint"]

MODELS = (
    "claude-fable-5-2",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-haiku-4-5",
    "claude-opus-4-5",
)
#: Models without adaptive thinking, which take a temperature.
OLDER = re.compile(r"claude-\w+-4-5")
#: Models that always think.
ALWAYS = re.compile(r"claude-(fable|mythos)-5|claude-opus-5-5")
TOOL_NAME = r"[a-zA-Z0-9_-]{1,128}"
KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


@cache
def validator() -> SchemaValidator:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming  # takes long

    return strictly(MessageCreateParamsStreaming)


def signature(thinking: str) -> str:
    """Return the signature of a thinking block, which must come back with it."""
    return hashlib.sha256(f"signed {thinking}".encode()).hexdigest()


def check(received: Received) -> None:
    """Refuse what the Messages API refuses."""
    check_key(received.headers)
    body = received.body
    if "temperature" in body and OLDER.match(body["model"]):
        body = {name: value for name, value in body.items() if name != "temperature"}
    check_types(validator(), body)
    if body["model"] not in MODELS:
        raise Refused(f"model: {body['model']}", 404, "not_found_error")
    if body["max_tokens"] < 1:
        raise Refused("max_tokens: must be greater than or equal to 1")
    check_thinking(body)
    tools = body.get("tools", [])
    check_names([tool["name"] for tool in tools], TOOL_NAME)
    for tool in tools:
        check_schema(tool["name"], tool["input_schema"], banned=("oneOf", "anyOf", "allOf"))
        for name in tool["input_schema"].get("properties") or {}:
            if re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) is None:
                raise Refused(f"tools: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$': {name!r}")
    if json.dumps(body).count('"cache_control"') > 4:
        raise Refused("A maximum of 4 blocks with cache_control may be provided.")
    if body.get("system") == "":
        raise Refused("system: text content blocks must be non-empty")
    check_messages(body["messages"])


def check_key(headers: dict[str, str]) -> None:
    if headers.get("x-api-key") != KEY and headers.get("authorization") != f"Bearer {KEY}":
        raise Refused("invalid x-api-key", 401, "authentication_error")
    if "anthropic-version" not in headers:
        raise Refused("anthropic-version: header is required")


def check_thinking(body: dict[str, Any]) -> None:
    thinking = body.get("thinking") or {}
    kind, always, older = thinking.get("type"), ALWAYS.match(body["model"]), OLDER.match(body["model"])
    if kind == "adaptive" and older:
        raise Refused("adaptive thinking is not supported on this model")
    if kind == "enabled" and not older:
        raise Refused('"thinking.type.enabled" is not supported for this model')
    if kind == "enabled" and not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
        raise Refused("`max_tokens` must be greater than `thinking.budget_tokens`")
    if kind == "disabled" and always:
        raise Refused('"thinking.type.disabled" is not supported for this model')
    thinks = bool(always or kind in ("adaptive", "enabled") or (kind is None and not older))
    if thinks and (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        raise Refused("Thinking may not be enabled when tool_choice forces tool use.")
    if body.get("tool_choice") and not body.get("tools"):
        raise Refused("tool_choice may only be specified while providing tools")


def check_messages(messages: list[dict[str, Any]]) -> None:
    if not messages or messages[0]["role"] != "user":
        raise Refused("messages: first message must use the user role")
    if messages[-1]["role"] == "assistant":
        raise Refused("This model does not support assistant message prefill.")
    for number, message in enumerate(messages):
        if not message["content"]:
            raise Refused(f"messages.{number}: all messages must have non-empty content")
        for block in blocks(message):
            check_block(block, message["role"], f"messages.{number}")
    for number, (one, other) in enumerate(pairwise(messages)):
        check_pair(number, one, other)


def check_pair(number: int, one: dict[str, Any], other: dict[str, Any]) -> None:
    used = [block["id"] for block in blocks(one) if block["type"] == "tool_use"]
    results = [block["tool_use_id"] for block in blocks(other) if block["type"] == "tool_result"]
    if len(set(used)) != len(used):
        raise Refused(f"messages.{number}: `tool_use` ids must be unique")
    if missing := [each for each in used if each not in results]:
        raise Refused(
            f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}"
        )
    if unknown := [each for each in results if each not in used]:
        raise Refused(
            f"messages.{number + 1}: unexpected `tool_use_id` found in `tool_result` blocks: {', '.join(unknown)}"
        )
    if len(set(results)) != len(results):
        raise Refused(f"messages.{number + 1}: each tool_use must have a single result")
    types = [block["type"] for block in blocks(other)]
    if results and "tool_result" in types[len(results) :]:
        raise Refused(f"messages.{number + 1}: tool_result blocks must come first")
    if any("_thought_" in each for each in used) and blocks(one)[0]["type"] not in ("thinking", "redacted_thinking"):
        raise Refused(f"messages.{number}: Expected `thinking` or `redacted_thinking`, but found `{used[0]}`.")


def check_block(block: dict[str, Any], role: str, place: str) -> None:
    kind = block["type"]
    if kind in ("tool_use", "thinking") and role != "assistant":
        raise Refused(f"{place}: `{kind}` blocks can only be in assistant messages")
    if kind in ("tool_result", "image", "document") and role != "user":
        raise Refused(f"{place}: `{kind}` blocks can only be in user messages")
    if kind == "text" and not block["text"].strip():
        raise Refused(f"{place}: text content blocks must contain non-whitespace text")
    if kind == "thinking" and block["signature"] != signature(block["thinking"]):
        raise Refused(f"{place}: Invalid `signature` in `thinking` block")
    if kind == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]):
        raise Refused(f"{place}: tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if kind == "tool_use":
        check_names([block["name"]], TOOL_NAME)
    if kind == "image" and block["source"]["type"] == "base64":
        check_image(decode(block["source"]["data"]), block["source"]["media_type"], most_bytes=5 * 1024 * 1024 * 3 // 4)
    if (
        kind == "document"
        and block["source"]["type"] == "base64"
        and not decode(block["source"]["data"]).startswith(b"%PDF-")
    ):
        raise Refused(f"{place}: The PDF specified was not valid.")
    if kind == "tool_result" and isinstance(block.get("content"), list):
        for inner in block["content"]:
            check_block(inner, "user", f"{place}.tool_result")
        if block.get("is_error") and any(inner["type"] != "text" for inner in block["content"]):
            raise Refused(f"{place}: all content must be type `text` if `is_error` is true")


def blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def stream(answer: Answer, received: Received) -> Iterator[bytes | Hold | Break]:
    """Write an answer as server-sent events."""
    tokens = answer.tokens
    usage = {
        "input_tokens": tokens.input - tokens.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": 1,
    }
    message = {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": received.body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield event("message_start", message=message)
    yield event("ping")
    index = 0
    for part in answer.parts:
        if isinstance(part, Hold | Break):
            yield part
        elif isinstance(part, FailInStream):
            yield event("error", error={"type": part.kind, "message": part.message})
            return
        elif not isinstance(part, Decline):
            yield from block(index, part, thought=answer.has(Think))
            index += 1
    delta: dict[str, Any] = {"stop_reason": answer.stop or stop_reason(answer), "stop_sequence": None}
    declined = next((part for part in answer.parts if isinstance(part, Decline)), None)
    if declined is not None:
        delta["stop_details"] = {"type": "refusal", "category": None, "explanation": declined.text}
    yield event("message_delta", delta=delta, usage={"output_tokens": tokens.output})
    yield event("message_stop")


def block(index: int, part: Any, *, thought: bool) -> Iterator[bytes]:
    """Write one block of the content."""
    deltas: list[dict[str, Any]]
    if isinstance(part, Say):
        start: dict[str, Any] = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(part.text)]
    elif isinstance(part, Think):
        start = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(part.text)]
        deltas.append({"type": "signature_delta", "signature": signature(part.text)})
    elif isinstance(part, CallTool):
        prefix = "toolu_thought_" if thought else "toolu_"
        start = {"type": "tool_use", "id": prefix + part.id, "name": part.name, "input": {}}
        written = "" if part.arguments == {} else part.json
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces(written))]
    else:
        raise TypeError(f"Anthropic's models do not answer with {type(part).__name__}")
    yield event("content_block_start", index=index, content_block=start)
    for delta in deltas:
        yield event("content_block_delta", index=index, delta=delta)
    yield event("content_block_stop", index=index)


def stop_reason(answer: Answer) -> str:
    if answer.has(Decline):
        return "refusal"
    return "tool_use" if answer.has(CallTool) else "end_turn"


def event(kind: str, **members: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n".encode()


def error(failure: Failure) -> tuple[Any, dict[str, str]]:
    kind = failure.kind or KINDS.get(failure.status, "invalid_request_error")
    body = {"type": "error", "error": {"type": kind, "message": failure.message}, "request_id": "req_01"}
    return body, {"request-id": "req_01"}


async def models(request: Request) -> Response:
    try:
        check_key(dict(request.headers))
    except Refused as refused:
        return JSONResponse(error(Failure(refused.status, str(refused)))[0], refused.status)
    found = [
        {
            "type": "model",
            "id": name,
            "display_name": name.title(),
            "created_at": "2026-10-01T00:00:00Z",
            "lifecycle": "active",
        }
        for name in MODELS
    ]
    return JSONResponse({"data": found, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]})


VENDOR = Vendor({"/v1/messages": (check, stream)}, error, {"/v1/models": models})


@contextlib.contextmanager
def anthropic_endpoint(script: Script) -> Iterator[Endpoint]:
    """Serve the Messages API on a local port; ``environment`` sends Anthropic's SDK to it."""
    variables = {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": KEY}
    with serving(VENDOR, script, "", variables) as endpoint:
        yield endpoint
