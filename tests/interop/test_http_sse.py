"""The official clients that speak HTTP+SSE, on a tour of the golden application; the one of 2024-11-05 above all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from golden.app import build
from interop.test_clients import (
    BEFORE_2025_03_26,
    BEFORE_2025_06_18,
    CANCELLED,
    PAGES,
    PROGRESS,
    SEEN,
    client,
    tour,
)
from support.http_server import over_http
from support.parties import node_environment


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with over_http(build(), sse_path="/sse") as origin:
        yield f"{origin}/sse"


def test_the_python_sdk_1_sees_everything(url: str) -> None:
    seen = tour(*client("python_sdk_1.py", url))
    assert seen == {**SEEN, **PAGES, **PROGRESS, "revision": "2025-11-25"}


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        ("@modelcontextprotocol/sdk", {"revision": "2025-11-25"}),
        pytest.param("sdk-2025-06-18", {"revision": "2025-06-18"}, marks=pytest.mark.exhaustive),
        pytest.param("sdk-2025-03-26", {"revision": "2025-03-26", **BEFORE_2025_06_18}, marks=pytest.mark.exhaustive),
        ("sdk-2024-11-05", {"revision": "2024-11-05", **BEFORE_2025_06_18, **BEFORE_2025_03_26}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_typescript_sdk_1_of_any_age_sees_everything(package: str, expected: dict[str, Any], url: str) -> None:
    seen = tour(*client("typescript_sdk_1.cjs", package, url), env=node_environment())
    wanted = {**SEEN, **PAGES, **CANCELLED, **expected}
    if "instructions" not in seen:  # the first versions could not tell
        assert package == "sdk-2024-11-05"
        del wanted["instructions"]
    assert seen == wanted
