"""Formats of documents: what of them becomes Markdown, and where their pages are."""

from __future__ import annotations

from functools import cache

import pytest

from carrel.sources.documents.formats.document import SECTION, sections_of
from carrel.sources.documents.kinds import IMAGE, KINDS, Kind
from carrel.sources.documents.messages import WorkerRequest, WorkerResponse
from carrel.sources.documents.worker import NO_TEXT, WorkerState, answer
from support.documents import DOCUMENTS, photo

BY_FORMAT = {kind.format: kind for kind in KINDS.values()}


@cache
def ask(format: str, data: bytes, page: int = 0, *, limit: int = 1_000_000, locations: bool = False) -> WorkerResponse:
    """Return the answer for a document in this process."""
    kind: Kind = BY_FORMAT[format]
    return answer(WorkerRequest("key", kind.module, format, kind.unit, data, page, limit, locations), WorkerState())


@cache
def read_pages(format: str) -> list[str]:
    """Return the pages of a document that is opened once."""
    kind, state = BY_FORMAT[format], WorkerState()
    message = WorkerRequest("key", kind.module, format, kind.unit, DOCUMENTS[format](), 1, 1_000_000, False)
    pages = [answer(message, state)]
    message.data = None
    for message.page in range(2, pages[0].pages + 1):
        pages.append(answer(message, state))
    assert {page.failure for page in pages} == {None}
    return [page.text for page in pages]


@pytest.mark.parametrize("format", DOCUMENTS)
def test_every_format_has_its_words_and_its_pages(format: str) -> None:
    data = DOCUMENTS[format]()
    first, whole = ask(format, data, 1), ask(format, data)
    assert first.failure is whole.failure is None
    assert first.complete
    assert first.pages == whole.pages
    for text in (first.text, whole.text):
        assert "Chapter One" in text
        assert "quick" in text
    assert ask(format, data, first.pages + 1) == WorkerResponse(failure="no_page", pages=first.pages)
    for page in read_pages(format):
        assert page.strip() in whole.text


PARTS = {
    "docx": ["# Chapter One\n", "**bold words**", "- first\n- second", "| name | price  |", "3 \\| 4"],
    "xlsx": ["## Chapter One", "| quick fox | a\\|b |", "| 1.5 | 2 |", "| 2026-11-22 | TRUE |"],
    "pptx": ["## Chapter One", "- quick fox\n- second line", "Notes:\n\nsay Chapter One"],
    "pdf": ["Chapter One\nThe quick fox jumps over it."],
    "odt": ["# Chapter One\n", "[a link](<https://example.com/>)", "- first\n- second", "| name | price |"],
    "ods": ["## Chapter One", "| quick fox |"],
    "odp": ["## Chapter One", "quick fox"],
    "epub": ["# Chapter One\n", "quick **fox**"],
    "html": ["# Chapter One\n", "[a link](/x)", "[image: a fox]", "| name | price |"],
    "ipynb": [
        "# Chapter One\nquick fox",
        "```python\nprint(2 + 2)\n```",
        "```\n4\n```",
        "````python\n'```'\n````",
        "E: bad",
    ],
    "eml": [
        "# Chapter One 糖",
        "- From: Ada <ada@example.com>",
        "says hello",
        "räksmörgås.pdf (application/pdf, 2,000 bytes)",
    ],
    "mbox": ["## Chapter One 糖", "says hello"],
    "rtf": ["Chapter One\n\nThe quick fox jumps over café – 糖.", "a link", "| name | price |"],
}


@pytest.mark.parametrize("format", PARTS)
def test_structure_becomes_markdown(format: str) -> None:
    text = ask(format, DOCUMENTS[format](), 1).text
    for part in PARTS[format]:
        assert part in text


@pytest.mark.parametrize(
    ("format", "pages"), {"xlsx": 2, "pptx": 2, "pdf": 3, "ods": 2, "odp": 2, "epub": 2, "mbox": 2}.items()
)
def test_pages_are_those_of_the_document(format: str, pages: int) -> None:
    whole = ask(format, DOCUMENTS[format]())
    assert whole.pages == pages
    assert whole.text.count(f"<!-- {BY_FORMAT[format].unit} ") == pages


@pytest.mark.parametrize("format", ["docx", "html", "eml", "odt", "ipynb", "rtf"])
def test_what_has_no_pages_has_sections_that_join(format: str) -> None:
    whole = ask(format, DOCUMENTS[format]())
    assert whole.text == "".join(read_pages(format))


@pytest.mark.parametrize(
    "header", [b"", b"Content-Type: text/plain; charset=us-ascii\n", b"Content-Type: text/plain; charset=x\n"]
)
def test_a_message_that_does_not_declare_its_encoding_is_read_in_the_one_that_it_shows(header: bytes) -> None:
    words = "Библиотека открывается в девять часов утра."
    assert words in ask("eml", b"Subject: x\n" + header + b"\n" + words.encode("koi8_r")).text


def test_what_is_not_for_readers_is_left_out() -> None:
    text = ask("html", DOCUMENTS["html"]()).text
    for hidden in ("steal", "menu", "base64"):
        assert hidden not in text
    assert "HTML" not in ask("eml", DOCUMENTS["eml"]()).text
    assert "AAAA" not in ask("ipynb", DOCUMENTS["ipynb"]()).text


def test_sections_begin_at_headings_and_keep_code_together() -> None:
    text = "".join(f"# {n}\n\n{'word ' * 500}\n\n" for n in range(9)) + "```\n" + "# no heading\n\n" * 500 + "```\n"
    sections = sections_of(text)
    assert "".join(sections) == text
    assert len(sections) > 3
    assert all(section.startswith("#") for section in sections)
    assert all(section.count("```") in (0, 2) for section in sections)
    assert max(map(len, sections_of("word\n" * 100_000))) <= SECTION * 4 + 5


def test_text_over_the_limit_is_cut_and_says_so() -> None:
    found = ask("pdf", DOCUMENTS["pdf"](), limit=50)
    assert len(found.text) == 50
    assert not found.complete
    assert ask("pdf", DOCUMENTS["pdf"](), 1).complete


def test_a_page_without_text_says_so() -> None:
    assert ask("html", b"<img src=x>  ").text != ""
    assert ask("html", b"<p> ").text == NO_TEXT


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_images_have_facts_and_tell_no_place_unless_asked(format: str) -> None:
    found = ask(IMAGE.format, photo(format))
    assert found.facts is not None
    dated = {} if format == "TIFF" else {"date": "2026-11-22T10:30:00"}  # Pillow does not write it
    assert found.facts == dated | {
        "format": format,
        "width": 40,
        "height": 30,
        "mode": "RGB",
        "make": "Carrel Optics",
        "model": "Fox 1",
        "orientation": 6,
    }
    assert f"{format} image, 40 × 30 pixels" in found.text
    with_place = ask(IMAGE.format, photo(format), locations=True).facts
    place = {} if format == "TIFF" else {"latitude": -48.5, "longitude": 9.01}
    assert with_place == found.facts | place


@pytest.mark.parametrize("format", [*DOCUMENTS, "image"])
@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"\0" * 100, b"%PDF-1.7\nnonsense"])
def test_what_is_no_document_is_damaged(format: str, data: bytes) -> None:
    found = ask(format, data)
    assert found.failure == "damaged" or (format == "html" and found.failure is None)
