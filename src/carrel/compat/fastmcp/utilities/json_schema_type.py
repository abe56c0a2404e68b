"""Types from JSON Schemas: objects become dataclasses, so that clients read ``result.data.name``."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import keyword
import re
from functools import partial
from typing import Annotated, Any, Literal, Union

from pydantic import ConfigDict, Field

__all__ = ["json_schema_to_type"]

FORMATS = {"date-time": datetime.datetime, "date": datetime.date, "time": datetime.time}
SIMPLE = {"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)}


def json_schema_to_type(schema: dict[str, Any], name: str | None = None) -> Any:
    """Return the type of a JSON Schema."""
    return _Types(schema).of(schema, name or schema.get("title") or "Root")


class _Types:
    """Types of a schema and its definitions."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._definitions = {**root.get("definitions", {}), **root.get("$defs", {})}
        self._open: list[str] = []

    def of(self, schema: Any, name: str) -> Any:
        """Return the type of a schema; ``Any`` where it says nothing, and where definitions contain themselves."""
        if not isinstance(schema, dict):
            return Any
        if "$ref" in schema:
            return self._of_reference(schema["$ref"].rpartition("/")[2])
        if "const" in schema:
            return Literal[schema["const"]]
        if "enum" in schema:
            return Literal[tuple(schema["enum"])]
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self._union([self.of(each, name) for each in schema[key]])
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._union([self.of({**schema, "type": each}, name) for each in kind])
        if kind == "object" or "properties" in schema:
            return self._of_object(schema, name)
        if kind == "array":
            items = self.of(schema.get("items"), f"{name}Item")
            unhashable = dataclasses.is_dataclass(items) or getattr(items, "__origin__", None) in (list, dict)
            return set[items] if schema.get("uniqueItems") and not unhashable else list[items]  # type: ignore[valid-type]
        if kind == "string" and schema.get("format") in FORMATS:
            return FORMATS[schema["format"]]
        return SIMPLE.get(kind or "", Any)

    def _of_reference(self, name: str) -> Any:
        if name in self._open or name not in self._definitions:
            return Any
        self._open.append(name)
        try:
            return self.of(self._definitions[name], name)
        finally:
            self._open.pop()

    def _union(self, kinds: list[Any]) -> Any:
        return Union[tuple(kinds)] if kinds else Any  # noqa: UP007

    def _of_object(self, schema: dict[str, Any], name: str) -> Any:
        properties = schema.get("properties")
        if not properties:
            return dict[str, self.of(schema.get("additionalProperties"), f"{name}Value")]  # type: ignore[misc]
        required = schema.get("required", ())
        fields = []
        for key, value in properties.items():
            kind = self.of(value, key.capitalize())
            default = value.get("default") if isinstance(value, dict) else None
            field: Any = dataclasses.field()
            if key not in required:
                field = dataclasses.field(default_factory=partial(copy.deepcopy, default))
                kind = kind if default is not None else Union[kind, None]  # noqa: UP007
            attribute = _attribute(key)
            if attribute != key:
                kind = _aliased(kind, key)
            fields.append((attribute, kind, field))
        fields.sort(key=lambda each: each[2].default_factory is not dataclasses.MISSING)
        title = re.sub(r"\W", "_", schema.get("title") or name)
        made = dataclasses.make_dataclass(title if title.isidentifier() else "Root", fields)
        made.__pydantic_config__ = ConfigDict(populate_by_name=True)  # type: ignore[attr-defined]
        return made


def _attribute(key: str) -> str:
    found = re.sub(r"\W", "_", key)
    return found if found.isidentifier() and not keyword.iskeyword(found) else f"field_{found}"


def _aliased(kind: Any, key: str) -> Any:
    return Annotated[kind, Field(validation_alias=key)]
