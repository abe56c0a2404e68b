"""Checks that all endpoints share: the SDK's own types taken strictly, tool names and schemas, images."""

from __future__ import annotations

import base64
import binascii
import io
import re
from typing import Any

import jsonschema
from PIL import Image
from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

__all__ = ["Refused", "check_image", "check_names", "check_schema", "check_types", "decode", "strictly"]


class Refused(Exception):
    """Request that the vendor refuses. ``kind`` is the vendor's name of the error."""

    def __init__(self, message: str, status: int = 400, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


def strictly(type_: Any) -> SchemaValidator:
    """Return a validator of an SDK's ``TypedDict``: it reads iterables at once, and refuses keys that are not there.

    SDKs take their own response models in requests too; on the wire those are objects like any others.
    """
    schema: Any = TypeAdapter(type_).core_schema
    models = {each["ref"] for each in schema.get("definitions", ()) if each["type"] == "model"}

    def is_model(each: Any) -> bool:
        each = each[0] if isinstance(each, tuple) else each
        if each["type"] == "union":
            return all(is_model(choice) for choice in each["choices"])
        return each["type"] == "model" or (each["type"] == "definition-ref" and each["schema_ref"] in models)

    def walk(each: Any) -> Any:
        if isinstance(each, list):
            return [walk(item) for item in each]
        if isinstance(each, tuple):
            return tuple(walk(item) for item in each)
        if not isinstance(each, dict):
            return each
        each = {key: value if key in ("metadata", "serialization") else walk(value) for key, value in each.items()}
        config = each.get("config") or {}
        if each.get("type") == "generator":
            each["type"] = "list"
        elif each.get("type") == "typed-dict" and config.get("extra_fields_behavior") != "allow":
            each["extra_behavior"] = "forbid"
        elif each.get("type") == "union":
            each["choices"] = [choice for choice in each["choices"] if not is_model(choice)] or each["choices"]
        return each

    return SchemaValidator(walk(schema))


def check_types(validator: SchemaValidator, body: Any) -> None:
    """Refuse a body that the SDK's type does not allow; the message names the deepest places that do not fit."""
    try:
        validator.validate_python(body)
    except ValidationError as error:
        found = sorted(error.errors(), key=lambda each: -len(each["loc"]))[:4]
        places = "; ".join(f"{'.'.join(map(str, each['loc']))[-200:]}: {each['msg']}" for each in found)
        raise Refused(f"{error.error_count()} places do not fit: {places}") from None


def check_names(names: list[str], pattern: str) -> None:
    """Refuse tool names that do not match, and those that are there twice."""
    for name in names:
        if re.fullmatch(pattern, name) is None:
            raise Refused(f"tools: name {name!r} should match pattern '{pattern}'")
    if len(set(names)) != len(names):
        raise Refused("tools: Tool names must be unique.")


def check_schema(name: str, schema: Any, *, banned: tuple[str, ...] = ()) -> None:
    """Refuse what is no JSON Schema of an object, or has one of the ``banned`` keywords at its top."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise Refused(f"Invalid schema for function {name!r}: schema must be a JSON Schema of 'type: \"object\"'")
    for keyword in banned:
        if keyword in schema:
            raise Refused(f"Invalid schema for function {name!r}: {keyword} is not supported at the top level")
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise Refused(f"Invalid schema for function {name!r}: {error.message}") from None


def decode(data: str) -> bytes:
    """Return the bytes of base64, which must be valid."""
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        raise Refused("invalid base64 data") from None


def check_image(data: bytes, mime_type: str, *, most_bytes: int, most_pixels: int = 8000) -> None:
    """Refuse an image that is too large, is none, or is of another type than declared."""
    if len(data) > most_bytes:
        raise Refused(f"image exceeds {most_bytes} bytes: {len(data)} bytes")
    try:
        with Image.open(io.BytesIO(data)) as image:
            found, size = Image.MIME.get(image.format or ""), image.size
    except Exception:
        raise Refused("Could not process image") from None
    if found != mime_type:
        raise Refused(f"Image does not match the provided media type {mime_type}: it is {found}")
    if max(size) > most_pixels:
        raise Refused(f"At least one of the image dimensions exceeds max allowed size: {most_pixels} pixels")
