"""Translations of the README and the tutorial: the same code, headings and links as the original."""

from __future__ import annotations

import re

import pytest

from support.snippets import read

ORIGINALS = ("README.md", "docs/tutorial.md")
LANGUAGES = ("zh", "de")
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TRANSLATED = re.compile(rf"\.({'|'.join(LANGUAGES)})\.md$")


def code(page: str) -> list[str]:
    """Return the code blocks of a page, without comments."""
    return [re.sub(r"[ \t]+#[ \t].*$", "", block, flags=re.MULTILINE) for block in CODE.findall(read(page))]


def levels(page: str) -> list[str]:
    return re.findall(r"^(#+) ", CODE.sub("", read(page)), re.MULTILINE)


def links(page: str) -> list[str]:
    """Return where the links of a page lead, without those between the languages."""
    text = CODE.sub("", read(page).split("\n\n", 2)[2])
    return sorted(TRANSLATED.sub(".md", link) for link in re.findall(r"\]\(([^)]+)\)", text))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("original", ORIGINALS)
def test_a_translation_has_the_code_the_headings_and_the_links_of_its_original(original: str, language: str) -> None:
    translation = original.replace(".md", f".{language}.md")
    assert code(translation) == code(original)
    assert levels(translation) == levels(original)
    assert links(translation) == links(original)


@pytest.mark.parametrize("original", ORIGINALS)
def test_each_language_links_to_the_others_at_the_top(original: str) -> None:
    names = [original, *(original.replace(".md", f".{language}.md") for language in LANGUAGES)]
    for name in names:
        top = read(name).split("\n\n")[1]
        others = {other.rpartition("/")[2] for other in names if other != name}
        assert set(re.findall(r"\(([^)]+)\)", top)) == others
