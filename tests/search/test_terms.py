"""Terms of texts and words of queries."""

from hypothesis import given
from hypothesis import strategies as st

from carrel.search.terms import MAX_WORDS, all_parted, parted, prepared, words_of
from carrel.sources.content.words import CAPITAL


def test_names_are_split_at_capitals_and_cjk_becomes_bigrams_and_last_characters():
    assert prepared("createHTTPServer") == "create HTTP Server"
    assert prepared("上下文协议").split() == ["上下", "下文", "文协", "协议", "议"]
    assert prepared("MCPのプロトコル").split() == ["MCP", "のプ", "プロ", "ロト", "トコ", "コル", "ル"]


def test_cjk_is_apart_from_the_rest_and_no_pair_is_across_a_gap():
    latin, cjk = parted("createMCPの（プロ）協議，茶。")
    assert latin.split() == ["create", "MCP", "。"]
    assert cjk.split() == ["の", "プロ", "ロ", "協議", "議", "茶"]
    assert parted("a，b") == ("a b", "")


@given(st.lists(st.text("茶協プ가", min_size=1), min_size=1))
def test_bigrams_are_those_of_each_run(runs):
    expected = [run[at : at + 2] for run in runs for at in range(len(run))]
    assert parted("-".join(runs))[1].split() == expected


@given(st.lists(st.text("aB2 \0") | st.text(max_size=5)))
def test_texts_together_are_as_one_by_one(texts):
    assert list(all_parted(texts)) == [parted(text) for text in texts]


def test_full_width_letters_are_the_same_as_others():
    assert prepared("ＭＣＰ") == "MCP"
    assert [word.text for word in words_of("ＭＣＰ")] == ["mcp"]


def test_words_that_say_nothing_are_left_out_unless_there_are_no_others():
    assert [word.text for word in words_of("how to make the tea")] == ["make", "tea"]
    assert [word.text for word in words_of("to be or")] == ["to", "be", "or"]


def test_words_of_cjk_are_apart_from_others():
    assert [(word.text, word.cjk) for word in words_of("MCP协议 tea")] == [
        ("mcp", False),
        ("协议", True),
        ("tea", False),
    ]


@given(st.text(max_size=3000))
def test_any_text_is_a_query_and_can_be_indexed(text):
    assert len(words_of(text)) <= MAX_WORDS
    prepared(text)


@given(st.text("aZB9_ é茶", max_size=60))
def test_texts_and_names_are_split_at_the_same_capitals(text):
    assert prepared(text.replace("茶", "-")) == CAPITAL.sub(" ", text.replace("茶", "-"))
