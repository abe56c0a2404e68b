"""Builds the documentation site into ``build/site`` (``make docs``); ``--serve`` shows it and follows changes."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "build" / "pages"
SHOWN = (
    "README.md",
    "README.zh.md",
    "README.de.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
    "docs",
    "examples",
)
#: Front matter of pages that the search of the site leaves out: the changelog has every word of the documentation.
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"


def collect() -> None:
    """Copy the files of the repository that are pages, or that pages link to, below ``build/pages``."""
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    for name in SHOWN:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, PAGES / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, PAGES / name)
    changes = PAGES / "CHANGELOG.md"
    changes.write_text(UNSEARCHED + changes.read_text(encoding="utf-8"), encoding="utf-8")


def build(command: str = "build") -> int:
    """Run ``zensical build`` or ``zensical serve`` on the collected pages, and return its exit code."""
    collect()
    zensical = Path(sys.executable).with_name("zensical")
    return subprocess.run(
        [zensical, command, "--config-file", ROOT / "zensical.toml"], cwd=ROOT, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(build("serve" if "--serve" in sys.argv else "build"))
