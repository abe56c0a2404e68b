"""JSON Schemas that somebody wrote: validation, dialects, references, bounds."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.errors import ConfigError
from carrel.protocol.json_schema import MAX_DEPTH, MAX_INSTANCE_DEPTH, MAX_SIZE, Validator
from carrel.protocol.json_values import InvalidArguments
from support.examples import examples
from support.processor_time import loops

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 10},
        "sizes": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        "unit": {"enum": ["m", "cm"]},
        "at": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def refusal(schema: dict[str, Any], instance: Any) -> InvalidArguments:
    with pytest.raises(InvalidArguments) as caught:
        Validator(schema).validate(instance)
    return caught.value


def nested(levels: int, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


# Validation


def test_what_fits_is_accepted():
    validator = Validator(SCHEMA)
    validator.validate({"name": "a", "sizes": [1, 2.0], "unit": "m", "at": None})
    validator.validate({"name": "b"})


@pytest.mark.parametrize(
    ("instance", "parameter", "path", "message"),
    [
        ({}, "name", "name", "Argument `name` is required, but missing"),
        ({"name": 1}, "name", "name", 'Argument `name`: 1 is not of type "string"'),
        ({"name": "a", "colour": 1}, "colour", "colour", "Argument `colour` is unknown"),
        ({"name": "a", "sizes": [1, 0]}, "sizes", "sizes[1]", "Argument `sizes[1]`: 0 is less than the minimum of 1"),
        ({"name": "a", "unit": "km"}, "unit", "unit", 'Argument `unit`: "km" is not one of "m" or "cm"'),
        ([], None, None, 'The argument: [] is not of type "object"'),
    ],
)
def test_invalid_values_are_refused_with_their_path(instance, parameter, path, message):
    error = refusal(SCHEMA, instance)
    assert (str(error), error.parameter, error.path) == (message, parameter, path)


def test_a_value_that_fits_no_alternative_is_told_why():
    error = refusal(SCHEMA, {"name": "a", "at": "x"})
    assert error.parameter == "at"
    assert '"x" is not of type "integer"' in str(error)
    assert '"x" is not of type "null"' in str(error)


def test_results_are_called_results():
    with pytest.raises(InvalidArguments, match=r"^Result `name` is required"):
        Validator(SCHEMA, "result").validate({})


def test_messages_stay_short_and_keep_the_reason():
    error = refusal(SCHEMA, {"name": "x" * 100_000})
    assert len(str(error)) < 400
    assert str(error).endswith("is longer than 10 characters")
    assert len(str(refusal({"type": "object", "additionalProperties": False}, {"x" * 100_000: 1}))) < 400


@pytest.mark.parametrize("value", [b"x", {1: 2}, object(), "\ud800"], ids=lambda value: type(value).__name__)
def test_values_that_are_not_json_are_refused(value):
    with pytest.raises(InvalidArguments):
        Validator({}).validate(value)


@pytest.mark.slow
def test_deep_values_are_refused_before_they_end_the_process():
    validator = Validator({"type": "array", "items": {"$ref": "#"}})
    validator.validate(nested(MAX_INSTANCE_DEPTH - 1, []))
    for levels in (MAX_INSTANCE_DEPTH + 1, 100_000):
        with pytest.raises(InvalidArguments, match="nested deeper"):
            validator.validate(nested(levels))
        with pytest.raises(InvalidArguments, match="nested deeper"):
            Validator({}).validate({"a": nested(levels)})


# Dialects


@pytest.mark.parametrize(
    ("dialect", "schema", "accepted", "refused"),
    [
        (None, {"prefixItems": [{"type": "integer"}]}, ["1"], None),
        ("https://json-schema.org/draft/2020-12/schema", {"prefixItems": [{"type": "integer"}]}, [1], ["x"]),
        ("https://json-schema.org/draft/2019-09/schema", {"items": [{"type": "integer"}]}, [1], ["x"]),
        ("http://json-schema.org/draft-07/schema#", {"items": [{"type": "integer"}]}, [1], ["x"]),
        ("http://json-schema.org/draft-07/schema", {"items": [{"type": "integer"}]}, [1], ["x"]),
        ("https://json-schema.org/draft-07/schema#", {"items": [{"type": "integer"}]}, [1], ["x"]),
    ],
)
def test_the_dialect_of_a_schema_is_honoured(dialect, schema, accepted, refused):
    if dialect is None:
        validator = Validator(schema)
        validator.validate([1])
        with pytest.raises(InvalidArguments):
            validator.validate(accepted)
        return
    validator = Validator({"$schema": dialect, **schema})
    validator.validate(accepted)
    with pytest.raises(InvalidArguments):
        validator.validate(refused)


@pytest.mark.parametrize("dialect", ["http://json-schema.org/draft-04/schema#", "urn:mine", "", 7, None])
def test_an_unknown_dialect_is_refused_by_name(dialect):
    with pytest.raises(ConfigError, match=f"dialect {dialect} is not supported"):
        Validator({"$schema": dialect})
    with pytest.raises(ConfigError, match="is not supported"):
        Validator({"$defs": {"a": {"$schema": dialect}}})


# References


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:9/schema",
        "https://example.com/schema#/$defs/a",
        "file:///etc/passwd",
        "other.json",
        "/etc/passwd",
        "//example.com/schema",
        "ftp://example.com",
        "urn:example:a",
    ],
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef", "$recursiveRef"])
def test_references_to_the_outside_are_refused_at_once(reference, keyword):
    for schema in (
        {keyword: reference},
        {"properties": {"a": {"items": {keyword: reference}}}},
        {"$defs": {"default": {keyword: reference}}},
        {"properties": {"enum": {keyword: reference}}},
        {"anyOf": [{"not": {keyword: reference}}]},
    ):
        with pytest.raises(ConfigError, match="external references are never fetched"):
            Validator(schema)


def test_an_invalid_uri_is_refused():
    for schema in ({"$ref": "http://["}, {"$id": "http://[", "$ref": "a"}):
        with pytest.raises(ConfigError, match=r"is not a URI|external references"):
            Validator(schema)


def test_data_that_looks_like_a_reference_is_not_one():
    Validator({"const": {"$ref": "http://127.0.0.1:9/a"}}).validate({"$ref": "http://127.0.0.1:9/a"})
    Validator({"properties": {"$ref": {"type": "string"}}}).validate({"$ref": "http://127.0.0.1:9/a"})


@pytest.mark.slow
def test_a_reference_that_hides_in_data_is_not_fetched_either():
    asked = []

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        uri = f"http://127.0.0.1:{server.server_port}/schema"
        try:
            with pytest.raises(ConfigError):
                Validator({"$ref": "#/const", "const": {"$ref": uri}}).validate(1)
            with pytest.raises(ConfigError):
                Validator({"$schema": uri})
        finally:
            server.shutdown()
            thread.join()
    assert asked == []


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"a": {"type": "integer"}}, "$ref": "#/$defs/a"},
        {"$defs": {"a": {"$anchor": "here", "type": "integer"}}, "$ref": "#here"},
        {"$defs": {"a": {"$id": "https://example.com/a", "type": "integer"}}, "$ref": "https://example.com/a"},
        {"$id": "https://example.com/root", "$defs": {"a": {"$id": "a", "type": "integer"}}, "$ref": "a"},
        {"$defs": {"a b/c": {"type": "integer"}}, "$ref": "#/$defs/a%20b~1c"},
    ],
)
def test_references_within_the_schema_are_followed(schema):
    validator = Validator(schema)
    validator.validate(1)
    with pytest.raises(InvalidArguments):
        validator.validate("x")


def test_a_schema_may_refer_to_its_dialect():
    validator = Validator({"$ref": "https://json-schema.org/draft/2020-12/schema"})
    validator.validate({"type": "string"})
    with pytest.raises(InvalidArguments):
        validator.validate({"type": "nothing"})


def test_recursive_schemas_work():
    validator = Validator({"type": "object", "properties": {"next": {"$ref": "#"}}, "additionalProperties": False})
    validator.validate({"next": {"next": {}}})
    assert refusal(validator.schema, {"next": {"last": 1}}).path == "next.last"


# Bounds


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"anyOf": [{"type": "integer"}, {"$ref": "#"}]},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"},
        {"if": True, "then": {"not": {"$ref": "#"}}},
    ],
)
def test_a_schema_that_refers_to_itself_without_end_is_refused(schema):
    with pytest.raises(ConfigError, match="without end"):
        Validator(schema)


def test_a_schema_that_multiplies_is_refused():
    definitions: dict[str, Any] = {"a0": {"type": "integer"}}
    for index in range(1, 40):
        reference = {"$ref": f"#/$defs/a{index - 1}"}
        definitions[f"a{index}"] = {"anyOf": [{"allOf": [reference, {"minimum": index}]}, reference]}
    with pytest.raises(ConfigError, match="compares one value with more than"):
        Validator({"$ref": "#/$defs/a39", "$defs": definitions})


@pytest.mark.parametrize("kind", ["$anchor", "$dynamicAnchor", "$id", "items"])
def test_a_schema_that_multiplies_by_other_references_or_level_by_level_is_refused(kind):
    definitions: dict[str, Any] = {}
    for index in range(40):
        name = {"$id": f"http://a/{index + 1}", "items": f"#/$defs/a{index + 1}"}.get(kind, f"#x{index + 1}")
        reference = {"$dynamicRef" if kind == "$dynamicAnchor" else "$ref": name}
        address = {} if kind == "items" else {kind: f"http://a/{index}" if kind == "$id" else f"x{index}"}
        inner = {"allOf": [reference, reference]}
        definitions[f"a{index}"] = {**address, **({"items": inner} if kind == "items" else inner)}
    definitions["a40"] = {"$id": "http://a/40"}
    with pytest.raises(ConfigError, match="compares one value with more than"):
        Validator({"$ref": "http://a/0" if kind == "$id" else "#/$defs/a0", "$defs": definitions})


ALTERNATIVES = [{"type": "array", "items": {"$ref": "#"}}, {"type": "array", "items": {"$ref": "#"}, "minItems": 0}]


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_a_deep_value_that_fits_none_of_the_alternatives_of_a_recursive_schema_is_refused_at_once(keyword):
    schema = {keyword: ALTERNATIVES, "type": ["array"]}
    assert "not valid under any" in str(refusal(schema, [[0]])) or keyword == "allOf"
    said = []
    assert loops(lambda: said.append(refusal(schema, nested(150, [0])))) < 500
    assert "too large to say where" in str(said[0])


def test_many_errors_in_alternatives_are_not_all_collected():
    schema = {"anyOf": [{"items": {"type": "integer"}}, {"items": {"type": "boolean"}}]}
    assert '"x" is not of type "integer"' in str(refusal(schema, ["x"] * 3))
    said = []
    assert loops(lambda: said.append(refusal(schema, ["x"] * 200_000))) < 500
    assert "too large to say where" in str(said[0])
    assert refusal({"items": {"type": "integer"}}, [1] * 100_000 + ["x"]).path == "[100000]"


@pytest.mark.slow
def test_a_value_that_is_too_large_for_a_heavy_schema_is_refused():
    heavy = {"items": {"anyOf": [{"required": [f"a{number}"]} for number in range(10_000)]}}
    Validator(heavy).validate([{"a9999": 1}] * 1_000)
    with pytest.raises(InvalidArguments, match="too large to be checked"):
        Validator(heavy).validate([{"a9999": 1}] * 100_000)


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(x+x+)+y", r"^(\w+\s?)*$"])
def test_patterns_take_linear_time(pattern):
    for schema in ({"pattern": pattern}, {"patternProperties": {pattern: False}, "additionalProperties": False}):
        text = "a" * 500_000 + "!"
        value = {text: 1} if "patternProperties" in schema else text
        assert loops(lambda schema=schema, value=value: refusal(schema, value)) < 500


@pytest.mark.parametrize("pattern", ["^(?=a)b", "^(?!a)", r"(a)\1", "(?<=a)b"])
def test_patterns_that_cannot_take_linear_time_are_refused_with_their_place(pattern):
    with pytest.raises(ConfigError, match=r"properties\.slug\.pattern.*linear time") as refused:
        Validator({"properties": {"slug": {"pattern": pattern}}})
    assert json.dumps(pattern) in str(refused.value)
    with pytest.raises(ConfigError, match="linear time"):
        Validator({"patternProperties": {pattern: {}}})


def test_an_untrusted_pattern_is_not_matched_against_text_of_any_length():
    schema = {"pattern": "^[ab]*a[ab]{5000}[cd]+[ab]*a[ab]{5000}[^x]$"}
    Validator(schema).validate(3)
    with pytest.raises(InvalidArguments, match="too large"):
        Validator(schema, foreign=True).validate("ab" * 500_000)
    Validator({"pattern": "^[0-9a-f]{8}-[0-9a-f]{4}$"}, foreign=True).validate("01234567-0123")


def test_backtracking_of_untrusted_patterns_is_limited():
    schema = {"pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"}  # how pydantic writes a decimal number
    validator = Validator(schema, foreign=True)
    validator.validate("12.50")
    with pytest.raises(InvalidArguments):
        validator.validate("12.50 EUR")
    hostile = Validator({"items": {"pattern": r"^(?=(a+)+$)(a+)+\1b"}}, foreign=True)

    def refuse() -> None:
        with pytest.raises(InvalidArguments):
            hostile.validate(["a" * 1000] * 1000)
        with pytest.raises(InvalidArguments, match="too large"):
            hostile.validate(["a"] * 100_000)

    assert loops(refuse) < 5000


def test_large_objects_to_choose_from_are_refused():
    with pytest.raises(ConfigError, match="compares one value"):
        Validator({"enum": [{"a": number} for number in range(10_000)]})
    Validator({"enum": [f"a{number}" for number in range(10_000)]}).validate("a77")


@pytest.mark.slow
def test_items_of_large_arrays_are_compared_with_each_other_in_no_more_than_seconds():
    items = [{"a": [number]} for number in range(100_000)]
    assert loops(lambda: Validator({"uniqueItems": True}).validate(items)) < 5000


def test_a_schema_that_is_too_deep_or_too_large_is_refused():
    with pytest.raises(ConfigError, match="nested deeper"):
        Validator({"properties": {"a": nested(MAX_DEPTH, {})}})
    with pytest.raises(ConfigError, match=f"over {MAX_SIZE} values"):
        Validator({"enum": list(range(MAX_SIZE))})
    endless: dict[str, Any] = {}
    endless["not"] = endless
    with pytest.raises(ConfigError, match="nested too deeply"):
        Validator(endless)


@pytest.mark.parametrize("schema", [True, [], "{}", None, 1])
def test_a_schema_has_to_be_an_object(schema):
    with pytest.raises(ConfigError, match="is an object here"):
        Validator(schema)


def test_a_schema_has_to_be_json():
    with pytest.raises(ConfigError, match="must be JSON"):
        Validator({"const": object()})


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "text"},
        {"properties": []},
        {"required": "name"},
        {"minimum": "1"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#nowhere"},
        {"allOf": {}},
    ],
    ids=json.dumps,
)
def test_an_invalid_schema_is_found_by_check_and_at_the_first_use(schema):
    with pytest.raises(ConfigError, match="The JSON Schema is invalid"):
        Validator(schema).check()
    with pytest.raises(ConfigError, match="The JSON Schema is invalid"):
        Validator(schema).validate({})


def test_a_schema_is_a_copy():
    schema: dict[str, Any] = {"properties": {"a": {"type": "integer"}}}
    validator = Validator(schema)
    schema["properties"]["a"]["type"] = "string"
    validator.validate({"a": 1})


@pytest.mark.slow
def test_the_validator_is_loaded_at_the_first_use():
    code = """
