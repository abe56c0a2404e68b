"""Which scopes a request needs."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.errors import ConfigError
from carrel.protocol.server import Call
from carrel.security.scopes import Pattern, Scopes, spellings
from carrel.server.app import Server

RULES = {
    "*": "base",
    "tools/call": ["tools"],
    "tools/call delete_*": "delete",
    "tools/call exact": "exact",
    "prompts/get": "",
    "prompts/get review": "review",
    "secret://*": "secret",
    "file:///srv/contracts/*": "contracts legal",
    "resources/read https://example.org/a": "a",
}


def call(method: str, **params: Any) -> Call:
    body = {"jsonrpc": "2.0", "id": 1, "method": method}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    connection = Server("x").connect()
    if method in ("resources/subscribe", "resources/unsubscribe"):
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        opening = connection.receive(msgspec.json.encode({**body, "method": "initialize", "params": hello}))
        assert isinstance(opening, Call)
        connection.initialize(opening)
        message = connection.receive(msgspec.json.encode({**body, "params": params}))
    else:
        message = connection.receive(msgspec.json.encode({**body, "params": {**params, "_meta": meta}}))
    assert isinstance(message, Call), message
    return message


def needed(method: str, **params: Any) -> set[str]:
    return set(Scopes(RULES, {}).needed(call(method, **params)))


def test_all_rules_that_fit_count_together():
    assert needed("tools/call", name="add") == {"tools"}
    assert needed("tools/call", name="delete_book") == {"tools", "delete"}
    assert needed("tools/call", name="exact") == {"tools", "exact"}
    assert needed("tools/call", name="exactly") == {"tools"}
    assert needed("prompts/get", name="review") == {"review"}
    assert needed("prompts/get", name="exact") == set()
    assert needed("tools/list") == set()
    assert Scopes(RULES, {}).everywhere == {"base"}


def test_a_resource_needs_its_scopes_however_it_is_named():
    for method in ("resources/read", "resources/subscribe", "resources/unsubscribe"):
        assert needed(method, uri="secret://plan") == {"secret"}, method
        assert needed(method, uri="open://plan") == set(), method
    several = {"resourceSubscriptions": ["open://x", "secret://a", "file:///srv/contracts/1"]}
    assert needed("subscriptions/listen", notifications=several) == {"secret", "contracts", "legal"}
    assert needed("resources/read", uri="https://example.org/a") == {"a"}
    assert needed("resources/subscribe", uri="https://example.org/a") == set()


@pytest.mark.parametrize(
    ("template", "typed", "before", "scopes"),
    [
        ("secret://{name}", "", {}, {"secret"}),
        ("file:///srv/{+path}", "no", {}, set()),
        ("file:///srv/{+path}", "contracts/", {}, {"contracts", "legal"}),
        ("file:///srv/{area}/{+path}", "1", {"area": "contracts"}, {"contracts", "legal"}),
        ("file:///srv/{area}/{+path}", "1", {"area": "public"}, set()),
        ("file:///srv/{+path}{?page,size}", "contracts/1", {}, {"contracts", "legal"}),
        ("secret://", "x", {}, {"secret"}),
        ("x{", "secret://", {}, set()),
    ],
)
def test_completing_a_resource_needs_what_reading_it_would(
    template: str, typed: str, before: dict[str, str], scopes: set[str]
):
    name = "name" if "name" in template else "path"
    reference = {"type": "ref/resource", "uri": template}
    argument = {"name": name, "value": typed}
    found = needed("completion/complete", ref=reference, argument=argument, context={"arguments": before})
    assert found == scopes
    assert needed("completion/complete", ref={"type": "ref/prompt", "name": "p"}, argument=argument) == set()


@pytest.mark.parametrize(
    "uri",
    [
        "file:///srv/contracts/1",
        "FILE:///srv/contracts/1",
        "file://localhost/srv/contracts/1",
        "file://LOCALHOST/srv/contracts/1",
        "file:///srv/%63ontracts/1",
        "file:///srv/contracts%2F1",
        "file:///srv/Contracts/1",
        "file:///srv//contracts/1",
        "file:///srv/./contracts/1",
        "file:///srv/public/../contracts/1",
        "file:///srv/public/%2e%2E/contracts/1",
        "file:///srv\\contracts\\1",
        "file:///srv/contracts/1?tail=5",
        "file:///srv/contracts/1#x",
        "file:///srv/contracts/?tail=5",
        "file:///srv/contracts/ 1",
    ],
)
def test_other_spellings_of_a_uri_need_the_same(uri: str):
    assert needed("resources/read", uri=uri) == {"contracts", "legal"}


def test_an_exact_uri_is_guarded_with_a_query_and_a_slash_too():
    scopes = Scopes({"file:///a/secret.txt": "s"}, {})
    for uri in (
        "file:///a/secret.txt",
        "file:///a/secret.txt?lines=1-2",
        "file:///a/secret.txt/",
        "file:///a/secret.txt//",
    ):
        assert scopes.needed_to_read(uri) == {"s"}, uri
    assert scopes.needed_to_read("file:///a/secret.txt2") == set()


def test_letters_that_are_written_in_two_ways_are_one():
    scopes = Scopes({"file:///é/*": "s"}, {})
    for uri in ("file:///%C3%A9/x", "file:///e\u0301/x", "file:///E%CC%81/x", "file:///\xc9/x"):
        assert scopes.needed_to_read(uri) == {"s"}, uri


def test_reading_by_way_of_a_tool_takes_what_reading_takes():
    scopes = Scopes({**RULES, "resources/read": "read"}, {})
    assert scopes.needed_to_read("secret://x") == {"base", "read", "secret"}
    assert scopes.needed_to_read("https://example.org/a") == {"base", "read", "a"}


def test_scopes_hold_others():
    scopes = Scopes({"*": "read"}, {"admin": "write delete", "write": ["read"], "read": "write"})
    assert scopes.expand(["admin"]) == {"admin", "write", "delete", "read"}
    assert scopes.expand(["delete"]) == {"delete"}
    assert scopes.expand([]) == set()


def test_what_clients_should_ask_for_at_first_is_what_everything_needs():
    assert Scopes(RULES, {}).basic == {"base"}
    assert Scopes({"tools/call": "t", "tools/call x": "x", "s://*": "s"}, {}).basic == {"t"}
    assert Scopes(RULES, {}).known == {
        "base",
        "tools",
        "delete",
        "exact",
        "review",
        "secret",
        "contracts",
        "legal",
        "a",
    }


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("", "neither a method"),
        (" ", "neither a method"),
        ("tools", "neither a method"),
        ("/", "neither a method"),
        ("tools/Call", "did you mean tools/call"),
        ("tool/call x", "did you mean tools/call"),
        ("resource/read", "did you mean resources/read"),
        ("skills/got", "did you mean skills/get"),
        ("tools/list x", "name nothing"),
        ("file:///a b", "spaces"),
        ("tool calls", "neither a method"),
    ],
)
def test_a_rule_for_nothing_is_refused(target: str, complaint: str):
    with pytest.raises(ConfigError, match=complaint):
        Scopes({target: "x"}, {})


def test_methods_of_extensions_may_have_rules():
    scopes = Scopes({"skills/get": "skills", "tasks/cancel": "stop", "example/search": "search"}, {})
    assert scopes.known == {"skills", "stop", "search"}


@given(pattern=st.text("ab*", max_size=8), text=st.text("ab", max_size=10))
def test_patterns_match_as_regular_expressions_would(pattern: str, text: str):
    import re

    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
    assert Pattern(pattern).matches(text) == expected


@given(uri=st.text(max_size=80))
def test_anything_can_be_asked_about(uri: str):
    Scopes({"secret://*": "s", "*": "b"}, {}).needed_to_read(uri)


@given(path=st.text(st.characters(codec="utf-8", exclude_characters="%?#\\\x00"), max_size=40))
def test_everything_below_a_guarded_place_is_guarded(path: str):
    assert Scopes({"secret://*": "s"}, {}).needed_to_read(f"secret://{path}") == {"s"}


@pytest.mark.parametrize("piece", ["a", "/../", "%2e", "{", "/", "*", "é", "\\"])
def test_long_uris_take_linear_time(piece: str):
    scopes = Scopes({"a://*x*x*x*x*y": "s", "secret://*": "s"}, {})
    uri = "a://" + piece * (65536 // len(piece))
    began = time.perf_counter()
    scopes.needed_to_read(uri)
    assert time.perf_counter() - began < 0.5
    assert len(spellings(uri)) <= 4
