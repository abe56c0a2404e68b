"""``carrel.module_files``: the files of modules, found without importing anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from carrel.module_files import find_module_file


def test_modules_and_packages_are_found_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package_not_imported"
    package.mkdir()
    for file in (tmp_path / "module_not_imported.py", package / "__init__.py", package / "inner.py"):
        file.write_text("raise AssertionError('imported')")
    monkeypatch.chdir(tmp_path)
    assert find_module_file("module_not_imported") == tmp_path / "module_not_imported.py"
    assert find_module_file("package_not_imported") == package / "__main__.py"
    assert find_module_file("package_not_imported", "__init__.py") == package / "__init__.py"
    assert find_module_file("package_not_imported.inner") == package / "inner.py"
    assert find_module_file("package_not_imported.none") is None
    assert find_module_file("none_of_them.inner") is None
    assert not any("not_imported" in name for name in sys.modules)
