"""Inputs for fuzzing without coverage: seeds that are cut, spliced, repeated and sprinkled with what parsers stumble over."""

# ruff: noqa: E501  (the seeds are easier to read in rows)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

__all__ = ["inputs"]

#: Bytes that mean something to many parsers, and the ends of ranges.
TOKENS = (
    *(
        b"%",
        b"%00",
        b"%2e%2e",
        b"%2F",
        b"%zz",
        b"%C3",
        b"..",
        b"/",
        b"//",
        b"\\",
        b"?",
        b"&",
        b"=",
        b"#",
        b"+",
        b";",
        b":",
    ),
    *(
        b"\0",
        b"\n",
        b"\r\n",
        b"\t",
        b"\x1b",
        b"\x7f",
        b"\xff",
        b"\xc3\xa9",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xae",
    ),
    *(b"'", b'"', b"`", b"$", b"{", b"}", b"[", b"]", b"(", b")", b"<", b">", b"<!--", b"--", b"/*", b"*/", b"*", b","),
    *(b"-1", b"0", b"00", b"1e999", b"-0", b"nan", b"inf", b"2147483648", b"9" * 20, b"9" * 400, b"\xd9\xa3"),
    *("²".encode(), "１".encode(), "糖尿病".encode(), "\U0001f600".encode(), "İ".encode(), b"null", b"true"),
)
#: Digits beyond the most that int() reads: https://docs.python.org/3/library/stdtypes.html#int-max-str-digits
LONG = (b"1" * 4301, b"a" * 5000, b"(" * 2000, b"[" * 2000, b"{" * 500, b"../" * 200)


def inputs(seeds: Sequence[bytes], count: int, random: Random) -> Iterator[bytes]:
    """Yield the seeds, and then inputs made of them, ``count`` in all."""
    yield from seeds[:count]
    for _ in range(count - len(seeds)):
        data = random.choice(seeds)
        for _ in range(random.choice((1, 1, 2, 3, 8))):
            data = changed(data, seeds, random)
        yield data


def changed(data: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    """Return data with one change."""
    begin = random.randrange(len(data) + 1)
    end = min(len(data), begin + random.choice((0, 0, 1, 1, 2, 4, 16)))
    match random.randrange(6):
        case 0:
            middle = random.choice(TOKENS)
        case 1:
            middle = b""
        case 2:
            middle = data[begin:end] * random.choice((2, 3, 50))
        case 3:
            other = random.choice(seeds)
            start = random.randrange(len(other) + 1)
            middle = other[start : start + random.choice((1, 4, 16, 64, 10_000))]
        case 4:
            middle = random.choice(LONG) if random.random() < 0.2 else random.choice(TOKENS) + data[begin:end]
        case _:
            middle = bytes(random.randrange(256) for _ in range(end - begin))
    return data[:begin] + middle + data[end:]
