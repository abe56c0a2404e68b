"""Recognising text and its encoding."""

import gzip
import os
import random
import sys

import chardet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.encoded_texts import ENCODED

from carrel.sources.content.text import character_start, decode, decode_as, describe_encoding, recognise

CHINESE = "糖尿病是一组以高血糖为特征的代谢性疾病。\r\n高血压患者应当低盐饮食,并按时服药。\n"
FRENCH = "Un résumé naïf, où l'été à Besançon a été très agréable.\n"


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"", "utf-8"),
        (b"plain\r\ntext\rwith all\nline endings", "utf-8"),
        (CHINESE.encode(), "utf-8"),
        ("😀 emoji".encode(), "utf-8"),
        (b"\xef\xbb\xbf" + CHINESE.encode(), "utf-8"),
        (b"\xff\xfe" + CHINESE.encode("utf-16-le"), "utf-16-le"),
        (b"\xfe\xff" + CHINESE.encode("utf-16-be"), "utf-16-be"),
        (b"\xff\xfe\0\0" + CHINESE.encode("utf-32-le"), "utf-32-le"),
        ("Windows notepad, long ago.\r\n".encode("utf-16-le"), "utf-16-le"),
        ("network order\n".encode("utf-16-be"), "utf-16-be"),
        (f"mixed {CHINESE}".encode("utf-16-le"), "utf-16-le"),
        (CHINESE.encode("gb18030"), "gb18030"),
        ("标题:AI 与健康 (2024) 😀\n".encode("gb18030"), "gb18030"),
        ("繁體中文,也在國標碼之中。\n".encode("gb18030"), "gb18030"),
        (FRENCH.encode("latin-1"), "iso8859-1"),
        ("Größe: 5 µm für Übung\n".encode("latin-1"), "latin-1"),
        ("“Smart quotes” – and a dash, 5 €\n".encode("cp1252"), "cp1252"),
        (b"\x1b[31mred\x1b[0m log with \x07 bell\n" * 3, "utf-8"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_text_is_recognised_in_its_encoding_and_decoded_with_its_line_endings(data: bytes, encoding: str) -> None:
    text = decode(data)
    assert text is not None
    assert text.encoding == encoding
    assert not text.text.startswith("\ufeff")
    assert text.text.encode(encoding) in (data, data[3:], data[2:], data[4:])


@pytest.mark.parametrize(("encoding", "text"), ENCODED)
def test_the_usual_encodings_of_many_languages_are_recognised(encoding: str, text: str) -> None:
    code = "".join(f"    print(total)  # {line}\n" for line in text.splitlines())
    for whole in (text, code, "# ASCII\n" * 10_000 + code):
        data = whole.encode(encoding)
        found = decode(data)
        assert found is not None
        assert found.text == whole, found.encoding
        assert describe_encoding(found.encoding) == {"carrel/encoding": found.encoding}
        if len(data) < 1000:
            for end in range(len(data) - 20, len(data)):
                encoding_of_part = recognise(data[:end], truncated=True)
                assert encoding_of_part is not None
                assert decode_as(data, encoding_of_part) == whole


def test_text_that_does_not_show_its_encoding_is_latin_1_and_says_so() -> None:
    found = decode(b"5 \xb5\n")
    assert found is not None
    assert found.text == "5 µ\n"
    assert describe_encoding(found.encoding) == {"carrel/encoding": "latin-1", "carrel/encodingUndecided": True}


def test_without_chardet_text_that_is_not_unicode_is_latin_1_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chardet", None)
    found = decode(CHINESE.encode("gb18030"))
    assert found is not None
    assert found.encoding == "latin-1"
    escapes = decode(b"\x1b$B is no text here\n")
    assert escapes is not None
    assert escapes.encoding == "utf-8"


def test_work_for_an_unusual_encoding_does_not_grow_with_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    real = chardet.detect_all
    monkeypatch.setattr(chardet, "detect_all", lambda data, **options: seen.append(len(data)) or real(data, **options))
    for text in ("Привет, мир. " * 100_000, "Привет, мир.\n" * 100_000):
        assert recognise(text.encode("koi8_r")) == "koi8-r"
    assert decode(b"plain\n") is not None
    assert decode("Größe".encode()) is not None
    assert len(seen) == 2  # UTF-8 needs none
    assert max(seen) <= 4096


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"\x7fELF\x02\x01\x01" + bytes(9),
        gzip.compress(b"text " * 50),
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj",
        b"\xff\xd8\xff\xe1 JPEG without zeros",
        bytes(range(256)),
        bytes(100),
        b"text with a hole \0\0\0 of zeros",
        random.Random(1).randbytes(50),
        random.Random(2).randbytes(5000),
        b"\x01\x02\x03\x04",
    ],
    ids=range(11),
)
def test_binary_data_is_told_from_text(data: bytes) -> None:
    assert decode(data) is None


def test_a_few_broken_bytes_do_not_make_utf8_something_else() -> None:
    text = decode((CHINESE * 20).encode() + b"\xff\xfe broken \xe7\xb3" + CHINESE.encode())
    assert text is not None
    assert text.encoding == "utf-8"
    assert text.text.count("\ufffd") < 5


def test_a_sample_may_end_within_a_character() -> None:
    for encoding in ("utf-8", "gb18030"):
        data = CHINESE.encode(encoding)
        for end in range(20, len(data)):
            assert recognise(data[:end], truncated=True) == encoding


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_utf8_comes_back_as_it_was_written(text: str) -> None:
    decoded = decode(text.encode())
    assert decoded is not None
    assert decoded.text == text.removeprefix("\ufeff")


@given(st.binary(max_size=400))
def test_any_bytes_are_text_or_not_but_never_an_error(data: bytes) -> None:
    decoded = decode(data)
    assert decoded is None or isinstance(decoded.text.encode("utf-8", "surrogatepass"), bytes)
    recognise(data, truncated=True)


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "gb18030", "latin-1", "cp932", "euc_jis_2004", "big5hkscs"],
)
def test_characters_begin_where_they_begin(encoding: str) -> None:
    text = "a糖é😀\n尿b病㐀0𠀀".encode(encoding, "ignore").decode(encoding)
    data = text.encode(encoding)
    starts = [len(text[:index].encode(encoding)) for index in range(len(text) + 1)]
    for offset in range(len(data) + 1):
        assert character_start(data, offset, encoding) == min(start for start in starts if start >= offset)


def test_recognising_ten_megabytes_takes_no_more_than_reading_them_twice() -> None:
    data = os.urandom(10_000_000)
    assert decode(data) is None  # judged by a sample
    assert recognise(b"text\n" * 2_000_000) == "utf-8"


@pytest.mark.parametrize("encoding", ["gb18030", "utf-8", "latin-1", "utf-16-le"])
@pytest.mark.parametrize("broken", [b"", b"\x81"], ids=["whole", "broken"])
def test_long_text_is_decoded_in_pieces_as_it_is_in_one(
    encoding: str, broken: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = FRENCH * 10 if encoding == "latin-1" else CHINESE * 10
    data = text.encode(encoding) + broken + text.encode(encoding)
    in_one = decode_as(data, encoding)
    recognised = recognise(data), recognise(data, truncated=True)
    for length in (1, 2, 3, 100):
        monkeypatch.setattr("carrel.sources.content.text.PIECE", length)
        assert decode_as(data, encoding) == in_one
        assert (recognise(data), recognise(data, truncated=True)) == recognised
