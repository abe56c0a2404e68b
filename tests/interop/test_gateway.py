"""The reference server "everything" behind a server of ours, as a client of the official SDK sees it."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import pytest

from interop.servers.gateway import build
from interop.test_clients import CLIENTS, client, tour
from interop.test_servers_reference import everything_over_http, npm
from support.forking import forked
from support.http_server import over_http

GATEWAY = CLIENTS.parent / "servers" / "gateway.py"

SEEN: dict[str, Any] = {
    "resources": 7,
    "read": [True] * 7,
    "templates": ["ev+demo://resource/dynamic/text/{resourceId}", "ev+demo://resource/dynamic/blob/{resourceId}"],
    "dynamic": ["ev+demo://resource/dynamic/text/3", "Resource 3: This is a plaintext resource "],
    "echo": "Echo: 日本",
    "weather": ["conditions", "humidity", "temperature"],
    "links": [1, 1],
    "progress": [[1, 3], [2, 3], [3, 3]],
    "elicited": True,
    "visited": True,
    "sampled": True,
    "prompts": ["ev_args-prompt", "ev_completable-prompt", "ev_resource-prompt", "ev_simple-prompt"],
    "prompt": "Please promote Eve to the head of the Sales team.",
    "completed": [["David", "Eve", "Frank"], ["1"]],
    "updated": "ev+demo://resource/dynamic/text/1",
}
TOOLS = {
    *("ev_echo", "ev_get-sum", "ev_get-tiny-image", "ev_trigger-elicitation-request", "ev_trigger-sampling-request"),
    *("ev_trigger-long-running-operation", "ev_toggle-subscriber-updates", "ev_toggle-simulated-logging"),
}


# Every revision, transport, and transport of the server behind the gateway; with make exhaustive, every pair of them.
@pytest.mark.parametrize(
    ("mode", "revision", "transport", "upstream"),
    [
        ("legacy", "2025-11-25", "stdio", "stdio"),
        pytest.param("legacy", "2025-11-25", "http", "http", marks=pytest.mark.exhaustive),
        ("auto", "2026-07-28", "stdio", "http"),
        ("auto", "2026-07-28", "http", "stdio"),
    ],
)
def test_the_python_sdk_2_sees_everything_through_a_gateway(
    mode: str, revision: str, transport: str, upstream: str
) -> None:
    with contextlib.ExitStack() as stack:
        target = [stack.enter_context(everything_over_http())] if upstream == "http" else npm("server-everything")
        if transport == "http":
            command = [stack.enter_context(over_http(build(target))) + "/mcp"]
        else:
            command = forked(sys.executable, str(GATEWAY), *target)
        seen = tour(*client("python_sdk_2_everything.py", mode, *command))
    assert set(seen.pop("tools")) >= TOOLS
    # Over HTTP, this server logs beside the call, and the call may be over by then.
    assert seen.pop("logged") in ([[True]] if upstream == "stdio" else [[True], []])
    assert seen == {**SEEN, "revision": revision}
