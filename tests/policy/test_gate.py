"""PolicyGate: reads the file again when it has changed, and survives every error in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from carrel.errors import ConfigError
from carrel.policy import Policy, PolicyGate


def test_a_changed_file_is_read_when_it_is_complete(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "carrel.toml"
    file.write_text("1")
    changes: list[Policy] = []

    def load() -> Policy:
        text = file.read_text()
        if text == "error":
            raise ConfigError("line 1")
        return Policy(local=int(text) == 2)

    gate = PolicyGate(str(file), load, lambda: changes.append(gate.policy))
    first, view = gate.policy, gate.view(None)
    assert gate.view(None) is view
    gate.look()
    assert gate.policy is first
    file.write_text("2")
    gate.look()
    assert gate.policy is first  # it may still be written
    gate.look()
    assert gate.policy.local
    assert gate.view(None) is not view  # the views of another policy are other views, from the next request on
    for text, message in (("error", "the policy is not changed: line 1"), ("no number", "cannot be read")):
        file.write_text(text)
        gate.look()
        gate.look()
        assert gate.policy.local
        assert message in caplog.text
    file.unlink()
    gate.look()
    gate.look()
    assert gate.policy.local
    file.write_text("13")
    gate.look()
    gate.look()
    assert not gate.policy.local
    assert len(changes) == 2
