"""The tables of the revisions are those of the specifications, and nobody else knows a method or a date."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from typing import get_type_hints

import pytest

import carrel
import carrel.protocol.extensions
from carrel.protocol.extension import Extension
from carrel.protocol.methods import RequestType, Result
from carrel.protocol.revision import without
from carrel.protocol.revisions import CLIENT_NOTIFICATIONS, LATEST, LATEST_HANDSHAKE, REQUESTS, REVISIONS
from carrel.wire.base import CacheableResult, Params
from carrel.wire.completion import CompleteResult
from carrel.wire.content import AudioContent, TextContent
from carrel.wire.lifecycle import DiscoverResult, InitializeResult
from carrel.wire.prompts import GetPromptResult, ListPromptsResult
from carrel.wire.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    Resource,
)
from carrel.wire.tools import CallToolResult, ListToolsResult
from support.server_connection import ALL, HANDSHAKES, NOVEMBER
from support.server_connection import LATEST as NEWEST

SOURCE = Path(carrel.__file__).parent

COMMON = {
    "completion/complete",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "tools/call",
    "tools/list",
}
SESSION = {"initialize", "logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"}
FROM_SESSION_CLIENTS = {
    "notifications/cancelled",
    "notifications/initialized",
    "notifications/progress",
    "notifications/roots/list_changed",
}
FROM_SERVERS = {
    "notifications/cancelled",
    "notifications/message",
    "notifications/progress",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/tools/list_changed",
}

#: Pages to visit and tasks, which only 2025-11-25 has in this form.
TASKS = {"tasks/cancel", "tasks/get", "tasks/list", "tasks/result"}
NOVEMBER_EVENTS = {"notifications/elicitation/complete", "notifications/tasks/status"}

#: ClientRequest, ClientNotification and ServerNotification of each schema.
METHODS = {
    **dict.fromkeys(HANDSHAKES, (COMMON | SESSION, FROM_SESSION_CLIENTS, FROM_SERVERS)),
    NOVEMBER: (COMMON | SESSION | TASKS, FROM_SESSION_CLIENTS, FROM_SERVERS | NOVEMBER_EVENTS),
    NEWEST: (
        COMMON | {"server/discover", "subscriptions/listen"},
        {"notifications/cancelled"},
        FROM_SERVERS | {"notifications/subscriptions/acknowledged"},
    ),
}

#: The results that the schema of 2026-07-28 derives from CacheableResult, by method.
CACHEABLE = {
    "server/discover": DiscoverResult,
    "resources/list": ListResourcesResult,
    "resources/templates/list": ListResourceTemplatesResult,
    "resources/read": ReadResourceResult,
    "prompts/list": ListPromptsResult,
    "tools/list": ListToolsResult,
}


@pytest.mark.parametrize("name", ALL)
def test_a_client_may_send_what_the_specification_lists_and_nothing_else(name: str) -> None:
    requests, announcements, events = METHODS[name]
    revision = REVISIONS[name]
    assert set(revision.requests) == requests
    assert set(revision.client_notifications) == announcements
    assert {row.method for row in revision.events.values()} == events


def test_the_revisions_are_named_by_their_dates_newest_first() -> None:
    assert list(REVISIONS) == sorted(ALL, reverse=True)
    assert all(revision.name == name for name, revision in REVISIONS.items())
    assert LATEST.name == NEWEST
    assert LATEST_HANDSHAKE.name == NOVEMBER


@pytest.mark.parametrize("name", ALL)
def test_rows_are_filed_under_their_own_method(name: str) -> None:
    revision = REVISIONS[name]
    assert all(row.method == method for method, row in revision.requests.items())
    assert all(row.method == method for method, row in revision.client_notifications.items())
    assert all(issubclass(row.params, Params) for row in revision.requests.values())


def test_operations_have_one_name_in_all_revisions() -> None:
    for method, row in REQUESTS.items():
        same = {revision.requests[method].operation for revision in REVISIONS.values() if method in revision.requests}
        assert same == {row.operation}
    assert len({row.operation for row in REQUESTS.values()}) == len(REQUESTS)
    assert len({row.operation for row in CLIENT_NOTIFICATIONS.values()}) == len(CLIENT_NOTIFICATIONS)


def test_the_operations_that_the_schema_calls_cacheable_are_cacheable() -> None:
    assert {method for method, row in REQUESTS.items() if row.cacheable} == set(CACHEABLE)
    assert all(issubclass(result, CacheableResult) for result in CACHEABLE.values())
    assert not any(issubclass(kind, CacheableResult) for kind in (CallToolResult, GetPromptResult, CompleteResult))


def test_the_name_header_repeats_the_name_or_the_uri() -> None:
    fields = {method: row.name_field for method, row in REQUESTS.items() if row.name_field is not None}
    assert fields == {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    for method, field in fields.items():
        assert field in get_type_hints(REQUESTS[method].params)


@pytest.mark.parametrize(
    ("flag", "revisions"),
    [
        ("stateless", {NEWEST}),
        ("batches", {"2025-03-26"}),
        ("anonymous_errors", {NOVEMBER, NEWEST}),
        ("resumable", {"2025-03-26", "2025-06-18", NOVEMBER}),
        ("primed", {NOVEMBER}),
        ("argument_errors_in_results", {NOVEMBER, NEWEST}),
        ("resource_metadata", {"2025-06-18", NOVEMBER, NEWEST}),
        ("pkce_advertised", {NOVEMBER, NEWEST}),
    ],
)
def test_a_revision_has_the_traits_that_its_specification_gives_it(flag: str, revisions: set[str]) -> None:
    assert {name for name, revision in REVISIONS.items() if getattr(revision, flag)} == revisions


def test_not_found_has_its_own_code_until_it_became_invalid_params() -> None:
    assert {name: revision.not_found for name, revision in REVISIONS.items()} == {
        **dict.fromkeys(HANDSHAKES, -32002),
        NEWEST: -32602,
    }


# Completing results


def test_a_result_of_a_handshake_revision_gets_nothing_added() -> None:
    result = ReadResourceResult(contents=[])
    for name in HANDSHAKES:
        revision = REVISIONS[name]
        assert revision.complete(result, revision.requests["resources/read"], {"a": 1}, 5, "public") is result


def test_a_stateless_result_says_its_type_its_server_and_how_long_it_is_fresh() -> None:
    row = LATEST.requests["resources/read"]
    done = LATEST.complete(ReadResourceResult(contents=[]), row, {"server": 1}, 5000, "public")
    assert isinstance(done, ReadResourceResult)
    assert (done.result_type, done.meta, done.ttl_ms, done.cache_scope) == ("complete", {"server": 1}, 5000, "public")


def test_what_a_result_says_itself_is_kept() -> None:
    row = LATEST.requests["resources/read"]
    mine = ReadResourceResult(
        contents=[], result_type="input_required", meta={"own": 2, "server": 9}, ttl_ms=1, cache_scope="private"
    )
    done = LATEST.complete(mine, row, {"server": 1}, 5000, "public")
    assert isinstance(done, ReadResourceResult)
    assert (done.result_type, done.ttl_ms, done.cache_scope) == ("input_required", 1, "private")
    assert done.meta == {"server": 9, "own": 2}


def test_completing_a_result_leaves_the_original_alone() -> None:
    original = ReadResourceResult(contents=[])
    LATEST.complete(original, LATEST.requests["resources/read"], {"server": 1}, 5000, "public")
    assert original == ReadResourceResult(contents=[])


def test_results_that_cannot_be_cached_get_no_hint() -> None:
    done = LATEST.complete(CallToolResult(content=[]), LATEST.requests["tools/call"], {}, 5000, "public")
    assert not hasattr(done, "ttl_ms")


# Deltas


def test_a_delta_without_effect_gives_back_the_same_object() -> None:
    resource = Resource("a:b", "b")
    assert without("title", "icons")(resource) is resource
    assert without("title")(Resource("a:b", "b", title="B")) == Resource("a:b", "b")


def test_projecting_leaves_the_original_alone() -> None:
    block = AudioContent(b"x", "audio/wav", meta={"a": 1})
    for revision in REVISIONS.values():
        revision.project(CallToolResult(content=[block], structured_content=[1], meta={"b": 1}))
        revision.project(block)
    assert block == AudioContent(b"x", "audio/wav", meta={"a": 1})


def test_the_next_revision_keeps_what_its_delta_does_not_name() -> None:
    row = RequestType("x/y", "y", Params, Result)
    following = LATEST.followed_by("later", requests={"x/y": row})
    assert (following.name, following.requests, following.before) == ("later", {"x/y": row}, {})
    assert (following.stateless, following.events) == (True, LATEST.events)


def test_a_value_that_never_changed_is_not_copied() -> None:
    value = TextContent("x")
    assert all(revision.project(value) is value for revision in REVISIONS.values())
    assert isinstance(InitializeResult, type)


# Who may know


def literals_with(words: Iterable[str]) -> list[tuple[str, str]]:
    """Return the place and the text of each string of the package with one of the words, except in docstrings."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        place, text = path.relative_to(SOURCE), path.read_text("utf-8")
        if not outside(place) or not any(word in text for word in words):  # parsing takes long
            continue
        nodes = list(ast.walk(ast.parse(text)))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        strings = [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        code = [(f"{place}:{node.lineno}", str(node.value)) for node in strings if id(node) not in docstrings]
        found += [(at, value) for at, value in code if any(word in value for word in words)]
    return found


def extensions() -> list[Extension]:
    """The tables of extensions that there are."""
    names = [part.name for part in pkgutil.iter_modules(carrel.protocol.extensions.__path__)]
    modules = [importlib.import_module(f"carrel.protocol.extensions.{name}") for name in names]
    return [value for module in modules for value in vars(module).values() if isinstance(value, Extension)]


def test_the_tables_of_extensions_are_like_those_of_revisions() -> None:
    assert len({extension.name for extension in extensions()}) == len(extensions()) > 0
    for extension in extensions():
        for method, row in extension.requests.items():
            assert row.method == method
            assert issubclass(row.params, Params)
            assert method not in LATEST.requests
            # Parameters are read before it is known whose method this is.
            assert row.params is REQUESTS.get(method, row).params


def outside(path: Path) -> bool:
    # compat/ has types and names of other libraries; doctor and record handle messages as they are on the wire.
    if path.parts[0] in ("compat", "doctor") or path.as_posix() == "cli/recording/recording.py":
        return False
    return path.parts[:2] not in (("protocol", "revisions"), ("protocol", "extensions"), ("protocol", "methods.py"))


@pytest.mark.slow
def test_no_date_of_a_revision_is_written_anywhere_else() -> None:
    assert literals_with(ALL) == []


@pytest.mark.slow
def test_no_method_is_written_anywhere_else() -> None:
    methods = {
        *REQUESTS,
        *CLIENT_NOTIFICATIONS,
        *(row.method for revision in REVISIONS.values() for row in revision.events.values()),
        *(method for extension in extensions() for method in extension.requests),
    }
    methods -= {"initialize", "ping"}  # also what we call these operations
    found = literals_with({*methods, "notifications/"})
    assert [(place, text) for place, text in found if text.strip() in methods or "notifications/" in text] == []
