"""Editing JSON with comments in place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.host.config.jsonc import JsoncError, parse, put, remove

COMMENTED = """\
{
  // my servers
  "servers": {
    "one": { "command": "uvx" }, // the first
    /* two is
       switched off */
    "two": {
      "command": "node",
    },
  },
  "inputs": [ ] // none
}
"""


def test_everything_json_has_is_read():
    text = '{"a": [1, -2.5e3, 0, true, false, null, "\\u00e9\\n\\ud83c\\udf70"], "b": {"c": {}}, "": []}'
    assert parse(text, comments=False) == json.loads(text)


def test_comments_and_trailing_commas_are_read():
    assert parse(COMMENTED) == {
        "servers": {"one": {"command": "uvx"}, "two": {"command": "node"}},
        "inputs": [],
    }


def test_comment_marks_inside_strings_are_text():
    assert parse('{"url": "http://x//y", "glob": "/* not a comment */"}') == {
        "url": "http://x//y",
        "glob": "/* not a comment */",
    }


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ("{", 1, 2),
        ('{"a": 1,, "b": 2}', 1, 9),
        ('{"a": 1 "b": 2}', 1, 9),
        ("{'a': 1}", 1, 2),
        ("{a: 1}", 1, 2),
        ('{"a" 1}', 1, 6),
        ('{"a": }', 1, 7),
        ('{"a": 01}', 1, 8),
        ('{"a": .5}', 1, 7),
        ('{"a": NaN}', 1, 7),
        ('{"a": "x\n"}', 1, 9),
        ('{"a": "\\x"}', 1, 8),
        ('{\n  "a": [1 2]\n}', 2, 11),
        ('{\n  "a": [,]\n}', 2, 9),
        ("{}\n{}", 2, 1),
        ("{} x", 1, 4),
        ("/* {}", 1, 1),
    ],
)
def test_what_is_not_json_is_refused_with_its_place(text, line, column):
    with pytest.raises(JsoncError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_text_that_is_nested_too_deeply_is_refused():
    with pytest.raises(JsoncError):
        parse("[" * 100_000)


@pytest.mark.parametrize("text", ['{"a": 1} // c', '{/* c */"a": 1}', '{"a": 1,}', '{"a": [1,]}'])
def test_plain_json_has_neither_comments_nor_trailing_commas(text):
    assert parse(text) is not None
    with pytest.raises(JsoncError, match="plain JSON"):
        parse(text, comments=False)


@given(st.text(alphabet='{}[]",:/*\\ \n\r\tabe1-.tfn', max_size=60))
def test_hostile_text_raises_only_the_documented_error(text):
    try:
        data = parse(text)
    except JsoncError:
        return
    if "//" not in text and "/*" not in text and not any(c in text for c in ",]}"):
        assert data == json.loads(text)


def test_a_new_member_goes_after_the_last_one_and_everything_else_stays():
    assert put(COMMENTED, ("servers", "three"), {"command": "carrel", "args": ["serve", "/tmp"]}) == COMMENTED.replace(
        """\
      "command": "node",
    },
""",
        """\
      "command": "node",
    },
    "three": {
      "command": "carrel",
      "args": ["serve", "/tmp"]
    },
