"""Positions of keys in TOML: where tomllib finds a value, the scanner finds its line and column."""

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.cli.config.positions import find_positions

DOCUMENT = '''\
# a comment with = and [brackets]
title = "a # b"  # comment
"quoted key" . 'other' = 1
[a.b]  # comment
c.d = { e = 1, "f.g" = [1, 2], h.i = "}" }
long = """
[not] a = "table"
\\"""
""""
raw = \'\'\'
x = 1\'\'\'
list = [  # comment
  "one", [2, 3],
  { x = 1979-05-27 07:32:00 },
]
[[t]]
x = 1.5
[t.inner]
y = -inf
[[t]]
[[t.more]]
z = 1
[[t.more]]
z = """"two quotes"" inside"""
[last]
'''


def paths_of(value, path=()):
    """Yield the path of each table, key and element of a document."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from paths_of(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield (*path, index)
            yield from paths_of(item, (*path, index))


def test_every_value_of_a_document_has_a_position():
    assert set(find_positions(DOCUMENT)) == set(paths_of(tomllib.loads(DOCUMENT)))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("title",), (2, 1)),
        (("quoted key", "other"), (3, 1)),
        (("a", "b"), (4, 1)),
        (("a", "b", "c", "d"), (5, 1)),
        (("a", "b", "c", "d", "f.g"), (5, 16)),
        (("a", "b", "c", "d", "f.g", 1), (5, 28)),
        (("a", "b", "c", "d", "h", "i"), (5, 32)),
        (("a", "b", "raw"), (10, 1)),
        (("a", "b", "list", 1, 0), (13, 11)),
        (("a", "b", "list", 2, "x"), (14, 5)),
        (("t",), (16, 1)),
        (("t", 0, "inner", "y"), (19, 1)),
        (("t", 1), (20, 1)),
        (("t", 1, "more", 1, "z"), (24, 1)),
        (("last",), (25, 1)),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_position_is_the_line_and_the_column_of_the_key(path, expected, newline):
    assert find_positions(DOCUMENT.replace("\n", newline))[path] == expected


KEYS = st.one_of(st.from_regex(r"[A-Za-z0-9_-]{1,4}", fullmatch=True), st.text("ab.#=[]{}'\" ", max_size=4))
TEXTS = st.text("ab#=[]{},'\" \n\\", max_size=8)
VALUES = st.recursive(
    st.one_of(st.integers(-9, 9), st.booleans(), TEXTS, st.floats(-9, 9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=3)
ROWS = st.lists(TABLES, min_size=1, max_size=3)


def written(value):
    """Return a value as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, str) and "'" not in value and "\\" not in value:
        return f"'''\n{value}'''"
    return json.dumps(value)


@given(st.dictionaries(KEYS, VALUES, max_size=3), st.dictionaries(KEYS, ROWS, max_size=3))
def test_any_document_is_scanned_as_it_is_parsed(plain, tables):
    lines = [f"{json.dumps(key)} = {written(value)}\n" for key, value in plain.items() if key not in tables]
    for key, rows in tables.items():
        for row in rows:
            lines.append(f"[[ {json.dumps(key)} ]] # [x]\n")
            lines += [f"{json.dumps(inner)}={written(value)}# a comment\n" for inner, value in row.items()]
    text = "".join(lines)
    positions = find_positions(text)
    assert set(positions) == set(paths_of(tomllib.loads(text)))
    for path, (line, column) in positions.items():
        rest = text.split("\n")[line - 1][column - 1 :]
        if isinstance(path[-1], str):
            assert rest.startswith((json.dumps(path[-1]), f"[[ {json.dumps(path[-1])}"))
