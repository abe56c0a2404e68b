"""docs/troubleshooting.md: the messages of Carrel that it names are those of the source."""

from __future__ import annotations

import re
from functools import cache

import pytest

from support.snippets import ROOT, read

PAGE = read("docs/troubleshooting.md")
#: Messages of shells, pytest and other programs.
FOREIGN = {"carrel: command not found", "async def functions are not natively supported"}


@cache
def source() -> str:
    """Return all of the source, with each text in one piece and … for its variable parts."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src" / "carrel").rglob("*.py")))
    joined = re.sub(r'"\s*\n\s*(?:#[^\n]*\n\s*)?f?"', "", text)
    return re.sub(r"\{[^{}\n]*\}", "…", joined)


def messages() -> list[str]:
    found = []
    for heading in ("HTTP", "Commands and servers in Python", "Versions that do not match"):
        section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
        for row in re.findall(r"^\| (.*?) \|", section, re.MULTILINE):
            found += [message for message in re.findall(r"`([^`]+)`", row) if " " in message]
    return sorted(set(found) - FOREIGN)


@pytest.mark.parametrize("message", messages())
def test_a_message_on_the_page_is_one_of_the_source(message: str) -> None:
    text = source()
    plain = re.sub(r"/mcp$|\b8000\b|'…'|\[…\]", "…", message)
    for piece in plain.split("…"):
        assert piece.strip() in text, piece


def test_the_page_names_messages() -> None:
    assert len(messages()) > 20
