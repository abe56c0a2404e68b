"""Changes to one table of a TOML file."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.cli.install.toml_edit import TOMLError, put, remove

TEXT = """\
# top
a = 1

[s.other] # here
command = "x"
args = [
  "[s.mine]",
]

[s.other.env]
K = "v"

[[list]]
b = 2
"""


@pytest.mark.parametrize("text", ["", TEXT, TEXT.replace("\n", "\r\n"), TEXT.rstrip()])
@pytest.mark.parametrize("name", ["mine", "my notes", 'with "quotes"', "with.dot", "ümläut"])
def test_a_table_is_added_changed_and_removed_and_the_rest_stays(text, name):
    added = put(
        text, {("s", name): {"command": "c", "args": ["a\\b", 'q"'], "on": True, "n": 1.5, "env": {"A b": "c"}}}
    )
    assert added.startswith(text)
    assert ("\r\n" in added) == ("\r\n" in text)
    expected = tomllib.loads(text)
    expected.setdefault("s", {})[name] = {
        "command": "c",
        "args": ["a\\b", 'q"'],
        "on": True,
        "n": 1.5,
        "env": {"A b": "c"},
    }
    assert tomllib.loads(added) == expected
    changed = put(added, {("s", name): {"url": "u"}})
    assert tomllib.loads(changed)["s"][name] == {"url": "u"}
    assert remove(changed, "s", name).rstrip() == text.rstrip()


def test_subtables_of_a_table_are_replaced_with_it_and_its_comments_are_kept():
    text = "[s.'mine']\n# why\ncommand = 'x' # gone\n[s.mine.env]\nK = 'v'\n[z]\n"
    assert put(text, {("s", "mine"): {"command": "y"}}) == '[s.mine]\n# why\ncommand = "y"\n\n[z]\n'


@pytest.mark.parametrize(
    "text",
    ["s.mine.command = 'x'\n", "s = { mine = { command = 'x' } }\n", "[s]\nmine = { a = 1 }\n", "s = 1\n", "a = \n"],
)
def test_what_is_written_in_another_form_or_not_valid_is_refused(text):
    with pytest.raises(TOMLError):
        put(text, {("s", "mine"): {"command": "y"}})


def test_a_header_inside_a_text_is_not_taken_for_one():
    with pytest.raises(TOMLError):
        put('x = """\n[s.mine]\na = 1\n"""\n[s.mine]\na = 2\n', {("s", "mine"): {"a": "y"}})


@given(st.text(), st.text())
def test_any_name_and_value_can_be_written(name, value):
    try:
        assert tomllib.loads(put("", {("s", name): {"v": value}})) == {"s": {name: {"v": value}}}
    except (TOMLError, UnicodeEncodeError):
        assert any(0xD800 <= ord(letter) < 0xE000 for letter in name + value)


def test_many_tables_are_added_in_one_change_in_their_order():
    tables = {("s", f"server {number}"): {"command": "c"} for number in range(3)} | {("inputs", "key"): {"x": 1}}
    for text in ("", TEXT, TEXT.rstrip()):
        one_by_one = text
        for key, table in tables.items():
            one_by_one = put(one_by_one, {key: table})
        assert put(text, tables) == one_by_one
        assert put(put(text, tables), {("s", "server 1"): {"command": "d"}, ("s", "new"): {"a": 1}}).endswith(
            "[s.new]\na = 1\n"
        )
