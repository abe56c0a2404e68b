"""Clients written for ``fastmcp``: they print the same on Carrel as on the original, with servers of either kind."""

from __future__ import annotations

import pytest

from compat.comparison import run
from compat.fastmcp.comparison import PROGRAMS, on_carrel, on_original

pytestmark = pytest.mark.slow


def test_a_client_prints_the_same() -> None:
    program, server = str(PROGRAMS / "client.py"), str(PROGRAMS / "fast.py")
    expected = run(on_original([program, *on_original([server])]))
    assert "accept 7" in expected
    assert run(on_carrel([program, *on_original([server])])) == expected
    assert run(on_carrel([program, *on_carrel([server])])) == expected
