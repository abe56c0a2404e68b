"""Marks of the words of a query in a text."""

import pytest

from carrel.search.marks import marks_of


@pytest.mark.parametrize(
    ("text", "query", "marked"),
    [
        ("Red wines and rewinding", "how to serve red wine", ["Red", "wines"]),
        ("createHTTPServer(port)", "http server", ["HTTPServer"]),
        ("糖尿病是一组疾病", "糖尿病怎么治疗", ["糖尿病"]),
        ("Datenbanken und Bänke", "Datenbank", ["Datenbanken"]),
        ("nothing here", "else", []),
        ("", "wine", []),
    ],
)
def test_words_are_marked_in_their_forms(text: str, query: str, marked: list[str]) -> None:
    assert [text[begin:end] for begin, end in marks_of(text, query)] == marked
