"""Headers of an HTTP request for handlers: text by name in any case, without credentials."""

from __future__ import annotations

import pytest

from carrel.protocol.headers import RequestHeaders

HEADERS = RequestHeaders({b"x-team": b"gr\xfcn", b"authorization": b"Bearer x", b"cookie": b"a=b", b"accept": b"*/*"})


def test_headers_are_text_by_name_in_any_case():
    assert HEADERS["X-Team"] == HEADERS["x-team"] == "grün"
    assert HEADERS.get("Accept") == "*/*"
    assert "ACCEPT" in HEADERS


def test_credentials_are_not_among_the_headers():
    assert dict(HEADERS) == {"x-team": "grün", "accept": "*/*"}
    assert len(HEADERS) == 2
    assert "Authorization" not in HEADERS
    assert HEADERS.get("Cookie") is None
    assert "Bearer" not in repr(HEADERS)


@pytest.mark.parametrize("name", ["x-none", "日本"])
def test_a_header_that_is_not_there_is_a_key_error(name: str):
    with pytest.raises(KeyError, match=name):
        HEADERS[name]
