"""Documentation: its links lead somewhere, every page is in the site's navigation, and the site builds."""

from __future__ import annotations

import html
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from carrel import host, sources, testing, types

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"))
)
LINK = re.compile(r"(?<!\!)\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1\s*$", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them, and those of its HTML."""
    found = set(re.findall(r'(?:id|name)="([^"]+)"', prose(page)))
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*$", prose(page), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


def test_every_link_within_the_repository_leads_to_a_file_and_a_heading() -> None:
    broken = []
    for page in PAGES:
        for link in LINK.findall(prose(page)):
            if re.match(r"[a-z][a-z0-9+.-]*:", link):
                continue
            path, _, anchor = unquote(html.unescape(link)).partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                broken.append(f"{page.relative_to(ROOT)}: {link}")

    assert not broken


def test_every_test_that_a_page_names_exists() -> None:
    missing = []
    for page in PAGES:
        for file, name in re.findall(r"`([\w/]+\.py)::(test_\w+)`", prose(page)):
            places = [ROOT / file] if "/" in file else [*(ROOT / "tests").rglob(file)]
            if not any(f"def {name}(" in place.read_text("utf-8") for place in places if place.is_file()):
                missing.append(f"{page.relative_to(ROOT)}: {file}::{name}")

    assert not missing


def navigation(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for value in entry.values():
            if isinstance(value, str):
                yield value
            else:
                yield from navigation(value)


def test_every_page_of_the_documentation_is_in_the_navigation_of_the_site() -> None:
    listed = list(navigation(tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]))
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")} - {"docs/index.md"}

    assert len(listed) == len(set(listed))
    assert all((ROOT / path).exists() for path in listed)
    assert pages <= set(listed)


def test_the_guide_to_servers_is_the_first_page_on_writing_one() -> None:
    project = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
    [how_to] = [entry["How to"] for entry in project["nav"] if "How to" in entry]
    [pages] = [entry["Write a server"] for entry in how_to if "Write a server" in entry]
    assert next(navigation(pages)) == "docs/server.md"


@pytest.mark.slow
def test_the_site_builds_and_its_reference_has_everything_that_carrel_exports() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "build.py"], capture_output=True, text=True, timeout=280)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stderr, done.stderr
    search = (ROOT / "build" / "site" / "search.json").read_text()
    assert '"docs/server/' in search
    assert "CHANGELOG" not in search  # it has every word, and would come first
    reference = (ROOT / "build" / "site" / "docs" / "api" / "index.html").read_text()
    for name in ("Server", "Client", "Context", "Contents", "Limits", "MCPError", "ToolError"):
        assert f'id="carrel.{name}"' in reference
    for module in (types, sources, host, testing):
        missing = [name for name in module.__all__ if f'id="{module.__name__}.{name}"' not in reference]
        assert not missing
