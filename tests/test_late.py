"""Names of modules that are imported when the names are first used, or not at all."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from carrel.late import is_instance


def test_an_instance_of_a_class_is_told_from_other_values() -> None:
    assert is_instance(Path("a"), "pathlib", "Path")
    assert not is_instance("a", "pathlib", "Path")
    assert not is_instance("a", "no.such.module", "Path")


def test_nothing_is_an_instance_of_a_class_of_a_module_that_another_thread_still_imports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pathlib", ModuleType("pathlib"))
    assert not is_instance(Path("a"), "pathlib", "Path")
