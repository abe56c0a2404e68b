"""Error responses over HTTP, as exceptions of the client."""

from __future__ import annotations

import pytest

from carrel.errors import HTTPStatusError, PeerError
from carrel.transports.client.http_errors import read_error_response


@pytest.mark.parametrize("body", [b'{"error": "invalid_token"}', b'{"error": null}', b'{"error": ["a"]}', b"no JSON"])
def test_a_body_that_is_no_message_of_json_rpc_is_shown_as_text(body: bytes) -> None:
    error = read_error_response("The server", 403, body, None)
    assert isinstance(error, HTTPStatusError)
    assert str(error) == f"The server answered 403: {body.decode()}"


def test_a_body_with_an_error_of_json_rpc_is_that_error() -> None:
    body = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "no"}}'
    error = read_error_response("The server", 400, body, None)
    assert isinstance(error, PeerError)
    assert (error.code, error.message, error.status) == (-32000, "no", 400)
