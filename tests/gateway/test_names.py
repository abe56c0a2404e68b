"""Names of a gateway: kept where they are unique, prefixed reversibly where they are not, whatever the order."""

from __future__ import annotations

import itertools

import pytest

from carrel.errors import ConfigError
from carrel.gateway.names import MAX_PREFIX, Names, PrefixMode, prefixes_of
from carrel.uri.parse import normalize


def names_of(mode: PrefixMode = "auto", **tools: list[str]) -> Names:
    """Return the names of servers with these tools."""
    names = Names(mode)
    names.servers(list(tools))
    for server, some in tools.items():
        names.replace("tool", server, some)
    return names


@pytest.mark.parametrize(
    ("server", "prefix"),
    [("shop", "shop"), ("My Server", "my-server"), ("a_b", "a-b"), ("7zip", "s-7zip"), ("a+b", "a-b"), ("-x-", "x")],
)
def test_a_prefix_is_the_name_of_the_server_in_letters_that_every_client_accepts(server: str, prefix: str) -> None:
    assert prefixes_of([server]) == {server: prefix}


def test_prefixes_of_servers_with_like_names_differ_and_do_not_depend_on_their_order() -> None:
    servers = ["a b", "a-b", "A_B", "本", "書", "x" * 100]
    found = prefixes_of(servers)
    assert len(set(found.values())) == len(servers)
    assert found["a-b"] == "a-b"
    assert all(len(prefix) <= MAX_PREFIX and "_" not in prefix and "+" not in prefix for prefix in found.values())
    assert all(prefixes_of(order) == found for order in itertools.permutations(servers))


def test_a_name_of_one_server_is_kept_and_one_of_several_is_prefixed_for_all_of_them() -> None:
    names = names_of(shop=["find", "buy"], files=["find"])
    assert names.outer("tool", "shop", "buy") == "buy"
    assert names.outer("tool", "shop", "find") == "shop_find"
    assert names.outer("tool", "files", "find") == "files_find"
    assert names.find("tool", "find") is None
    assert names.candidates("tool", "find") == ["files_find", "shop_find"]


def test_names_do_not_depend_on_the_order_in_which_servers_connect() -> None:
    tools = {"a": ["x", "y", "b_x"], "b": ["x", "z"], "c": ["y", "a_y", "c_c"]}
    seen = set()
    for order in itertools.permutations(tools):
        names = Names()
        names.servers(list(tools))
        for server in order:
            names.replace("tool", server, tools[server])
        seen.add(tuple(names.outer("tool", server, name) for server in tools for name in tools[server]))
    assert len(seen) == 1


def test_all_names_can_be_told_apart_and_lead_back_also_where_they_look_prefixed() -> None:
    tools = {
        "a": ["x", "b_x", "a_x", "a_a_x", "_", "a_"],
        "b": ["x", "a_x", "b_b_x", "a_b_x"],
        "a-b": ["x", "a_b_x", "a-b_x", "b_x"],
        "a_b": ["x"],
    }
    for mode in ("auto", "always"):
        names = names_of(mode, **tools)  # type: ignore[arg-type]
        outer = {names.outer("tool", server, name): (server, name) for server, some in tools.items() for name in some}
        assert len(outer) == sum(map(len, tools.values()))
        assert {name: names.find("tool", name) for name in outer} == outer


def test_a_prefixed_name_is_accepted_also_where_the_plain_one_is_unique() -> None:
    names = names_of(shop=["buy"], files=[])
    assert names.find("tool", "buy") == names.find("tool", "shop_buy") == ("shop", "buy")


@pytest.mark.parametrize(
    ("uri", "outer"),
    [
        ("note://1", "shop+note://1"),
        ("file:///a_b", "shop+file:///a_b"),
        ("urn:isbn:1", "shop+urn:isbn:1"),
        ("ui://page", "ui://shop/page"),
        ("skill://lamp/SKILL.md", "skill://shop/lamp/SKILL.md"),
    ],
)
def test_a_prefixed_uri_is_a_uri_and_leads_back(uri: str, outer: str) -> None:
    names = Names()
    names.servers(["shop", "files"])
    for server in ("shop", "files"):
        names.note("uri", server, [uri], 10)
    assert names.outer("uri", "shop", uri) == outer == normalize(outer)
    assert names.find("uri", outer) == ("shop", uri)
    assert names.find("uri", uri) is None


def test_a_name_that_a_server_gives_up_does_not_become_that_of_another_one() -> None:
    names = names_of(shop=["find"], files=[])
    assert names.find("tool", "find") == ("shop", "find")
    names.replace("tool", "shop", [])
    names.replace("tool", "files", ["find"])
    assert names.find("tool", "find") is None
    assert names.candidates("tool", "find") == ["files_find"]
    names.servers(["files"])
    assert names.find("tool", "find") == ("files", "find")


def test_a_name_that_another_server_has_too_is_announced() -> None:
    changed: list[str] = []
    names = Names("auto", changed.append)
    names.servers(["shop", "files"])
    names.replace("tool", "shop", ["find"])
    assert changed == []
    names.replace("tool", "files", ["find", "read"])
    assert changed == ["tool"]


def test_without_prefixes_no_name_is_changed_and_one_of_two_servers_is_refused() -> None:
    names = names_of("never", shop=["find", "buy"], files=["find"])
    assert names.outer("tool", "shop", "find") == "find"
    assert names.find("tool", "find") is None
    assert names.find("tool", "buy") == ("shop", "buy")
    assert names.find("tool", "shop_find") is None
    assert list(names.shared()) == [("tool", "find", ("files", "shop"))]


def test_a_mode_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="'auto', 'always' or 'never', not 'sometimes'"):
        Names("sometimes")  # type: ignore[arg-type]
