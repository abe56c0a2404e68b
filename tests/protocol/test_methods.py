"""The table of methods: its rows, and that nothing else in the package is a table of methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import carrel
from carrel.client.cache import CACHED
from carrel.protocol import methods
from carrel.protocol.extensions.skills import GET_SKILL, LIST_SKILLS, READ_DIRECTORY, SKILLS
from carrel.protocol.extensions.tasks import TASKS
from carrel.protocol.methods import (
    CALL_TOOL,
    COMPLETE,
    GET_PROMPT,
    LIST_TOOLS,
    LISTEN,
    READ_RESOURCE,
    SUBSCRIBE,
    NotificationType,
    RequestType,
)
from carrel.protocol.revisions import REQUESTS, REVISIONS, SERVER_REQUESTS
from carrel.wire.base import CacheableResult, ClientCapabilities, Params, Result
from carrel.wire.completion import CompleteParams, CompletionArgument, ResourceTemplateReference
from carrel.wire.lifecycle import ServerCapabilities
from carrel.wire.resources import ListenParams, ReadResourceParams, SubscriptionFilter
from carrel.wire.tools import CallToolParams

SOURCE = Path(carrel.__file__).parent
ROWS = [row for row in vars(methods).values() if isinstance(row, RequestType)]
ADDED = [row for extension in (SKILLS, TASKS) for row in extension.requests.values()]
EVENTS = {name for revision in REVISIONS.values() for name in revision.events}


def test_every_row_belongs_to_a_revision_and_every_request_of_a_revision_is_a_row() -> None:
    assert {*REQUESTS.values(), *SERVER_REQUESTS.values()} == set(ROWS)
    notifications = {row for row in vars(methods).values() if isinstance(row, NotificationType)}
    spoken = {
        row for each in REVISIONS.values() for row in (*each.client_notifications.values(), *each.events.values())
    }
    assert spoken == notifications


def test_a_constant_has_the_name_of_its_operation() -> None:
    for name, row in vars(methods).items():
        if isinstance(row, RequestType | NotificationType):
            assert name == row.operation.upper()


@pytest.mark.parametrize("row", [*ROWS, *ADDED], ids=lambda row: row.method)
def test_a_row_names_things_that_exist(row: RequestType) -> None:
    capabilities = ClientCapabilities if row in SERVER_REQUESTS.values() else ServerCapabilities
    assert row.capability is None or row.capability in capabilities.__struct_fields__
    assert set(row.stale_by) <= EVENTS
    assert not row.stale_by or row.cacheable, "only what is cached becomes stale"
    assert not row.cacheable or issubclass(row.result, CacheableResult)
    assert row.name_field is None or row.name_field in row.params.__struct_fields__
    assert row.target is None or row.target.partition(".")[0] in row.params.__struct_fields__
    if row.asks:
        assert {"input_responses", "request_state"} <= set(row.params.__struct_fields__)


def test_everything_about_a_resource_is_a_target_for_rules_even_in_extensions_that_say_nothing_of_it() -> None:
    class Place(Params, kw_only=True):
        uri: str
        name: str

    row = RequestType("com.example/open", "open", Place, Result, name_field="name")
    assert (row.target, row.names_resources) == ("uri", True)
    assert row.find_target(Place(uri="a:b", name="n")) == "a:b"
    assert {row.operation for row in (*ROWS, *ADDED) if row.names_resources} == {
        *("complete", "get_skill", "listen", "read_directory", "read_resource", "subscribe", "unsubscribe"),
    }


def test_the_target_is_found_where_the_row_says_it_is() -> None:
    reference = ResourceTemplateReference(uri="a:{b}")
    completed = CompleteParams(ref=reference, argument=CompletionArgument(name="b", value=""))
    assert COMPLETE.find_target(completed) is reference
    assert READ_RESOURCE.find_target(ReadResourceParams(uri="a:b")) == "a:b"
    assert CALL_TOOL.find_target(CallToolParams(name="t")) == "t"
    wanted = SubscriptionFilter(resource_subscriptions=["a:b"])
    assert LISTEN.find_target(ListenParams(notifications=wanted)) == ["a:b"]
    assert LISTEN.find_target(ListenParams(notifications=SubscriptionFilter())) is None
    assert methods.PING.find_target(Params()) is None


def test_what_was_delivered_may_be_sent_again_unless_it_does_something() -> None:
    assert {row.operation for row in (*ROWS, *ADDED) if not row.idempotent} == {
        *("call_tool", "elicit", "initialize", "listen", "sample", "update_task"),
    }


def test_the_verbs_are_those_of_access_control() -> None:
    verbs = {row: row.verb for row in (*ROWS, *ADDED)}
    assert (verbs[LIST_TOOLS], verbs[LIST_SKILLS]) == ("list", "list")
    assert (verbs[READ_RESOURCE], verbs[GET_SKILL], verbs[READ_DIRECTORY]) == ("read", "read", "list_directory")
    assert (verbs[SUBSCRIBE], verbs[LISTEN], verbs[COMPLETE]) == ("subscribe", "subscribe", "complete")
    assert (verbs[CALL_TOOL], verbs[GET_PROMPT]) == ("call", "get")
    for row in (*ROWS, *ADDED):
        assert row.verb is not None or not row.names_resources


def test_a_cache_forgets_what_the_rows_say() -> None:
    assert {row.operation: set(row.stale_by) for row in CACHED if row.stale_by} == {
        "get_skill": {"resource_updated", "resources_list_changed"},
        "list_prompts": {"prompts_list_changed"},
        "list_resource_templates": {"resources_list_changed"},
        "list_resources": {"resources_list_changed"},
        "list_skills": {"resource_updated", "resources_list_changed"},
        "list_tools": {"tools_list_changed"},
        "read_resource": {"resource_updated"},
    }


def test_each_list_has_the_notification_that_makes_it_stale_among_others() -> None:
    for row in (*ROWS, *ADDED):
        if row.item is not None and row.verb == "list":
            assert methods.LIST_NAMES[row.item] in row.stale_by
    assert methods.LIST_NAMES.keys() == {row.item for row in (*ROWS, *ADDED) if row.item is not None}


def test_a_row_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        CALL_TOOL.idempotent = True  # type: ignore[misc]
    assert msgspec.structs.replace(LIST_TOOLS, cacheable=False).cacheable is False
    assert Params().meta is None


# There is no other table

NAMES = {name for row in (*ROWS, *ADDED) for name in (row.method, row.operation)}


def literals(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """The collections of strings in a module, and its dicts from strings to anything that is written out."""
    exported = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__"
    ]
    for node in ast.walk(tree):
        if node in exported:
            continue
        if isinstance(node, ast.Set | ast.List | ast.Tuple):
            elements: list[Any] = node.elts
        elif isinstance(node, ast.Dict) and all(isinstance(value, ast.Constant | ast.Tuple) for value in node.values):
            elements = node.keys
        else:
            continue
        yield node.lineno, [each.value for each in elements if isinstance(each, ast.Constant)]


@pytest.mark.slow
def test_nothing_else_in_the_package_lists_methods_or_operations() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        # compat/ has the names of other libraries; record handles messages as they are on the wire.
        if place.as_posix() in ("protocol/methods.py", "cli/recording/recording.py") or place.parts[0] == "compat":
            continue
        text = path.read_text("utf-8")
        if sum(f'"{name}"' in text for name in NAMES) < 2:  # parsing takes long
            continue
        for line, words in literals(ast.parse(text)):
            if len(NAMES.intersection(word for word in words if isinstance(word, str))) > 1:
                found.append(f"{place}:{line}: {words}")
    assert found == []
