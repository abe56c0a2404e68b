"""Official clients find their way in by themselves: from the challenge to the metadata, the provider, and back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from carrel.security import Authorization
from support.http_requests import build
from support.http_server import over_http
from support.openid_provider import Provider
from support.parties import python_program

CLIENTS = Path(__file__).parent / "clients"
PATIENCE = 120
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("major", "mode", "revision"), [("1", "", "2025-11-25"), ("2", "legacy", "2025-11-25"), ("2", "auto", "2026-07-28")]
)
def test_an_official_client_gets_in_and_asks_for_more_when_it_takes_more(
    auth: Provider, major: str, mode: str, revision: str
):
    guard = Authorization(auth.issuer, scopes={"*": "mcp", "tools/call": "tools"})
    with over_http(build(), authorization=guard) as origin:
        url = f"{origin}/mcp"
        auth.protect(url, "mcp tools")
        program = str(CLIENTS / f"python_sdk_{major}.py")
        who = ["robot", "robot's s%&+ecret"]
        command = python_program(major, program, url, auth.issuer, *who, mode)
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "revision": revision,
        "first": "mcp",
        "read": "robot",
        "then": "mcp tools",
        "called": ["mcp", "tools"],
    }
