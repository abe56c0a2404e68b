"""Output schemas of GET operations: a lenient version of the described schema of the response.

Descriptions are seldom exact: values are null unexpectedly, members are missing, enumerations grow. A client rejects a
result that does not match its schema, so the schema contains types and names, and no constraints:

    {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer", "minimum": 1}}}
    ->  {"type": "object", "properties": {"id": {"type": ["integer", "null"]}}}
"""

from __future__ import annotations

from typing import Any

from carrel.sources.openapi.document import ApiDocuments
from carrel.sources.openapi.operations import ApiOperation, kind_of, settle
from carrel.sources.openapi.schemas import Bundler

__all__ = ["result_schema"]

#: Values of all kinds in an output schema; further values are unrestricted.
MAX_VALUES = 1000
WORDS = ("title", "description", "$ref")
TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})


def result_schema(documents: ApiDocuments, operation: ApiOperation) -> dict[str, Any] | None:
    """Return the schema of the response of a GET operation; None if the response is not always the same kind of JSON
    object.
    """
    responses = operation.raw.get("responses")
    if operation.method != "get" or not isinstance(responses, dict):
        return None
    successes = [given for status, given in responses.items() if str(status)[:1] == "2"]
    if len(successes) != 1:
        return None
    response, base = documents.resolve(successes[0], operation.location)
    content = response.get("content") if isinstance(response, dict) else None
    if not isinstance(content, dict) or len(content) != 1:
        return None
    [(kind, media)] = content.items()
    schema = media.get("schema") if isinstance(media, dict) else None
    settled, _ = settle(documents, schema, base)
    if "json" not in str(kind).lower() or not settled or kind_of(settled) != "object":
        return None
    bundler = Bundler(documents, request=False, most=MAX_VALUES)
    found = lenient(bundler.copy(schema, base))
    found["type"] = "object"
    if bundler.definitions:
        found["$defs"] = {name: lenient(one) for name, one in bundler.definitions.items()}
    return found


def lenient(schema: Any) -> dict[str, Any]:
    """Return a schema with nullable types and names, and without other constraints."""
    if not isinstance(schema, dict):
        return {}
    found: dict[str, Any] = {word: schema[word] for word in WORDS if isinstance(schema.get(word), str)}
    kinds = schema.get("type")
    named = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind in TYPES]
    if named:
        found["type"] = list(dict.fromkeys([*named, "null"]))
    properties = schema.get("properties")
    if isinstance(properties, dict):
        found["properties"] = {name: lenient(one) for name, one in properties.items()}
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            found[word] = lenient(schema[word])
    parts = schema.get("allOf")
    if isinstance(parts, list):
        found["allOf"] = [lenient(part) for part in parts]
    for word in ("anyOf", "oneOf"):
        parts = schema.get(word)
        if isinstance(parts, list) and parts:
            found["anyOf"] = [lenient(part) for part in parts] + [{"type": "null"}]
    return found
