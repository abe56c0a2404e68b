"""JSON Schemas (2020-12) of the arguments of operations, self-contained and bounded.

OpenAPI 3.1 schemas are JSON Schema; OpenAPI 3.0 schemas are a dialect, which is translated.
https://spec.openapis.org/oas/v3.0.4.html#schema-object
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from carrel.sources.openapi.document import ApiDocuments, Location
from carrel.sources.openapi.multipart import FILE, MULTIPART, files_of
from carrel.sources.openapi.operations import ApiOperation

__all__ = ["BODY", "Body", "Bundler", "arguments_schema", "body_of", "property_of"]

#: Values of all kinds in the schema of a tool, which a model has to read; further values are unrestricted.
MAX_VALUES = 4000
MAX_DEPTH = 60
BODY = "body"
#: Media types of request bodies that can be sent, best first.
SENDABLE = ("application/json", "application/x-www-form-urlencoded", MULTIPART, "text/plain")

Body: TypeAlias = tuple[str, dict[str, Any], bool, Location]
"""Request body: its media type, its media type object, whether it is required, and where it is described."""

_LITERAL = ("enum", "const", "default", "examples", "required", "dependentRequired", "type")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_DROPPED = (
    "example",
    "xml",
    "externalDocs",
    "discriminator",
    "nullable",
    "$id",
    "$schema",
    "$anchor",
    "$dynamicAnchor",
)


class Bundler:
    """Copies schemas. The schemas that they refer to are copied to ``definitions``."""

    def __init__(self, documents: ApiDocuments, *, request: bool = True, most: int = MAX_VALUES) -> None:
        self.definitions: dict[str, Any] = {}
        self._documents = documents
        self._names: dict[tuple[Location, str], str] = {}
        self._left = most
        self._request = request

    def copy(self, schema: Any, base: Location, depth: int = 0) -> Any:
        """Return a schema as JSON Schema, whose references are to ``#/$defs/…``."""
        if not isinstance(schema, dict):
            return schema if isinstance(schema, bool) else True
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            return {}
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema, base, depth)
        found: dict[str, Any] = {}
        for key, value in schema.items():
            if key in _DROPPED or key.startswith("x-") or not isinstance(key, str):
                continue
            if key in _LITERAL:
                found[key] = value
            elif key in _NAMED and isinstance(value, dict):
                found[key] = {str(name): self.copy(one, base, depth + 1) for name, one in value.items()}
            elif isinstance(value, dict):
                found[key] = self.copy(value, base, depth + 1)
            elif isinstance(value, list):
                found[key] = [self.copy(one, base, depth + 1) if isinstance(one, dict) else one for one in value]
            else:
                found[key] = value
        return self._translate(schema, found, base)

    def _reference(self, schema: Mapping[str, Any], base: Location, depth: int) -> dict[str, Any]:
        location, pointer = self._documents.target(schema["$ref"], base)
        name = self._names.get((location, pointer))
        if name is None:
            target = self._documents.at(location, pointer)
            wanted = (
                "".join(c if c.isalnum() or c in "_.-" else "_" for c in pointer.rpartition("/")[2])[:80] or "Schema"
            )
            name, count = wanted, 1
            while name in self.definitions:
                count += 1
                name = f"{wanted}_{count}"
            self._names[location, pointer] = name
            self.definitions[name] = {}
            self.definitions[name] = self.copy(target, location, depth + 1)
        found: dict[str, Any] = {"$ref": f"#/$defs/{name}"}
        if isinstance(schema.get("description"), str):
            found["description"] = schema["description"]
        return {"anyOf": [found, {"type": "null"}]} if schema.get("nullable") is True else found

    def _translate(self, schema: Mapping[str, Any], found: dict[str, Any], base: Location) -> dict[str, Any]:
        """Translate OpenAPI 3.0 keywords that JSON Schema does not have."""
        if schema.get("nullable") is True:
            if isinstance(found.get("type"), str):
                found["type"] = [found["type"], "null"]
            if isinstance(found.get("enum"), list) and None not in found["enum"]:
                found["enum"] = [*found["enum"], None]
        for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if isinstance(found.get(exclusive), bool) and found.pop(exclusive) and limit in found:
                found[exclusive] = found.pop(limit)
        if found.get("type") == "file":
            found["type"] = "string"
        required = found.get("required")
        if not isinstance(required, list):
            found.pop("required", None)
        elif self._request and isinstance(schema.get("properties"), dict):
            # A property that is only in responses is not required in requests.
            given = schema["properties"]
            found["required"] = [
                name
                for name in required
                if not (isinstance(given.get(name), dict) and given[name].get("readOnly") is True)
            ]
        return found


def body_of(documents: ApiDocuments, operation: ApiOperation) -> Body | None:
    """Return the media type of the request body that is sent, its media type object, and whether it is required.

    None if there is no body, or none of a type that can be sent.
    """
    raw, base = documents.resolve(operation.raw.get("requestBody"), operation.location)
    content = raw.get("content") if isinstance(raw, dict) else None
    if not isinstance(content, dict):
        return None
    kinds = {str(kind).partition(";")[0].strip().lower(): (str(kind), media) for kind, media in content.items()}
    order = [*SENDABLE, *(kind for kind in kinds if kind.endswith("+json") or kind.startswith("text/"))]
    for wanted in order:
        if wanted in kinds and isinstance(kinds[wanted][1], dict):
            return kinds[wanted][0], kinds[wanted][1], raw.get("required") is True, base
    return None


def body_schema(bundler: Bundler, documents: ApiDocuments, kind: str, schema: Any, base: Location) -> Any:
    """Return the schema of a body; files of a form are arguments with a special schema."""
    found, where = documents.resolve(schema, base)
    properties = found.get("properties") if isinstance(found, dict) else None
    if kind.partition(";")[0].strip().lower() != MULTIPART or not isinstance(properties, dict):
        return bundler.copy(schema, base)
    copied = bundler.copy(found, where)
    for name, several in files_of(documents, properties, where).items():
        copied["properties"][name] = {"type": "array", "items": FILE} if several else FILE
    return copied


def property_of(operation: ApiOperation) -> dict[str, Any]:
    """Return the parameters of an operation by the names of the arguments of its tool, each name once."""
    found: dict[str, Any] = {}
    for parameter in operation.parameters:
        name = parameter.name if parameter.name != BODY else f"{BODY}_{parameter.location}"
        found[name if name not in found else f"{parameter.name}_{parameter.location}"] = parameter
    return found


def arguments_schema(documents: ApiDocuments, operation: ApiOperation) -> dict[str, Any]:
    """Return the JSON Schema of the arguments of an operation: its parameters, and its body as ``body``."""
    bundler = Bundler(documents)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in property_of(operation).items():
        schema = bundler.copy(parameter.schema, operation.location)
        schema = schema if isinstance(schema, dict) else {}
        if parameter.description and "description" not in schema:
            schema = {**schema, "description": parameter.description[:1000]}
        properties[name] = schema
        required += [name] if parameter.required else []
    body = body_of(documents, operation)
    if body is not None:
        properties[BODY] = body_schema(bundler, documents, body[0], body[1].get("schema", {}), body[3])
        required += [BODY] if body[2] else []
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
        **({"$defs": bundler.definitions} if bundler.definitions else {}),
    }
