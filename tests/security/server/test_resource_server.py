"""Resource servers: their own URL."""

from __future__ import annotations

from typing import Any

import pytest

from carrel.security import Authorization

URL = "https://mcp.example/mcp"


@pytest.mark.parametrize(
    ("options", "resource"),
    [
        ({"resource": URL}, URL),
        ({"audience": URL}, URL),
        ({"audience": [URL, "urn:books"]}, URL),
        ({"audience": ["urn:books", URL]}, None),
        ({"audience": "https://other.example/mcp", "resource": URL}, URL),
        ({"audience": "http://127.0.0.1:8000/mcp"}, "http://127.0.0.1:8000/mcp"),
        ({}, None),
    ],
)
def test_the_first_audience_is_the_url_of_the_server_if_it_is_one(
    options: dict[str, Any], resource: str | None
) -> None:
    assert Authorization("https://auth.example", **options).resource == resource
