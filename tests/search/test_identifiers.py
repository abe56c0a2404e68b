"""Identifiers of questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from carrel import Server
from carrel.search.identifiers import identifiers_of
from search.indexed import names, searching, write


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("what does the option --require-hashes do?", "pip install --require-hashes -r x"),
        ("where is GateView.allow()", "it calls GateView.allow(uri)"),
        ("where is GateView.allow", "    async def allow(self, uri):"),
        ("who raises E1234?", "error E1234: no space"),
        ("what belongs into /etc/apt/sources.list", "the file /etc/apt/sources.list."),
        ('what means "too many levels"', "Too many\nlevels of links"),
        ("was macht `msgmerge -N`", "msgmerge -N a b"),
        ("--stack-trace-mode 옵션 값", "**\\--stack-trace-mode** MODE"),
        ("what happens if tp_repr is not set", "`tp\\_repr`"),
        ("Unlink= in pstore.conf", "Unlink=yes"),
    ],
)
def test_identifiers_are_found_exactly(question: str, text: str) -> None:
    assert any(each.is_in(text) for each in identifiers_of(question))


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("--require-hashes", "--no-require-hashes"),
        ("--require-hashes", "--require-hashes-strictly"),
        ("nmap -A", "nmap -sA"),
        ("sources.list", "in sources.list.d"),
        ("E1234", "E12345"),
        ("nmap -A", "nmap -a"),
    ],
)
def test_parts_of_longer_identifiers_are_others(question: str, text: str) -> None:
    assert not any(each.is_in(text) for each in identifiers_of(question))


@pytest.mark.parametrize(
    "question",
    [
        "How is green tea brewed? And when?",
        "what is TLS",
        "read-only files, e.g. of 2024",
        "糖尿病怎么治疗?",
        "it's so",
        '"x"',
    ],
)
def test_words_of_a_sentence_are_no_identifiers(question: str) -> None:
    assert identifiers_of(question) == []


async def test_passages_with_exactly_the_identifier_come_first(tmp_path: Path) -> None:
    texts = {f"page{number}_md": "# Page\n\nThe option: require hashes for each file.\n" for number in range(20)}
    texts["zip_md"] = "# Page\n\nThe option --require-hashes for each file.\n"
    app = Server("s")
    app.add_provider(str(write(tmp_path / "shared", **texts)))
    async with searching(app, tmp_path / "cache") as (index, _):
        assert names(await index.search("what does the option --require-hashes do"))[0] == "zip.md"
        assert names(await index.search("what does the option require hashes do"))[0] != "zip.md"
        passages = (await index.passages("what does the option --require-hashes do")).passages
        assert passages[0].resource.name == "zip.md"
        assert [each.score for each in passages] == sorted((each.score for each in passages), reverse=True)