import sys
from carrel.protocol.json_schema import Validator
validator = Validator({"type": "object"})
print("jsonschema_rs" in sys.modules)
validator.validate({})
print("jsonschema_rs" in sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.split() == ["False", "True"]


KEYWORDS = st.sampled_from(
    [
        *("type", "properties", "items", "anyOf", "allOf", "not", "if", "then", "$ref", "$id", "$schema", "$defs"),
        *("enum", "const", "required", "pattern", "dependentSchemas", "additionalProperties", "a", "$anchor"),
    ]
)
LEAVES = st.sampled_from(
    [None, True, 1, 1.5, "object", "string", "#", "#/$defs/a", "#a", "a", "http://[", "http://x", "(", "%", "\ud800"]
)
ANYTHING = st.recursive(
    LEAVES, lambda items: st.lists(items, max_size=3) | st.dictionaries(KEYWORDS, items, max_size=3), max_leaves=10
)


@given(st.dictionaries(KEYWORDS, ANYTHING, max_size=5), ANYTHING)
@settings(max_examples=examples(125), deadline=None)
def test_hostile_schemas_and_values_raise_documented_errors_only(schema, instance):
    try:
        Validator(schema).validate(instance)
    except (ConfigError, InvalidArguments) as error:
        told = str(error)
        assert len(told) < 1000
