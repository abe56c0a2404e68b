"""``carrel.compat.guarded_imports``: imports that a program makes in any case, and imports that it only tries."""

from __future__ import annotations

import importlib
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

from carrel.compat import guarded_imports
from carrel.compat.guarded_imports import is_unconditional


class Asking(MetaPathFinder):
    """Finder that notes how each import of ``nowhere`` is made."""

    def __init__(self) -> None:
        self.found: list[bool] = []

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "nowhere":
            self.found.append(is_unconditional())


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asking:
    finder = Asking()
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(guarded_imports, "MACHINERY", (*guarded_imports.MACHINERY, __name__))
    return finder


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import nowhere", True),
        ("if True:\n    from nowhere import a", True),
        ("try:\n    import nowhere\nexcept ImportError:\n    pass", False),
        ("from contextlib import suppress\nwith suppress(ImportError):\n    import nowhere", False),
        ("try:\n    pass\nfinally:\n    import nowhere", True),
        ("def find():\n    import nowhere\ntry:\n    find()\nexcept ImportError:\n    pass", False),
        ("import importlib.util\nimportlib.util.find_spec('nowhere')", False),
    ],
)
def test_statements_outside_of_try_are_unconditional(
    asking: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, expected: bool
) -> None:
    (tmp_path / "program_that_imports.py").write_text(code)
    monkeypatch.delitem(sys.modules, "program_that_imports", raising=False)
    try:
        importlib.import_module("program_that_imports")
    except ModuleNotFoundError:
        assert expected
    assert asking.found == [expected]
