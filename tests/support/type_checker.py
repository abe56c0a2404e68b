"""Runs mypy on files that use Carrel, with the options of ``make check``, whose cache has Carrel itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: The options in ``pyproject.toml``: with others, mypy would check Carrel itself again, for ten seconds.
OPTIONS = "[mypy]\nstrict = True\npython_version = 3.11\n"


def check_types(files: Sequence[Path], options: str = "", cached: bool = True) -> subprocess.CompletedProcess[str]:
    """Run mypy. ``options`` are the lines of its configuration after those of ``make check``.

    ``cached`` starts from the cache of ``make check``, which options for all modules would make useless.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "mypy.ini").write_text(OPTIONS + options, encoding="utf-8")
        if cached and (ROOT / ".mypy_cache").is_dir():  # a copy, as several tests write
            shutil.copytree(ROOT / ".mypy_cache", folder / "cache")
        command = [
            sys.executable,
            "-m",
            "mypy",
            f"--config-file={folder / 'mypy.ini'}",
            f"--cache-dir={folder / 'cache'}",
        ]
        return subprocess.run(
            [*command, "--no-error-summary", *map(str, files)], cwd=ROOT, capture_output=True, text=True
        )
