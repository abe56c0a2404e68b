"""Passages: whole sections of about 300 tokens, with their lines and headings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.search.passages import STEP, TARGET, passages_of

MODIFIERS = (
    "async|export|default|public|private|protected|internal|static|final|abstract|override|virtual|sealed|inline|open"
    "|suspend|unsafe|extern|const|pub"
)
KEYWORDS = (
    "def|class|func|fn|function|function*|fun|impl|struct|enum|trait|interface|type|module|namespace|object|record|sub"
    "|proc"
)
KINDS = ["text/markdown", "text/x-python", "text/plain", None]
LINES = [
    "# Heading\n",
    "## Under\n",
    "```\n",
    "def f(x):\n",
    "    class C:\n",
    "\n",
    "words of a line\n",
    "茶" * 40,
    "\r\n",
]
TEXTS = st.lists(st.sampled_from(LINES), max_size=200).map("".join)


@given(TEXTS, st.sampled_from(KINDS))
def test_passages_are_the_whole_text_with_the_numbers_of_its_lines(text, kind):
    passages = list(passages_of(text, kind))
    if not text.strip():
        assert passages == []
        return
    assert "".join(text[each.start : each.end] for each in passages) == text
    for each in passages:
        assert each.first == text.count("\n", 0, each.start) + 1
        assert each.first <= each.last <= text.count("\n", 0, each.end) + 1


def test_small_sections_are_merged_and_large_ones_begin_a_passage():
    small = "".join(f"## Part {number}\nA line of words.\n" for number in range(20))
    large = "## Large\n" + "A line of words.\n" * 60
    first, second = passages_of(f"# Title\n{small}{large}", "text/markdown")
    assert first.heading.startswith("Title | Title > Part 0 | Title > Part 1")
    assert (second.heading, second.first) == ("Title > Large", 42)


def test_a_passage_knows_the_headings_that_it_is_under():
    text = "# Tea\n" + "Leaves. " * 100 + "\n## Black\n" + "Hot water. " * 120 + "\n"
    assert [each.heading for each in passages_of(text, "text/markdown")] == ["Tea", "Tea > Black"]


def test_a_comment_in_a_block_of_code_is_no_heading():
    text = "# Tea\n```sh\n# not a heading\n```\n" + "Leaves. " * 100 + "\n"
    assert [each.heading for each in passages_of(text, "text/markdown")] == ["Tea"]


def test_definitions_in_code_are_passages_with_what_is_right_above_them():
    body = "    x = 1  # a line of code\n" * 40
    text = f"import os\n\n@decorated\ndef first():\n{body}\n\n# about second\nclass Second:\n{body}"
    found = list(passages_of(text, "text/x-python"))
    assert [each.heading for each in found] == ["first", "Second"]
    assert text[found[1].start :].startswith("# about second\nclass Second")


@pytest.mark.parametrize("line", ["word " * 10_000, "茶" * 10_000, "x" * 50_000])
def test_one_long_line_is_cut(line):
    found = list(passages_of(line))
    assert len(found) > 5
    assert all(each.end - each.start <= 2 * TARGET for each in found)
    assert {(each.first, each.last) for each in found} == {(1, 1)}


def test_a_passage_of_chinese_has_fewer_characters():
    text = "这是一个关于协议的句子。\n" * 200
    assert max(each.end - each.start for each in passages_of(text)) < TARGET * 0.6


@given(TEXTS, st.sampled_from(KINDS), st.integers(1, 300))
def test_searching_in_steps_changes_nothing(text, kind, step):
    whole = list(passages_of(text, kind))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("carrel.search.passages.STEP", step)
        assert list(passages_of(text, kind)) == whole


def test_a_large_text_is_searched_in_steps(monkeypatch):
    """Nothing else runs while a regular expression is searched for, not even the event loop in another thread."""
    searched = []

    class Spied:
        def finditer(self, text, begin, end):
            searched.append(end - begin)
            return iter(())

    monkeypatch.setattr("carrel.search.passages._DEFINITION", Spied())
    list(passages_of("x = 1234567\n" * 100_000, "text/x-python"))
    assert sum(searched) == 1_200_001
    assert max(searched) <= STEP + 20


@pytest.mark.parametrize("indent", ["", "    ", "\t"])
@pytest.mark.parametrize("modifiers", ["", "pub(crate) unsafe ", *(f"{each} " for each in MODIFIERS.split("|"))])
def test_definitions_are_found_by_every_keyword_behind_every_modifier(indent, modifiers):
    for keyword in KEYWORDS.split("|"):
        text = f"x = 1\n{indent}{modifiers}{keyword}  some_name(x):\n"
        assert [each.heading for each in passages_of(text, "text/x-code")] == ["some_name"], text
