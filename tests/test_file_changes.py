"""FileChanges reports complete changes of files."""

from __future__ import annotations

import asyncio
from pathlib import Path

from carrel.file_changes import FileChanges


def test_a_change_is_reported_once_the_files_stay_the_same(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("1")
    reported: list[str] = []
    changes = FileChanges([one, two], lambda: reported.append(one.read_text()))
    changes.look()
    one.write_text("12")
    changes.look()
    one.write_text("123")  # it is still being written
    changes.look()
    assert reported == []
    changes.look()
    assert reported == ["123"]
    two.write_text("")  # a new file is a change too
    changes.look()
    changes.look()
    changes.look()
    assert reported == ["123", "123"]


async def test_files_are_polled_until_the_end(tmp_path: Path) -> None:
    file = tmp_path / "file"
    changed = asyncio.Event()
    changes = FileChanges([file], changed.set)
    await changes.start()
    file.write_text("1")
    await asyncio.wait_for(changed.wait(), 60)
    await changes.stop()
    await FileChanges([file], changed.set).stop()  # without start
