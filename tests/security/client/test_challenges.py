"""What servers write into WWW-Authenticate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.security.client.challenges import choose_challenge, read_challenges
from support.processor_time import loops


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("Bearer", [("bearer", {})]),
        ('Bearer realm="x"', [("bearer", {"realm": "x"})]),
        ('BEARER Scope = "a b" , ERROR=invalid_token', [("bearer", {"scope": "a b", "error": "invalid_token"})]),
        ('Bearer a="x, Basic b=1", c="d"', [("bearer", {"a": "x, Basic b=1", "c": "d"})]),
        ('Basic realm="x", Bearer scope="a"', [("basic", {"realm": "x"}), ("bearer", {"scope": "a"})]),
        ('Bearer, DPoP algs="ES256"', [("bearer", {}), ("dpop", {"algs": "ES256"})]),
        (r'Bearer a="quoted \" and \\ too"', [("bearer", {"a": 'quoted " and \\ too'})]),
        (
            "Bearer resource_metadata=https://a.example/x?y=z, scope=a",
            [("bearer", {"resource_metadata": "https://a.example/x?y=z", "scope": "a"})],
        ),
        ('Bearer scope="first", scope="second"', [("bearer", {"scope": "first"})]),
        ('Bearer a="1"b="2",c="3"', [("bearer", {"a": "1", "b": "2", "c": "3"})]),
        ('Bearer a="never ends', [("bearer", {"a": "never ends"})]),
        ("Negotiate YWJj", [("negotiate", {}), ("ywjj", {})]),
        ('a="b"', [("a", {}), ("b", {})]),
        ("", []),
        (',,"";', []),
    ],
)
def test_challenges_are_read_as_they_are_written_in_the_field(header: str, found: list):
    assert [(one.scheme, dict(one.parameters)) for one in read_challenges([header])] == found


def test_the_challenge_for_a_token_is_found_among_others():
    headers = ['Basic realm="x"', 'Bearer scope="a", Bearer scope="b"']
    chosen = choose_challenge(read_challenges(headers))
    assert chosen is not None
    assert chosen.parameters == {"scope": "a"}
    chosen = choose_challenge(read_challenges([*headers, "DPoP"]))
    assert chosen is not None
    assert chosen.scheme == "dpop"
    assert choose_challenge(read_challenges(["Basic"])) is None


@given(st.lists(st.text(max_size=200), max_size=3))
def test_nothing_that_a_server_writes_is_an_error(headers: list[str]):
    for one in read_challenges(headers):
        assert one.scheme == one.scheme.lower()


@pytest.mark.parametrize("piece", [" ", ",", "a ", 'a="', "a=", "\\", 'a="\\', '"', "a=b,"])
def test_a_hostile_header_is_read_in_no_time(piece: str):
    assert loops(lambda: read_challenges([("Bearer " + piece * 100_000)])) < 200
