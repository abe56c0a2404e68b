"""The official clients, of every age, answer what the golden application asks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from golden.asking import build
from golden.conversation import HERE
from interop.test_clients import ERAS, client, tour
from support.forking import forked
from support.http_server import over_http
from support.parties import node_environment

APP = HERE / "asking.py"

#: What comes of the answers that all clients give.
ANSWERED = {
    "greet": "Hello, Ada.",
    "book": "Table 7 for Ada: True",
    "choose": "{'letters': ['a']}",
    "pay": "Paid: accept.",
    "ponder": "m: Paris (endTurn)",
    "look": "Home at file:///home/ada",
    "survey": "Ada, Paris, 1 roots",
}
#: The same from elsewhere than tools.
ELSEWHERE = {"prompt": "Greet Ada.", "resource": "Ada"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with over_http(build()) as origin:
        yield f"{origin}/mcp"


def target(transport: str, url: str) -> list[str]:
    """Return the arguments that tell a client whom to talk to."""
    return [url] if transport == "http" else forked(sys.executable, str(APP))


@pytest.mark.parametrize(("mode", "revision", "transport"), ERAS)
def test_the_python_sdk_2_answers(mode: str, revision: str, transport: str, url: str) -> None:
    seen = tour(*client("python_sdk_2.py", mode, *target(transport, url)))
    assert seen == {"revision": revision, "answered": {**ANSWERED, **ELSEWHERE}}


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_python_sdk_1_answers(transport: str, url: str) -> None:
    seen = tour(*client("python_sdk_1.py", *target(transport, url)))
    assert seen == {"revision": "2025-11-25", "answered": {**ANSWERED, **ELSEWHERE}}


@pytest.mark.parametrize(("mode", "revision", "transport"), ERAS)
def test_the_typescript_sdk_2_answers(mode: str, revision: str, transport: str, url: str) -> None:
    seen = tour(*client("typescript_sdk_2.cjs", mode, *target(transport, url)), env=node_environment())
    assert seen == {"revision": revision, "answered": {**ANSWERED, **ELSEWHERE}}


@pytest.mark.parametrize(
    ("package", "revision", "transport"),
    [
        ("@modelcontextprotocol/sdk", "2025-11-25", "stdio"),
        ("@modelcontextprotocol/sdk", "2025-11-25", "http"),
        ("sdk-2025-06-18", "2025-06-18", "http"),
        ("sdk-2025-03-26", "2025-03-26", "http"),
        ("sdk-2024-11-05", "2024-11-05", "stdio"),
    ],
)
def test_a_typescript_sdk_1_of_any_age_answers(package: str, revision: str, transport: str, url: str) -> None:
    seen = tour(*client("typescript_sdk_1.cjs", package, *target(transport, url)), env=node_environment())
    unknown = {"greet", "book", "survey"} if revision < "2025-06-18" else set()
    unknown |= {"choose", "pay"} if revision < "2025-11-25" else set()
    wanted: dict[str, Any] = {name: told for name, told in ANSWERED.items() if name not in unknown}
    assert seen == {"revision": revision, "answered": wanted}
