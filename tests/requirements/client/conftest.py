"""Clients of these tests know nothing of the servers before."""

from __future__ import annotations

import pytest

from carrel.client import connect as connecting


@pytest.fixture(autouse=True)
def unknown_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "ERAS", {})
