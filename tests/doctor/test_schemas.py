"""The schemas of the revisions, and what they find wrong in messages."""

import pytest

from carrel.doctor.rules import RULES, link
from carrel.doctor.schemas import Judge, definition_of, validator
from carrel.doctor.use import example_of
from carrel.protocol.revisions import REVISIONS


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_request_of_a_revision_has_a_definition(revision):
    methods = [row.method for row in REVISIONS[revision].requests.values() if not row.method.startswith("tasks/")]
    assert [method for method in methods if definition_of(revision, method) is None] == []
    assert validator(revision, "ListToolsResult").is_valid({"tools": []}) == (revision != "2026-07-28")


def test_messages_are_judged_by_the_request_that_they_answer():
    judge = Judge("2025-11-25")
    judge.sent({"id": 1, "method": "tools/list"})
    judge.sent({"id": 2, "method": "ping"})
    ok = {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}
    assert list(judge.received([ok, {"jsonrpc": "2.0", "id": 2, "result": {}}])) == []
    (wrong,) = judge.received(
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": 5, "inputSchema": {"type": "object"}}]}}
    )
    assert wrong == 'tools/list: ListToolsResult/tools/0/name: 5 is not of type "string"'
    assert list(judge.received({"jsonrpc": "2.0", "id": 9, "error": {"code": "x", "message": "m"}}))
    assert list(judge.received("text")) == ["a message is not an object"]
    assert list(judge.received({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))


def test_links_lead_to_the_page_of_the_revision():
    assert link(RULES["noise"], "2026-07-28").endswith("/2026-07-28/basic/transports/stdio")
    assert link(RULES["noise"], "2025-06-18").endswith("/2025-06-18/basic/transports")


def test_examples_fit_the_schema_they_are_made_from():
    fields = {"a": {"type": "integer", "minimum": 3}, "b": {"enum": ["x"]}, "c": {"type": "string", "minLength": 6}}
    schema = {"type": "object", "properties": {**fields, "d": {"type": "string"}}, "required": ["a", "b", "c"]}
    assert example_of(schema) == {"a": 3, "b": "x", "c": "testxx"}
    assert example_of({"anyOf": [{"type": "boolean"}, {"type": "null"}]}) is False
    assert example_of({"type": "array", "items": {"type": "null"}, "minItems": 2}) == [None, None]
