"""Gemini API of Google: streamGenerateContent, with thought signatures, and the checks that it makes.

https://ai.google.dev/api/generate-content
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from chat.endpoints.party import KEY, Endpoint, Received, Vendor, serving
from chat.endpoints.script import (
    Answer,
    Break,
    CallTool,
    Decline,
    Draw,
    FailInStream,
    Failure,
    Hold,
    Say,
    Script,
    Speak,
    Think,
    pieces,
)
from chat.endpoints.strict import Refused, check_image, check_names, check_schema

if TYPE_CHECKING:
    from google.genai import types

__all__ = ["gemini_endpoint"]

MODELS = ("gemini-3.8-flash", "gemini-3.1-pro-preview", "gemini-2.5-flash")
TOOL_NAME = r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}"
#: Signatures: that of the endpoint, and the one that Google has for the calls of other models.
SIGNATURES = (b"signed", b"skip_thought_signature_validator")
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
#: Keywords of JSON Schema that ``parametersJsonSchema`` supports.
KEYWORDS = {
    "$anchor",
    "$defs",
    "$id",
    "$ref",
    "additionalProperties",
    "anyOf",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "oneOf",
    "prefixItems",
    "properties",
    "propertyOrdering",
    "required",
    "title",
    "type",
}


def check_key(headers: dict[str, str]) -> None:
    if headers.get("x-goog-api-key") != KEY:
        raise Refused("API key not valid. Please pass a valid API key.", 400, "API_KEY_INVALID")


def check(received: Received) -> None:
    """Refuse what the Gemini API refuses."""
    from chat.endpoints.gemini_request import Body

    check_key(received.headers)
    model = received.path.rpartition("/")[2].partition(":")[0]
    if model not in MODELS:
        raise Refused(f"models/{model} is not found for this API version", 404)
    try:
        body = Body.model_validate_json(json.dumps(received.body), by_name=True)
    except ValidationError as error:
        places = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()[:4])
        raise Refused(f"Invalid JSON payload received: {places}") from None
    check_functions(body.tools or [])
    mode = body.tool_config and body.tool_config.function_calling_config
    if mode and mode.mode == "ANY" and not body.tools:
        raise Refused("Function calling config is set without function_declarations.")
    check_contents(body.contents, received.body["contents"], signed=model.startswith("gemini-3"))


def check_functions(tools: list[types.Tool]) -> None:
    functions = [each for tool in tools for each in tool.function_declarations or []]
    check_names([each.name or "" for each in functions], TOOL_NAME)
    for each in functions:
        if each.parameters is not None and each.parameters_json_schema is not None:
            raise Refused("only one of parameters and parameters_json_schema may be set")
        if each.parameters_json_schema is not None:
            check_schema(each.name or "", each.parameters_json_schema)
            check_keywords(each.parameters_json_schema)


def check_keywords(schema: Any) -> None:
    if not isinstance(schema, dict):
        return
    if unknown := set(schema) - KEYWORDS:
        raise Refused(f"Unknown keywords in parameters_json_schema: {', '.join(sorted(unknown))}")
    for part in (schema.get("items"), *(schema.get("properties") or {}).values(), *schema.get("anyOf", [])):
        check_keywords(part)


def check_contents(contents: list[types.Content], raw: list[dict[str, Any]], *, signed: bool) -> None:
    if not contents:
        raise Refused("GenerateContentRequest.contents: contents is not specified")
    if contents[-1].role != "user":
        raise Refused("Please ensure that multiturn requests end with a user role.")
    last_question = max(
        (
            number
            for number, content in enumerate(contents)
            if content.role == "user" and not any(part.function_response for part in content.parts or [])
        ),
        default=0,
    )
    for number, content in enumerate(contents):
        if content.role not in ("user", "model"):
            raise Refused("Please use a valid role: user, model.")
        if not content.parts:
            raise Refused(f"contents[{number}].parts must not be empty.")
        for part, written in zip(content.parts, raw[number]["parts"], strict=True):
            check_part(part, written)
        calls = [part for part in content.parts if part.function_call]
        if calls and (content.role != "model" or number == 0 or contents[number - 1].role != "user"):
            raise Refused(
                "Please ensure that function call turn comes immediately after a user turn or after a function "
                "response turn."
            )
        if calls and signed and number > last_question and not calls[0].thought_signature:
            raise Refused("Function call is missing a thought_signature in functionCall parts.")
        if any(part.thought_signature not in (None, *SIGNATURES) for part in content.parts):
            raise Refused("Thought signature is not valid.")
        answered = contents[number + 1].parts or [] if number + 1 < len(contents) else []
        check_responses(calls, [part for part in answered if part.function_response])


def check_responses(calls: list[types.Part], responses: list[types.Part]) -> None:
    if len(calls) != len(responses):
        raise Refused(
            "Please ensure that the number of function response parts is equal to the number of function call parts of "
            "the function call turn."
        )
    called = sorted((str(part.function_call.id), part.function_call.name or "") for part in calls if part.function_call)
    answered = sorted(
        (str(part.function_response.id), part.function_response.name or "")
        for part in responses
        if part.function_response
    )
    if called != answered:
        raise Refused(f"function responses {answered} do not match function calls {called}")


def check_part(part: types.Part, written: dict[str, Any]) -> None:
    data = {"text", "inlineData", "functionCall", "functionResponse", "fileData"} & set(written)
    if len(data) != 1:
        raise Refused("contents.parts must have one initialized field of the oneof 'data'.")
    if part.text == "" and not part.thought_signature:
        raise Refused("Unable to submit request because it must have a text parameter that is not empty.")
    blobs = [part.inline_data] if part.inline_data else []
    if part.function_response:
        if part.function_response.response is None:
            raise Refused("function_response.response: required")
        blobs += [each.inline_data for each in part.function_response.parts or [] if each.inline_data]
    for blob in blobs:
        data_, mime_type = blob.data or b"", blob.mime_type or ""
        if re.match(r"(image|audio|video|text)/|application/pdf", mime_type) is None:
            raise Refused(f"Unsupported MIME type: {mime_type}")
        if mime_type.startswith("image/"):
            check_image(data_, mime_type, most_bytes=20 * 1024 * 1024, most_pixels=100_000)
        if mime_type == "application/pdf" and not data_.startswith(b"%PDF-"):
            raise Refused("The document has no pages.")


def stream(answer: Answer, received: Received) -> Iterator[bytes | Hold | Break]:
    """Write an answer as chunks of ``alt=sse``."""
    model = received.path.rpartition("/")[2].partition(":")[0]
    signed = False
    for part in answer.parts:
        if isinstance(part, Hold | Break):
            yield part
        elif isinstance(part, FailInStream):
            yield b"data: " + json.dumps(error(Failure(503, part.message))[0]).encode() + b"\r\n\r\n"
            return
        elif not isinstance(part, Decline):
            for written in parts(part):
                if "functionCall" in written and not signed:
                    written["thoughtSignature"] = base64.b64encode(b"signed").decode()
                    signed = True
                yield chunk({"candidates": [candidate([written])]}, answer, model)
    declined = next((part for part in answer.parts if isinstance(part, Decline)), None)
    if declined is not None and len(answer.parts) == 1:
        feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": declined.text}
        yield chunk({"promptFeedback": feedback}, answer, model, last=True)
        return
    stop: dict[str, Any] = {"finishReason": answer.stop or ("SAFETY" if declined else "STOP")}
    if declined is not None:
        stop["finishMessage"] = declined.text
    yield chunk({"candidates": [{**candidate([{"text": ""}]), **stop}]}, answer, model, last=True)


def candidate(written: list[dict[str, Any]]) -> dict[str, Any]:
    return {"content": {"parts": written, "role": "model"}, "index": 0}


def chunk(members: dict[str, Any], answer: Answer, model: str, *, last: bool = False) -> bytes:
    tokens = answer.tokens
    usage = {"promptTokenCount": tokens.input, "totalTokenCount": tokens.input + tokens.output}
    if tokens.cached:
        usage["cachedContentTokenCount"] = tokens.cached
    if last:
        usage |= {"candidatesTokenCount": tokens.output - tokens.output // 2, "thoughtsTokenCount": tokens.output // 2}
    message = {**members, "usageMetadata": usage, "modelVersion": model, "responseId": "response-1"}
    return b"data: " + json.dumps(message).encode() + b"\r\n\r\n"


def parts(part: Any) -> Iterator[dict[str, Any]]:
    """Give the parts in which one part of an answer is streamed; function calls come whole."""
    if isinstance(part, Say):
        yield from ({"text": piece} for piece in pieces(part.text))
    elif isinstance(part, Think):
        yield from ({"text": piece, "thought": True} for piece in pieces(part.text))
    elif isinstance(part, CallTool):
        if isinstance(part.arguments, str):
            raise TypeError('Gemini does not pass on broken arguments: Answer(stop="MALFORMED_FUNCTION_CALL")')
        yield {"functionCall": {"id": part.id, "name": part.name, "args": part.arguments}}
    elif isinstance(part, Draw | Speak):
        yield {"inlineData": {"mimeType": part.mime_type, "data": base64.b64encode(part.data).decode()}}
    else:
        raise TypeError(f"Gemini does not answer with {type(part).__name__}")


def error(failure: Failure) -> tuple[Any, dict[str, str]]:
    status = STATUSES.get(failure.status, "UNKNOWN")
    details: list[dict[str, Any]] = []
    if failure.kind == "API_KEY_INVALID":
        details.append({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"})
    if failure.retry_after is not None:
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{failure.retry_after:g}s"})
    body = {"code": failure.status, "message": failure.message, "status": status, "details": details}
    return {"error": body}, {}


async def models(request: Request) -> Response:
    try:
        check_key(dict(request.headers))
    except Refused as refused:
        return JSONResponse(error(Failure(refused.status, str(refused), refused.kind))[0], refused.status)
    found = [
        {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": ["generateContent"]}
        for name in MODELS
    ]
    found.append({"name": "models/gemini-embedding-2", "supportedGenerationMethods": ["embedContent"]})
    return JSONResponse({"models": found})


VERSIONS = ("v1", "v1beta")
VENDOR = Vendor(
    {f"/{version}/models/{{model}}:streamGenerateContent": (check, stream) for version in VERSIONS},
    error,
    {f"/{version}/models": models for version in VERSIONS},
)


@contextlib.contextmanager
def gemini_endpoint(script: Script) -> Iterator[Endpoint]:
    """Serve the Gemini API on a local port; ``environment`` sends Google's SDK to it."""
    variables = {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": KEY}
    with serving(VENDOR, script, "", variables) as endpoint:
        yield endpoint
