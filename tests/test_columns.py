"""Columns of text: the width of characters, cutting, and tables that fit."""

import pytest

from carrel.columns import aligned, truncate, width_of

URI = "file:///srv/notes/a-name-that-is-longer-than-its-column.md"


@pytest.mark.parametrize(
    ("text", "width"), [("", 0), ("abc", 3), ("资料", 4), ("📚 x", 4), ("e\u0301", 1), ("ｗ", 2), ("é", 1)]
)
def test_wide_characters_take_two_columns_and_accents_none(text: str, width: int) -> None:
    assert width_of(text) == width


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("资料资料", 8, "资料资料"),
        ("资料资料", 7, "资料资…"),
        ("资料资料", 6, "资料…"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
    ],
)
def test_a_line_is_cut_between_characters(text: str, width: int, expected: str) -> None:
    assert truncate(text, width) == expected
    assert width_of(expected) <= width


def test_columns_are_aligned_by_what_they_take_on_the_screen() -> None:
    assert aligned([("资料", "1 B", "x"), ("a", "10 KiB", "")], 80) == ["资料  1 B     x", "a     10 KiB"]


def test_a_long_cell_is_whole_on_a_line_of_its_own_and_the_last_column_is_cut() -> None:
    lines = aligned([(URI, "2 B", "about this and that and more"), ("memo:1", "3 B", "short"), (URI, "", "")], 40)
    assert lines == [URI, f"{' ' * 25}2 B  about thi…", f"memo:1{' ' * 19}3 B  short", URI]
    assert max(width_of(line) for line in lines if line != URI) == 40


def test_the_last_column_begins_further_left_below_a_long_cell_rather_than_being_cut() -> None:
    assert aligned([("a", URI, "needs LIBRARY_TOKEN")], 30) == [f"a  {URI}", f"{' ' * 11}needs LIBRARY_TOKEN"]
    assert aligned([("", "about this and that"), ("memo:1", "x")], 20) == [f"{' ' * 8}about this …", "memo:1  x"]


def test_without_a_width_each_row_is_one_whole_line() -> None:
    rows = [("u" * 300, "2 B", "d" * 300), ("memo:1", "3 B", "short")]
    assert aligned(rows, None) == [f"{'u' * 300}  2 B  {'d' * 300}", f"memo:1{' ' * 96}3 B  short"]


@pytest.mark.parametrize("width", [1, 5, 20])
def test_the_narrowest_terminal_gets_a_table(width: int) -> None:
    assert aligned([("a" * 30, "b" * 30, "c" * 30)], width)[0] == "a" * 30
    assert aligned([], width) == []
