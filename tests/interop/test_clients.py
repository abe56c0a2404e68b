"""The official clients, of every age, on a tour of the golden application."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden.app import build
from support.forking import forked
from support.http_server import over_http
from support.parties import node_environment, node_program, python_program

HERE = Path(__file__).parent
CLIENTS = HERE / "clients"
APP = HERE.parent / "golden" / "app.py"
PATIENCE = 120.0

#: What every client sees, however old it is.
SEEN: dict[str, Any] = {
    "server": "golden",
    "instructions": "Say please.",
    "rich": "A rich memo",
    "templates": ["book://{author}/{title}", "number://{value}"],
    "read": ["Plain text.", "one", "Ag==", "the dispossessed by le guin"],
    "updated": "memo://watched",
    "tools": ["blocks", "change", "count", "fail", "ponder", "regional", "tally", "touch", "wait", "weather"],
    "blocks": ["text", "image", "audio", "resource_link", "resource"],
    "structured": {"city": "Oslo", "celsius": 21},
    "in a header": "Done in 日本.",
    "failure": [True, "The printer is on fire."],
    "counted": "Counted to 2.",
    "logs": [["info", {"at": 1}], ["info", {"at": 2}], ["warning", "That was all."]],
    "prompts": ["gallery", "greet", "review"],
    "prompt": "Review this python: pass",
    "completed": ["solaris"],
    "completed prompt": ["rust"],
    "errors": [-32002, -32602, -32602, -32602],
}
URIS = [
    "memo://blob",
    "memo://both",
    "memo://broken",
    "memo://cancelled",
    "memo://plain",
    "memo://rich",
    "memo://watched",
]
PAGES = {"pages": [URIS[:3], URIS[3:6], URIS[6:]]}
PROGRESS = {"progress": [[1, 2, "1 of 2"], [2, 2, "2 of 2"]]}
CANCELLED = {"progress": [1], "waited": "cancelled", "stopped": "The handler was stopped."}
#: Each era, and each transport, of a client. "legacy" over HTTP and "auto" on stdio repeat what these have.
ERAS = [
    ("legacy", "2025-11-25", "stdio"),
    ("auto", "2026-07-28", "http"),
    pytest.param("legacy", "2025-11-25", "http", marks=pytest.mark.exhaustive),
    pytest.param("auto", "2026-07-28", "stdio", marks=pytest.mark.exhaustive),
]
#: What those see that are older than …
BEFORE_2025_06_18 = {"rich": None, "structured": None, "blocks": ["text", "image", "audio", "text", "resource"]}
BEFORE_2025_03_26 = {"blocks": ["text", "image", "resource", "text", "resource"]}
MODERN = {"revision": "2026-07-28", "errors": [-32602, -32602, -32602, -32602]}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with over_http(build()) as origin:
        yield f"{origin}/mcp"


def client(script: str, *arguments: str) -> list[str]:
    """Return the command of a client in ``clients``."""
    if script.endswith(".py"):
        return python_program(script.removeprefix("python_sdk_")[0], str(CLIENTS / script), *arguments)
    return [node_program(), str(CLIENTS / script), *arguments]


def target(transport: str, url: str) -> list[str]:
    """Return the arguments that tell a client whom to talk to."""
    return [url] if transport == "http" else forked(sys.executable, str(APP))


def tour(*command: str, **options: Any) -> dict[str, Any]:
    """Run a client and return what it saw. References to the log differ, and are left out."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **options)
    assert done.returncode == 0, done.stderr[-4000:]
    seen: dict[str, Any] = json.loads(re.sub(r" \(reference [0-9a-f]{8}\)", "", done.stdout))
    return seen


@pytest.mark.parametrize(("mode", "revision", "transport"), ERAS)
def test_the_python_sdk_2_sees_everything(mode: str, revision: str, transport: str, url: str) -> None:
    seen = tour(*client("python_sdk_2.py", mode, *target(transport, url)))
    expected = MODERN if mode == "auto" else {"revision": revision}
    assert seen == {**SEEN, **PAGES, **PROGRESS, **expected}


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_python_sdk_1_sees_everything(transport: str, url: str) -> None:
    seen = tour(*client("python_sdk_1.py", *target(transport, url)))
    assert seen == {**SEEN, **PAGES, **PROGRESS, "revision": "2025-11-25"}


@pytest.mark.parametrize(("mode", "revision", "transport"), ERAS)
def test_the_typescript_sdk_2_sees_everything(mode: str, revision: str, transport: str, url: str) -> None:
    seen = tour(*client("typescript_sdk_2.cjs", mode, *target(transport, url)), env=node_environment())
    # It tells of an unknown resource by the code of 2026-07-28 whatever the server says.
    assert seen == {**SEEN, **CANCELLED, "uris": URIS, "revision": revision, "errors": MODERN["errors"]}


@pytest.mark.parametrize(
    ("package", "expected", "transport"),
    [
        ("@modelcontextprotocol/sdk", {"revision": "2025-11-25"}, "stdio"),
        ("@modelcontextprotocol/sdk", {"revision": "2025-11-25"}, "http"),
        pytest.param("sdk-2025-06-18", {"revision": "2025-06-18"}, "stdio", marks=pytest.mark.exhaustive),
        pytest.param("sdk-2025-06-18", {"revision": "2025-06-18"}, "http", marks=pytest.mark.exhaustive),
        pytest.param(
            "sdk-2025-03-26", {"revision": "2025-03-26", **BEFORE_2025_06_18}, "stdio", marks=pytest.mark.exhaustive
        ),
        pytest.param(
            "sdk-2025-03-26", {"revision": "2025-03-26", **BEFORE_2025_06_18}, "http", marks=pytest.mark.exhaustive
        ),
        ("sdk-2024-11-05", {"revision": "2024-11-05", **BEFORE_2025_06_18, **BEFORE_2025_03_26}, "stdio"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_typescript_sdk_1_of_any_age_sees_everything(
    package: str, expected: dict[str, Any], transport: str, url: str
) -> None:
    seen = tour(*client("typescript_sdk_1.cjs", package, *target(transport, url)), env=node_environment())
    wanted = {**SEEN, **PAGES, **CANCELLED, **expected}
    if "instructions" not in seen:  # the first versions could not tell
        assert package == "sdk-2024-11-05"
        del wanted["instructions"]
    assert seen == wanted
