"""Which scopes a request needs."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carrel.errors import ConfigError
from carrel.protocol.principal import View
from carrel.protocol.server import Call
from carrel.security.server.scopes import Pattern, Scopes, names_of
from carrel.server.app import Server
from carrel.uri.parse import UriError, file_path, resolve
from support.examples import examples
from support.processor_time import loops
from support.protected_folder import PROTECTED, VERBS, Guarded, fill, guarded

RULES = {
    "*": "base",
    "tools/call": ["tools"],
    "tools/call delete_*": "delete",
    "tools/call exact": "exact",
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
    connection = Server("x").endpoint.connect()
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


def to_read(scopes: Scopes, uri: str) -> frozenset[str]:
    """Return the scopes that are required to read a resource."""
    return scopes.required_by("resources/read") | scopes.of_resource(uri, reading=True)


def view_of(scopes: Scopes, *granted: str) -> View:
    view = scopes.view(frozenset(granted))
    assert view is not None
    return view


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
        ("x{", "secret://", {}, {"secret", "contracts", "legal"}),
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
        "file:/srv/contracts/1",
        "FILE:/srv/%63ontracts/1",
        "file:///srv/%63ontracts/1",
        "file:///srv/Contracts/1",
        "file:///srv/contracts/1/",
        "file:///srv/contracts/1?tail=5",
        "file:///srv/contracts/?tail=5",
        "file:/srv/contracts",
    ],
)
def test_other_spellings_of_a_uri_need_the_same(uri: str):
    assert needed("resources/read", uri=uri) == {"contracts", "legal"}


@pytest.mark.parametrize(
    "uri",
    [
        "file:///srv/contracts%2F1",
        "file:///srv//contracts/1",
        "file:///srv/./contracts/1",
        "file:///srv/public/../contracts/1",
        "file:///srv/public/%2e%2E/contracts/1",
        "file:///srv\\contracts\\1",
        "file:///srv/contracts/1#x",
        "file:///srv/contracts/ 1",
        "file://elsewhere/srv/contracts/1",
        "file:srv/contracts/1",
        "contracts",
        "",
    ],
)
def test_a_uri_that_names_nothing_for_certain_needs_all_that_any_resource_needs(uri: str):
    assert needed("resources/read", uri=uri) == {"secret", "contracts", "legal", "a"}
    assert needed("resources/subscribe", uri=uri) == {"secret", "contracts", "legal"}


@pytest.mark.parametrize(
    "uri",
    [
        "secret://x/plan",
        "SECRET://x/%70lan",
        "secret://x/./plan",
        "secret://x//plan",
        "secret://x/y/../plan",
        "secret://x/y%2F..%2Fplan",
        "secret://y/../x/plan",
        "secret://x/plan/",
        "secret://x/plan?part=1",
        "secret://x/plan#part",
        "secret://x%2Fplan",
        "secret://x/y%5C..%5Cplan",
    ],
)
def test_steps_that_lead_nowhere_do_not_lead_past_a_rule(uri: str):
    assert to_read(Scopes({"secret://x/plan": "s"}, {}), uri) == {"s"}


@pytest.mark.parametrize("rule", ["file:///a/b/*", "file:///a/b/", "file:/a/%62/", "file:///*/b/"])
def test_a_rule_for_a_folder_or_for_what_is_in_it_holds_for_the_folder(rule: str):
    scopes = Scopes({rule: "s"}, {})
    for uri in ("file:///a/b", "file:///a/b/", "file:/a/b?tail=1"):
        assert to_read(scopes, uri) == {"s"}, uri
    for uri in ("file:///a", "file:///a/bc", "file:///a/b.txt"):
        assert to_read(scopes, uri) == set(), uri


@pytest.mark.parametrize("rule", ["FILE:/srv/%70riv/*", "file://localhost/srv/priv/*", "file:///srv/priv/*"])
def test_rules_may_be_spelled_as_uris_may(rule: str):
    assert to_read(Scopes({rule: "s"}, {}), "file:///srv/priv/x") == {"s"}


@pytest.mark.parametrize("rule", ["file:*", "file://*", "file:///*", "*:///srv/*", "*iv/x"])
def test_a_star_may_stand_for_any_part_of_a_uri(rule: str):
    rule = rule if ":" in rule else "file:" + rule
    assert to_read(Scopes({rule: "s"}, {}), "file:///srv/priv/x") == {"s"}


@pytest.mark.parametrize("nothing", ["", " ", [], ()])
def test_a_rule_that_names_no_scope_is_refused(nothing: Any):
    with pytest.raises(ConfigError, match="would protect nothing"):
        Scopes({"*": "mcp", "tools/call": nothing}, {})


@pytest.mark.parametrize(
    "rule", ["file:///a//b/*", "file:///a/../b", "secret://x/./y", "secret://x/%2e%2e/y", "file://host/x", "file:x"]
)
def test_a_rule_that_could_protect_nothing_is_refused(rule: str):
    with pytest.raises(ConfigError, match="scopes: "):
        Scopes({rule: "s"}, {})


def test_callers_with_the_same_scopes_that_rules_name_share_a_view():
    scopes = Scopes({"a://*": "a", "resources/read b://*": "b", "tools/call": "c"}, {})

    def view(*granted: str) -> tuple[bool, str]:
        found = view_of(scopes, *granted)
        return found.hides, found.key

    assert view("a", "b") == (False, "view a b")
    assert view("a", "c", "x") == view("a") == (True, "view a")
    assert view() == (True, "view")
    only_a = view_of(scopes, "a")
    assert [only_a.allows("read", uri) for uri in ("a://x", "b://x", "c://x", "no uri")] == [True, False, True, False]
    methods = view_of(Scopes({"*": "base", "tools/call": "t"}, {}), "base")
    assert (methods.hides, methods.key) == (False, "")
    assert [methods.permits(method) for method in ("tools/call", "resources/read")] == [False, True]
    assert Scopes({"tools/call delete": "t"}, {}).view(frozenset()) is None


def test_the_ends_of_a_pattern_match_different_parts_of_a_text():
    assert [Pattern("ab*ba").matches(text) for text in ("abba", "ab-ba", "aba")] == [True, True, False]


def test_responses_differ_for_resources_with_any_rule():
    view = view_of(Scopes({"a://*": "a", "resources/read b://*": "b", "tools/call": "c"}, {}), "a", "b")
    assert [view.differs(uri) for uri in ("a://x", "b://x", "c://x", "no uri")] == [True, True, False, True]


def test_an_exact_uri_is_guarded_with_a_query_and_a_slash_too():
    scopes = Scopes({"file:///a/secret.txt": "s"}, {})
    for uri in (
        "file:///a/secret.txt",
        "file:///a/secret.txt?lines=1-2",
        "file:///a/secret.txt/",
        "file:///a/secret.txt//",
    ):
        assert to_read(scopes, uri) == {"s"}, uri
    assert to_read(scopes, "file:///a/secret.txt2") == set()


def test_letters_that_are_written_in_two_ways_are_one():
    scopes = Scopes({"file:///é/*": "s"}, {})
    for uri in ("file:///%C3%A9/x", "file:///e\u0301/x", "file:///E%CC%81/x", "file:///\xc9/x"):
        assert to_read(scopes, uri) == {"s"}, uri


def test_reading_by_way_of_a_tool_takes_what_reading_takes():
    scopes = Scopes({**RULES, "resources/read": "read"}, {})
    assert to_read(scopes, "secret://x") == {"base", "read", "secret"}
    assert to_read(scopes, "https://example.org/a") == {"base", "read", "a"}


def test_scopes_hold_others():
    scopes = Scopes({"*": "read"}, {"admin": "write delete", "write": ["read"], "read": "write"})
    assert scopes.expand(["admin"]) == {"admin", "write", "delete", "read"}
    assert scopes.expand(["delete"]) == {"delete"}
    assert scopes.expand([]) == set()


def test_scopes_supported_are_those_that_every_request_needs():
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
    to_read(Scopes({"secret://*": "s", "*": "b"}, {}), uri)


@given(path=st.text(st.characters(codec="utf-8", exclude_characters="%?#\\\x00"), max_size=40))
def test_everything_below_a_guarded_place_is_guarded(path: str):
    assert to_read(Scopes({"secret://*": "s"}, {}), f"secret://{path}") == {"s"}


@pytest.mark.parametrize("piece", ["a", "/../", "%2e", "{", "/", "*", "é", "\\"])
def test_long_uris_take_linear_time(piece: str):
    scopes = Scopes({"a://*x*x*x*x*y": "s", "secret://*": "s"}, {})
    uri = "a://" + piece * (65536 // len(piece))
    assert loops(lambda: to_read(scopes, uri)) < 200
    assert len(names_of(uri) or ()) <= 8


# On every verb


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    root = tmp_path_factory.mktemp("shared").resolve() / "root"
    fill(root)
    with guarded(root) as running:
        yield running


@st.composite
def spellings(draw: st.DrawFn, path: str) -> tuple[str, str]:
    """Return a path spelled in some way, and the part of a URI that it is: more or less what is named by it."""
    form = draw(st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
    steps = unicodedata.normalize(form, path).split("/")
    for _ in range(draw(st.integers(0, 2))):
        steps.insert(draw(st.integers(0, len(steps))), draw(st.sampled_from([".", "", "x/..", "%2e", "%2E%2e/root"])))
    text = draw(st.sampled_from(["/", "/", "/", "\\", "%2F", "%5c"])).join(steps)
    text += draw(st.sampled_from(["", "", "/", "//", "/."]))
    odd = draw(st.sets(st.integers(0, max(len(text) - 1, 0)), max_size=5))
    pieces = []
    for index, character in enumerate(text):
        if index in odd and character != "/":
            escaped = "".join(f"%{octet:02x}" for octet in character.encode())
            pieces.append(escaped if draw(st.booleans()) else escaped.upper().replace("%", draw(PERCENT)))
        else:
            pieces.append(character if character in "%\\" else quote(character, safe="/"))
    if draw(st.booleans()) and draw(st.booleans()):
        return text, "".join(pieces).swapcase()
    return text, "".join(pieces)


PERCENT = st.sampled_from(["%", "%", "%25"])
SCHEMES = st.sampled_from(["file:///", "file:/", "FILE:/", "File://LOCALHOST/", "file://localhost/", "file:////"])
QUERIES = st.sampled_from(["", "", "?bytes=0-9", "?lines=1-5", "?tail=1", "?", "?x", "#", "#x", "?bytes=0-9#x"])


@settings(max_examples=examples(75), deadline=None)
@given(data=st.data(), path=st.sampled_from(PROTECTED))
def test_no_spelling_on_any_verb_leads_past_a_rule(server: Guarded, data: st.DataObject, path: str):
    typed, spelled = data.draw(spellings(path))
    scheme, query = data.draw(SCHEMES), data.draw(QUERIES)
    root = str(server.root).removeprefix("/")
    uri = f"{scheme}{root}/{spelled}{query}"
    caller = server.principal("other")
    for verb in VERBS:
        if verb not in LISTENING or names_a_file(uri):  # what is not there may be listened to: it may come to be
            denied = server.denies(caller, verb, uri, typed)
            assert denied or (verb in LISTENING and server.listens_as_if_absent(caller, verb, uri)), (verb, uri, typed)


LISTENING = ("resources/subscribe", "resources/unsubscribe", "listen")


def names_a_file(uri: str) -> bool:
    try:
        return Path(file_path(resolve(uri)._replace(query=None))).exists()
    except UriError:
        return True


@pytest.mark.parametrize("path", PROTECTED)
@pytest.mark.parametrize("verb", VERBS)
def test_protected_resources_are_visible_with_their_scope(server: Guarded, verb: str, path: str):
    uri = f"{server.root.as_uri()}/{quote(path)}"
    caller = server.principal("other")
    if verb in LISTENING and not path.startswith("priv"):
        assert server.listens_as_if_absent(caller, verb, uri)
    else:
        assert server.denies(caller, verb, uri, path)
    folder = (server.root / path).is_dir()
    if not (verb in ("resources/directory/read", "list_resources", "complete") and not folder):
        typed = f"{path}/" if folder else path
        assert not server.denies(server.principal("vault"), verb, uri, typed)


@settings(max_examples=examples(25), deadline=None)
@given(data=st.data(), path=st.sampled_from(["open/readme.txt", "private.txt", "open"]))
def test_unprotected_resources_are_visible_to_all(server: Guarded, data: st.DataObject, path: str):
    scheme = data.draw(SCHEMES.filter(lambda text: text != "file:////"))
    uri = f"{scheme}{str(server.root).removeprefix('/')}/{path}"
    assert "result" in server.ask(server.principal(), "resources/read", uri=uri)
    assert "result" in server.ask(server.principal(), "resources/subscribe", uri=uri)


def test_a_template_gives_nothing_that_a_rule_protects_however_it_is_spelled():
    app = Server("templates")

    @app.resource("vault://{+path}")
    async def vault(path: str) -> str:
        return path

    guard = Scopes({"vault://priv/*": "vault"}, {})
    view = view_of(guard)
    for uri in (
        "vault://priv/x",
        "vault://priv%2Fx",
        "vault://open/..%2Fpriv/x",
        "VAULT://%70riv/x",
        "vault://open//../priv/x",
    ):
        assert not view.allows("read", uri), uri
    assert view.allows("read", "vault://open/x")
