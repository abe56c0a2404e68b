"""OpenAI's Responses API and Chat Completions, and the checks that they make.

https://developers.openai.com/api/reference/resources/responses
https://developers.openai.com/api/reference/resources/chat
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from chat.endpoints import openai_chat, openai_responses
from chat.endpoints.openai_checks import MODELS, check_key
from chat.endpoints.party import KEY, Endpoint, Vendor, serving
from chat.endpoints.script import Failure, Script
from chat.endpoints.strict import Refused

__all__ = ["openai_endpoint"]

KINDS = {429: "rate_limit_error", 500: "server_error", 503: "server_error"}
CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded", 503: "server_is_overloaded"}


def error(failure: Failure) -> tuple[Any, dict[str, str]]:
    kind = KINDS.get(failure.status, "invalid_request_error")
    code = failure.kind if failure.kind and failure.kind != "invalid_request_error" else CODES.get(failure.status)
    return {"error": {"message": failure.message, "type": kind, "param": None, "code": code}}, {"x-request-id": "req_1"}


async def models(request: Request) -> Response:
    try:
        check_key(dict(request.headers))
    except Refused as refused:
        return JSONResponse(error(Failure(refused.status, str(refused)))[0], refused.status)
    found = [{"id": name, "object": "model", "created": 1790000000, "owned_by": "openai"} for name in MODELS]
    return JSONResponse({"object": "list", "data": found})


VENDOR = Vendor(
    {
        "/v1/responses": (openai_responses.check, openai_responses.stream),
        "/v1/chat/completions": (openai_chat.check, openai_chat.stream),
    },
    error,
    {"/v1/models": models},
)


@contextlib.contextmanager
def openai_endpoint(script: Script) -> Iterator[Endpoint]:
    """Serve both APIs on a local port; ``environment`` sends OpenAI's SDK to it.

    As an endpoint that is compatible with OpenAI's, name it by its URL: ``{endpoint.url}#gpt-6.2-sol``.
    """
    variables = {"OPENAI_BASE_URL": "{url}", "OPENAI_API_KEY": KEY}
    with serving(VENDOR, script, "/v1", variables) as endpoint:
        yield endpoint
