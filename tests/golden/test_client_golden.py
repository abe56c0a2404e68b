"""Every golden conversation with a client, on every transport that it is for."""

from __future__ import annotations

import pytest

from golden.client_player import Script, play, scripts
from golden.players import Mismatch
from support.server_connection import ALL

SCRIPTS = scripts()
CASES = [
    pytest.param(script, transport, id=f"{script.revision}/{script.path.stem}-{transport}")
    for script in SCRIPTS
    for transport in ("stdio", "http")
    if script.only in (None, transport)
]


@pytest.mark.parametrize(("script", "transport"), CASES)
async def test_a_client_says_what_is_written(script: Script, transport: str) -> None:
    await play(script, transport)


def test_there_are_conversations_in_every_revision() -> None:
    assert {script.revision for script in SCRIPTS} == set(ALL)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_that_says_something_else_is_found_out(transport: str) -> None:
    script = next(script for script in SCRIPTS if script.path.stem == "tools" and script.revision == "2026-07-28")
    line = next(line for line in script.lines if line.kind == "client")
    line.value["params"] = {**line.value.get("params", {}), "extra": 1}
    with pytest.raises(Mismatch, match="extra"):
        await play(script, transport)
