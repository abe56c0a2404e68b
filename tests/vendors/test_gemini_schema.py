"""JSON Schema in Gemini's subset."""

from __future__ import annotations

from typing import Any

import pytest

from carrel.vendors.gemini_schema import gemini_schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "minLength": 1}, {"type": "STRING", "minLength": 1}),
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"type": "INTEGER", "nullable": True}),
        ({"type": "string", "format": "uri"}, {"type": "STRING", "description": "(format uri)"}),
        ({"type": "string", "format": "date-time"}, {"type": "STRING", "format": "date-time"}),
        ({"const": "all"}, {"type": "STRING", "enum": ["all"], "format": "enum"}),
        ({"enum": ["a", None]}, {"type": "STRING", "enum": ["a"], "format": "enum", "nullable": True}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "INTEGER", "description": "(one of: 1, 2)"}),
        ({"type": "string", "enum": ["", "x"]}, {"type": "STRING", "description": '(one of: "", "x")'}),
        (
            {"type": "number", "description": "Ratio", "exclusiveMinimum": 0, "maximum": 1, "default": 0.5},
            {"type": "NUMBER", "maximum": 1, "description": "Ratio (more than 0; default 0.5)"},
        ),
        (
            {"type": ["string", "integer"], "description": "Id"},
            {"anyOf": [{"type": "STRING", "description": "Id"}, {"type": "INTEGER", "description": "Id"}]},
        ),
        ({"type": "array", "items": {"type": "string"}}, {"type": "ARRAY", "items": {"type": "STRING"}}),
        (
            {"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}], "items": False},
            {"type": "ARRAY", "items": {"type": "NUMBER"}, "maxItems": 2},
        ),
        (
            {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a", "gone"], "x-own": 1},
            {"type": "OBJECT", "properties": {"a": {"type": "BOOLEAN"}}, "required": ["a"]},
        ),
        ({"type": "string", "properties": {"a": {}}, "required": ["a"]}, {"type": "STRING"}),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"type": "OBJECT", "description": '(each value is of the schema {"type":"integer"})'},
        ),
        (
            {
                "allOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {"type": "string"}}}],
                "$defs": {"A": {"type": "object"}},
            },
            {"type": "OBJECT", "properties": {"b": {"type": "STRING"}}},
        ),
    ],
)  # fmt: skip
def test_keywords_are_converted(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert gemini_schema(schema) == expected


def test_what_allows_everything_is_a_choice_of_types() -> None:
    found = gemini_schema({"type": "object", "properties": {"a": True, "b": {"description": "any"}}})["properties"]
    assert [choice["type"] for choice in found["a"]["anyOf"]] == ["STRING", "NUMBER", "BOOLEAN", "OBJECT"]
    assert found["b"]["anyOf"][0] == {"type": "STRING", "description": "any"}


def test_any_of_stands_alone() -> None:
    found = gemini_schema(
        {
            "description": "Where",
            "default": None,
            "oneOf": [
                {"type": "object", "properties": {"x": {"type": "number"}}, "description": "A point."},
                {"anyOf": [{"type": "string"}, {"type": "null"}]},
            ],
        }
    )
    assert found == {
        "anyOf": [
            {"type": "OBJECT", "properties": {"x": {"type": "NUMBER"}}, "description": "Where A point."},
            {"type": "STRING", "nullable": True, "description": "Where"},
        ]
    }