""",
    )


def test_a_comment_at_the_end_of_the_line_stays_with_its_member():
    before = '{\n  "a": 1 // why\n  // later\n}\n'
    assert put(before, ("b",), 2) == '{\n  "a": 1, // why\n  "b": 2\n  // later\n}\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "s": {\n    "x": [1]\n  }\n}'),
        ('{"s":{}}', '{"s":{"x":[1]}}'),
        ('{"s":{"a":1}}', '{"s":{"a":1,"x":[1]}}'),
        ('{ "s": { "a": 1 } }', '{ "s": { "a": 1, "x": [1] } }'),
        ('{"s": {"a": 1,}}', '{"s": {"a": 1, "x": [1],}}'),
        ('{\n\t"s": {}\n}', '{\n\t"s": {\n\t\t"x": [1]\n\t}\n}'),
        ('{\n    "s": {\n        // none\n    }\n}', '{\n    "s": {\n        // none\n        "x": [1]\n    }\n}'),
        ('{\r\n  "s": {\r\n    "a": 1\r\n  }\r\n}\r\n', '{\r\n  "s": {\r\n    "a": 1,\r\n    "x": [1]\r\n  }\r\n}\r\n'),
        (
            '{\r\n  "s": {\r\n    "a": 1 // c\r\n  }\r\n}',
            '{\r\n  "s": {\r\n    "a": 1, // c\r\n    "x": [1]\r\n  }\r\n}',
        ),
        ('{\n  "s": {\n    "a": 1 /* c */ }\n}', '{\n  "s": {\n    "a": 1, /* c */\n    "x": [1] }\n}'),
        ('// head\n{\n  "t": 1\n}\n// tail\n', '// head\n{\n  "t": 1,\n  "s": {\n    "x": [1]\n  }\n}\n// tail\n'),
        ('{\n  "s": {\n    "x": [2] // two\n  }\n}', '{\n  "s": {\n    "x": [1] // two\n  }\n}'),
        ('{\n  "s": {"x": 1, "x": 2}\n}', '{\n  "s": {"x": 1, "x": [1]}\n}'),
    ],
)
def test_what_is_added_looks_like_what_is_there(before, after):
    assert put(before, ("s", "x"), [1]) == after


def test_a_value_that_is_there_already_changes_nothing():
    assert put(COMMENTED, ("servers", "two"), {"command": "node"}) == COMMENTED
    assert put('{"a": 1}', ("a",), True) == '{"a": true}'


def test_long_lists_get_a_line_for_each_value():
    after = put("{}", ("args",), ["a" * 60, "b" * 60])
    assert after == '{\n  "args": [\n    "' + "a" * 60 + '",\n    "' + "b" * 60 + '"\n  ]\n}'


def test_something_that_is_not_an_object_is_not_overwritten():
    with pytest.raises(JsoncError, match="servers is not an object"):
        put('{"servers": []}', ("servers", "x"), 1)
    with pytest.raises(JsoncError, match="the document is not an object"):
        put("[]", ("servers", "x"), 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{\n  "s": {\n    "x": 1,\n    "y": 2\n  }\n}', '{\n  "s": {\n    "y": 2\n  }\n}'),
        ('{\n  "s": {\n    "y": 2,\n    "x": 1\n  }\n}', '{\n  "s": {\n    "y": 2\n  }\n}'),
        ('{\n  "s": {\n    "y": 2,\n    "x": 1,\n  }\n}', '{\n  "s": {\n    "y": 2,\n  }\n}'),
        ('{\n  "s": {\n    "x": {\n      "a": 1\n    }\n  }\n}', '{\n  "s": {}\n}'),
        ('{"s":{"x":1,"y":2}}', '{"s":{"y":2}}'),
        ('{"s": {"y": 2, "x": 1}}', '{"s": {"y": 2}}'),
        ('{"s": {"x": 1, "y": 2, "x": 3}}', '{"s": {"y": 2}}'),
        ('{"s": {"x": 1}}', '{"s": {}}'),
        ('{\n  "s": {\n    // mine\n    "x": 1\n  }\n}', '{\n  "s": {\n    // mine\n  }\n}'),
        ('{\r\n  "s": {\r\n    "y": 2,\r\n    "x": 1\r\n  }\r\n}', '{\r\n  "s": {\r\n    "y": 2\r\n  }\r\n}'),
        ('{"s": 1}', '{"s": 1}'),
        ('{"t": 1}', '{"t": 1}'),
        ("[]", "[]"),
    ],
)
def test_a_member_is_removed_with_its_comma_and_its_line(before, after):
    assert remove(before, ("s", "x")) == after


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=3), values, max_size=4)
indents = st.sampled_from([None, 0, 1, 2, 4, "\t"])


@given(objects, indents, st.text(max_size=3), st.text(min_size=1, max_size=3), values, st.booleans())
def test_any_document_can_be_changed_and_changed_back(document, indent, section, name, value, windows):
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    if windows:
        text = text.replace("\n", "\r\n")
    expected = json.loads(text)
    if not isinstance(expected.setdefault(section, {}), dict):
        with pytest.raises(JsoncError, match="is not an object"):
            put(text, (section, name), value)
        return
    expected[section][name] = value

    after = put(text, (section, name), value)

    assert json.loads(after) == expected
    assert put(after, (section, name), value) == after
    del expected[section][name]
    assert json.loads(remove(after, (section, name))) == expected


@given(objects, indents, values)
def test_adding_and_removing_restores_the_text(document, indent, value):
    document = {"s": {"a": 1}} | {key: item for key, item in document.items() if key != "s"}
    text = json.dumps(document, indent=indent)
    assert remove(put(text, ("s", "new one"), value), ("s", "new one")) == text
