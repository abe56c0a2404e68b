"""Checks that OpenAI's two APIs share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from chat.endpoints.party import KEY
from chat.endpoints.strict import Refused, check_image, check_names, check_schema, decode

__all__ = ["MODELS", "check_data_url", "check_functions", "check_key", "check_model"]

MODELS = ("gpt-6.2-astra", "gpt-6.2-sol", "gpt-6.1-terra", "gpt-6-luna", "gpt-audio", "llama3.3:70b", "qwen3:8b")
TOOL_NAME = r"[a-zA-Z0-9_-]{1,64}"
#: The largest image, in bytes.
MAX_IMAGE = 50 * 1024 * 1024


def check_key(headers: Mapping[str, str]) -> None:
    """Refuse a request without the key; local servers do not look at it."""
    if headers.get("authorization") not in (f"Bearer {KEY}", "Bearer not-needed"):
        raise Refused("Incorrect API key provided", 401, "invalid_api_key")


def check_model(name: str) -> None:
    if name not in MODELS:
        raise Refused(f"The model `{name}` does not exist or you do not have access to it.", 404, "model_not_found")


def check_functions(functions: Iterable[Mapping[str, Any]]) -> None:
    """Refuse functions with bad names or schemas; with ``strict``, those outside of the strict subset."""
    functions = list(functions)
    check_names([function["name"] for function in functions], TOOL_NAME)
    for function in functions:
        name, schema = function["name"], function.get("parameters")
        if schema is None:
            continue
        check_schema(name, schema, banned=("oneOf", "anyOf", "allOf", "enum", "not"))
        if "properties" not in schema:
            raise Refused(f"Invalid schema for function {name!r}: object schema missing properties", kind="invalid")
        if function.get("strict"):
            properties = set(schema["properties"])
            if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != properties:
                raise Refused(f"Invalid schema for function {name!r}: strict needs every property in 'required'")


def check_data_url(url: str) -> tuple[bytes, str]:
    """Return the bytes and type of a data URL; refuse an image that is none."""
    found = re.fullmatch(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", url, re.DOTALL)
    if found is None:
        raise Refused("Invalid data URL")
    data = decode(found[2])
    if found[1].startswith("image/"):
        if found[1] not in ("image/png", "image/jpeg", "image/gif", "image/webp"):
            raise Refused(f"unsupported image: {found[1]}", kind="unsupported_image_media_type")
        check_image(data, found[1], most_bytes=MAX_IMAGE, most_pixels=100_000)
    return data, found[1]
