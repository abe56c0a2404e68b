"""Frontmatter is read as YAML 1.2 has it, and what has no one meaning in JSON is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.protocol.extensions.frontmatter import MAX_FRONTMATTER, FrontmatterError, check_skill, read_frontmatter


def read(text: str) -> dict[str, object]:
    return read_frontmatter(f"---\n{text}\n---\nbody\n".encode())


def test_every_field_that_the_author_wrote_is_there() -> None:
    text = "name: pdf\ndescription: >-\n  Folded\n  text.\nlicense: MIT\nallowed-tools: [Read, 'Bash(git:*)']\n"
    assert read(text + "metadata:\n  author: someone\n  tags:\n  - a\n  - b\n  deep: {x: {y: [1, ~]}}\nempty:") == {
        "name": "pdf",
        "description": "Folded text.",
        "license": "MIT",
        "allowed-tools": ["Read", "Bash(git:*)"],
        "metadata": {"author": "someone", "tags": ["a", "b"], "deep": {"x": {"y": [1, None]}}},
        "empty": None,
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("yes", "yes"),
        ("off", "off"),
        ("True", True),
        ("null", None),
        ("'null'", "null"),
        ("2026-01-31", "2026-01-31"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("007", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("-5", -5),
        ("1.10", 1.1),
        ("1e3", 1000.0),
        ("1.2.3", "1.2.3"),
        ("=", "="),
        ("!!str 5", "5"),
        ("!!int '5'", 5),
        ("!custom 5", "5"),
        ("'it''s'", "it's"),
        ('"a\\tb\\u00e9"', "a\tbé"),
        ("|\n  two\n  lines", "two\nlines\n"),
        ("&a [1, 2]", [1, 2]),
    ],
)
def test_a_value_is_what_the_core_schema_of_yaml_1_2_says(written: str, meant: object) -> None:
    assert read(f"x: {written}") == {"x": meant}


def test_names_of_fields_stay_as_they_are_written() -> None:
    assert read("1: a\ntrue: b\n1.0: c\n~: d\n<<: e\n'quoted': f") == {
        "1": "a",
        "true": "b",
        "1.0": "c",
        "~": "d",
        "<<": "e",
        "quoted": "f",
    }


def test_an_alias_is_what_it_stands_for() -> None:
    assert read("a: &x [1]\nb: *x\nc: &y text\n*y : 2") == {"a": [1], "b": [1], "c": "text", "text": 2}


@pytest.mark.parametrize(
    "data",
    [b"---\r\na: 1\r\n---\r\nbody", b"\xef\xbb\xbf---\na: 1\n---", b"---\na: 1\n--- \t\nbody", b"---\na: 1\n---\n\xff"],
)
def test_line_ends_marks_and_what_follows_make_no_difference(data: bytes) -> None:
    assert read_frontmatter(data) == {"a": 1}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not begin with frontmatter"),
        (b"# Title\n---\na: 1\n---\n", "does not begin with frontmatter"),
        (b"\n---\na: 1\n---\n", "does not begin with frontmatter"),
        (b"---\na: 1\n", "does not begin with frontmatter"),
        (b"---\na: 1\n----\n", "does not begin with frontmatter"),
        (b"---\n" + b"a: 1\n" * MAX_FRONTMATTER + b"---\n", "does not begin with frontmatter"),
        (b"---\n---\n", "fields and their values"),
        (b"---\n- a\n---\n", "fields and their values"),
        (b"---\njust text\n---\n", "fields and their values"),
        (b"---\na: \xff\n---\n", "UTF-8"),
        (b"---\na: 'open\n---\n", "not YAML"),
        (b"---\na: b: c\n---\n", "not YAML: .*, line 2"),
        (b"---\na: \x07\n---\n", "not YAML"),
        (b"---\na: 1\n...\n%YAML 1.1\n---\n", "not YAML|one document"),
        (b"---\na: 1\na: 2\n---\n", "the field a twice"),
        (b"---\nm:\n  a: 1\n  a: 2\n---\n", "the field a twice"),
        (b"---\n? [a]\n: 1\n---\n", "not text"),
        (b"---\n? {a: 1}\n: 1\n---\n", "not text"),
        (b"---\na: &x [1]\n*x : 2\n---\n", "not text"),
        (b"---\na: *x\n---\n", "alias"),
        (b"---\na: &x [*x]\n---\n", "alias"),
        (b"---\na: .nan\n---\n", "JSON does not have"),
        (b"---\na: -.inf\n---\n", "JSON does not have"),
        (b"---\na: 1e999\n---\n", "too large"),
        (b"---\na: 99999999999999999999\n---\n", "too large"),
        (b"---\na: " + b"9" * 60_000 + b"\n---\n", "too large"),
        (b"---\na: " + b"[" * 60_000 + b"\n---\n", "nested"),
        (b"---\n" + b"".join(b" " * i + b"a:\n" for i in range(40)) + b"---\n", "nested"),
        (
            b"---\na: &a [1,1,1,1,1,1,1,1,1]\n"
            + b"".join(b"%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n" % (c, c, *[c - 1] * 9) for c in b"bcdefghij")
            + b"---\n",
            "values",
        ),
    ],
)
def test_what_has_no_one_meaning_in_json_is_refused_at_once(data: bytes, reason: str) -> None:
    with pytest.raises(FrontmatterError, match=reason):
        read_frontmatter(data)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read_frontmatter(f"---\n{text}\n---\n".encode("utf-8", "surrogatepass"))
    except FrontmatterError:
        pass


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read_frontmatter(b"---\n" + data + b"\n---\n")
    except FrontmatterError:
        pass


def test_a_skill_has_the_name_of_its_directory_and_a_description() -> None:
    check_skill({"name": "a-1-b", "description": "x" * 1024}, "a-1-b")
    check_skill({"name": "x" * 64, "description": "d"}, "x" * 64)


@pytest.mark.parametrize(
    ("frontmatter", "directory"),
    [
        ({"description": "d"}, "a"),
        ({"name": "a"}, "a"),
        ({"name": 1, "description": "d"}, "1"),
        ({"name": "a", "description": ["d"]}, "a"),
        ({"name": "a", "description": " "}, "a"),
        ({"name": "a", "description": "d" * 1025}, "a"),
        ({"name": "b", "description": "d"}, "a"),
        *(({"name": name, "description": "d"}, name) for name in ("", "A", "a_b", "-a", "a-", "a--b", "é", "a" * 65)),
    ],
)
def test_what_the_agent_skills_specification_rules_out_is_no_skill(frontmatter: dict, directory: str) -> None:
    with pytest.raises(FrontmatterError):
        check_skill(frontmatter, directory)
