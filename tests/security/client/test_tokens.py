"""Access tokens: when they expire, and what errors of token endpoints say."""

from __future__ import annotations

import json

import pytest

from carrel.security.client.tokens import MAX_WORDS, Token, explain, lifetime
from carrel.security.fetch import FetchedResponse

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("seconds", "early"),
    [(3600.0, 30.0), (300.0, 30.0), (100.0, 10.0), (60.0, 6.0), (10.0, 1.0), (0.0, 0.0), (-5.0, 0.0)],
)
def test_a_token_expires_a_tenth_of_its_lifetime_early_and_at_most_thirty_seconds(seconds: float, early: float) -> None:
    token = Token(access_token="t", issuer="https://auth.example", client_id="c", issued=NOW, expires=NOW + seconds)
    end = NOW + seconds - early
    assert [token.expired(end - 0.5), token.expired(end), token.expired(end + 0.5)] == [False, True, True]


def test_a_token_without_expiry_never_expires() -> None:
    assert not Token(access_token="t", issuer="https://auth.example", client_id="c").expired(1e12)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [(3600, 3600), (0.5, 0.5), ("60", 60), (0, 0), (-1, None), (1e10, None), (None, None)]
    + [(text, None) for text in ("", "soon", "nan", "inf", "-inf")],
)
def test_an_expiry_is_counted_from_now_and_ignored_if_it_makes_no_sense(
    given: float | str | None, seconds: float | None
) -> None:
    assert lifetime(given, NOW) == (None if seconds is None else NOW + seconds)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>", "status 400"),
        (b"{}", "status 400"),
        (b'{"error": 5, "error_description": ["x"]}', "status 400"),
        (b'{"error": "invalid_grant"}', "invalid_grant"),
        (
            b'{"error": "invalid_grant", "error_description": "too\\n\\u001b[1mold\\u202e"}',
            "invalid_grant: too  [1mold ",
        ),
        (json.dumps({"error": "a" * MAX_WORDS + "b"}).encode(), "a" * MAX_WORDS),
    ],
)
def test_the_error_of_a_server_is_one_short_line_of_printable_text(body: bytes, words: str) -> None:
    assert explain(FetchedResponse("https://auth.example/token", 400, {}, body)) == words
