"""Reading and atomic replacement of regular files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from carrel.regular_file import read_regular, replace_file


def test_a_file_is_replaced_and_only_its_user_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    for data in (b"one", b"two"):
        replace_file(file, data)
        assert read_regular(file) == data
    assert file.stat().st_mode & 0o777 == 0o600
    replace_file(file, b"three", mode=0o644, durable=False)
    assert file.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [file]


def test_a_replacement_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "tokens.json"
    replace_file(file, b"one")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(file, b"two")
    assert read_regular(file) == b"one"
    assert list(tmp_path.iterdir()) == [file]
