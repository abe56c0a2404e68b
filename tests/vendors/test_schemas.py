"""Input schemas as vendors accept them."""

from __future__ import annotations

import re
from typing import Any

from carrel.vendors.schemas import MAX_SCHEMAS, inlined, object_schema, renamed, restored

NODE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "name": {"type": "string"}}}},
}


def schemas_in(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(schemas_in, value.values()))
    return sum(map(schemas_in, value)) if isinstance(value, list) else 0


def test_an_object_with_its_references_stays_as_it_is() -> None:
    assert object_schema(NODE) == NODE


def test_a_schema_without_a_type_or_properties_is_of_an_object() -> None:
    assert object_schema({}) == {"type": "object", "properties": {}}
    assert object_schema({"properties": None, "type": ["object"]}) == {"type": "object", "properties": {}}


def test_choices_at_the_root_are_merged() -> None:
    found = object_schema(
        {
            "anyOf": [
                {"properties": {"id": {"type": "integer"}, "by": {"type": "string"}}, "required": ["id", "by"]},
                {"properties": {"name": {"type": "string"}, "by": {"type": "boolean"}}, "required": ["name", "by"]},
            ],
            "allOf": [{"properties": {"dry": {"type": "boolean"}}, "required": ["dry"]}],
        }
    )
    assert set(found) == {"type", "properties", "required"}
    assert set(found["properties"]) == {"id", "name", "by", "dry"}
    assert found["properties"]["by"] == {"anyOf": [{"type": "string"}, {"type": "boolean"}]}
    assert set(found["required"]) == {"by", "dry"}


def test_a_reference_at_the_root_is_resolved() -> None:
    found = object_schema({"$ref": "#/$defs/Node", **NODE})
    assert set(found["properties"]) == {"root"}  # what stands beside the reference wins
    assert object_schema({"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"x": {}}}}})["properties"] == {"x": {}}


def test_older_dialects_are_rewritten() -> None:
    found = object_schema(
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "properties": {
                "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False},
                "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1},
                "old": {"type": "string", "required": True},
                "wrong": "string",
            },
        }
    )
    assert "$schema" not in found
    assert found["properties"] == {
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False},
        "ratio": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "old": {"type": "string"},
        "wrong": {},
    }


def test_references_are_inlined_and_a_schema_that_contains_itself_ends() -> None:
    found = inlined(NODE)
    node = found["properties"]["root"]
    assert node["properties"] == {"next": {"type": "object"}, "name": {"type": "string"}}
    assert "$defs" not in found


def test_what_stands_beside_a_reference_is_kept() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/A", "description": "here"}}, "$defs": {"A": {"type": "string"}}}
    assert inlined(schema)["properties"]["a"] == {"type": "string", "description": "here"}


def test_references_to_other_places_allow_everything() -> None:
    schema = {"properties": {"a": {"$ref": "https://example.org/a.json"}, "b": {"$ref": "#/$defs/none"}}}
    assert inlined(schema)["properties"] == {"a": {}, "b": {}}


def test_references_that_multiply_are_bounded() -> None:
    defs: dict[str, Any] = {
        f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}, {"$ref": f"#/$defs/d{level + 1}", "title": "b"}]}
        for level in range(40)
    }
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": {**defs, "d40": {}}}
    assert schemas_in(inlined(schema)) < 4 * MAX_SCHEMAS
    assert object_schema({**schema, "allOf": [{"$ref": "#/$defs/d0"}, {"$ref": "#"}]})["type"] == "object"


def test_a_schema_nested_too_deeply_is_cut() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(5000):
        schema = {"type": "object", "properties": {"x": schema}}
    assert object_schema(schema)["properties"]["x"]["type"] == "object"


def test_properties_get_names_that_are_allowed_and_arguments_their_own_back() -> None:
    allowed = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
    schema = object_schema(
        {"properties": {"$top": {}, "top": {}, "x" * 70: {}, "": {}, "ok": {}}, "required": ["$top"]}
    )
    new, originals = renamed(schema, allowed)
    assert len(new["properties"]) == 5
    assert all(map(allowed.fullmatch, new["properties"]))
    (top,) = new["required"]
    assert top in new["properties"]
    assert restored({top: 5, "ok": 1}, originals) == {"$top": 5, "ok": 1}
    assert {originals.get(name, name) for name in new["properties"]} == set(schema["properties"])
