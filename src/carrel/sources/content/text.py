"""Detection of text and its encoding, and decoding.

Tried in this order: a byte order mark; UTF-8; UTF-16 without a mark, where zero bytes on one side give it away;
GB18030, where most of it decodes to everyday Chinese characters; Windows-1252 or Latin-1 as the last resort, which
decode nearly anything. Data with zero bytes, or control characters not found in text, is binary. Line endings are left
alone.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import NamedTuple

from carrel.threads import stop_if_cancelled

__all__ = ["UTF8", "Text", "character_start", "decode", "decode_as", "line_feed", "recognise"]

UTF8 = "utf-8"
SAMPLE = 65_536  # bytes: enough to judge by, and quick
PIECE = 1_048_576  # bytes decoded at a time, while no other thread runs

MARKS = (
    (codecs.BOM_UTF8, UTF8),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# Control characters of terminals and old printers may be in a log: BEL, BS, TAB, LF, VT, FF, CR, SO, SI, ESC.
CONTROLS = bytes(sorted({*range(0x20), 0x7F} - {7, 8, 9, 10, 11, 12, 13, 14, 15, 0x1B}))

# Signatures of binary formats that may look like an 8-bit encoding for want of zero bytes.
SIGNATURES = (
    b"%PDF-",
    b"\x89PNG",
    b"GIF8",
    b"\xff\xd8\xff",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"BZh",
    b"\xfd7zXZ",
)


class Text(NamedTuple):
    """Decoded text, and the encoding that was detected."""

    text: str
    encoding: str


def decode(data: bytes) -> Text | None:
    """Detect the encoding of a whole file and decode it, without its byte order mark. None if it is not text."""
    if not data.startswith((b"\xef", b"\xff", b"\xfe", b"\0")):
        try:
            text = data.decode()
        except UnicodeDecodeError:
            pass
        else:
            if not is_binary(data[:SAMPLE]):
                return Text(text, UTF8)  # nearly every file
    encoding = recognise(data)
    return None if encoding is None else Text(decode_as(data, encoding), encoding)


def decode_as(data: bytes, encoding: str) -> str:
    """Decode text in a known encoding, without its byte order mark. Invalid bytes are replaced."""
    if len(data) <= PIECE:
        return data.decode(encoding, "replace").removeprefix("\ufeff")
    return "".join(pieces(data, encoding, "replace")).removeprefix("\ufeff")


def pieces(data: bytes, encoding: str, errors: str, *, cut: bool = False) -> Iterator[str]:
    """Decode piece by piece, unless the request is cancelled; with ``cut``, ``data`` may end within a character.

    Raises:
        UnicodeDecodeError: it is not in this encoding, and ``errors`` is "strict".
    """
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    for start in range(0, len(data), PIECE):
        stop_if_cancelled()
        yield decoder.decode(data[start : start + PIECE], not cut and start + PIECE >= len(data))


def recognise(data: bytes, *, cut: bool = False) -> str | None:
    """Detect the encoding of text and return Python's name for it, or None if this is not text.

    With ``cut`` the data is the beginning of something longer, and may end within a character.
    """
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return encoding
    if b"\0" in data[:SAMPLE]:
        return recognise_utf16(data[: SAMPLE & ~1])
    if is_binary(data[:SAMPLE]):
        return None
    if is_utf8(data, cut):
        return UTF8
    if b"\0" in data or data.startswith(SIGNATURES):
        return None
    if is_gb18030(data, cut):
        return "gb18030"
    sample = data[:SAMPLE]
    if len(sample.translate(None, bytes(range(0x80, 0xA0)))) < len(sample):
        try:
            data.decode("cp1252")
        except UnicodeDecodeError:
            pass
        else:
            return "cp1252"
    return "latin-1"


def is_binary(sample: bytes) -> bool:
    """Return whether there are zero bytes, or more than 2 % control characters."""
    odd = len(sample) - len(sample.translate(None, CONTROLS))
    return odd > 0 and (odd * 50 > len(sample) or b"\0" in sample)


def is_utf8(data: bytes, cut: bool) -> bool:
    """Return whether this is UTF-8, possibly with a few invalid bytes."""
    try:
        codecs.utf_8_decode(data, "strict", not cut)
    except UnicodeDecodeError:
        text = data[:SAMPLE].decode(UTF8, "replace")
        broken = text.count("\ufffd")
        other = len(text) - len(text.encode("ascii", "ignore"))
        return broken * 20 < other
    return True


def is_gb18030(data: bytes, cut: bool) -> bool:
    """Return whether this is Chinese text in GB18030 (or its subsets GBK and GB 2312)."""
    try:
        sample = ""
        for piece in pieces(data, "gb18030", "strict", cut=cut):
            sample = sample or piece[:SAMPLE]
    except UnicodeDecodeError:
        return False
    # An accented letter and the one after it also make a character of GB18030, but hardly ever one of the 6,763 in
    # everyday use, and those are what Chinese text consists of.
    characters = "".join(filter(lambda character: character > "\x7f", sample))
    everyday = len(characters.encode("gb2312", "ignore")) // 2
    return everyday * 2 > len(characters)


def recognise_utf16(sample: bytes) -> str | None:
    """Detect UTF-16 without a byte order mark, and its byte order; None if it is not evident."""
    if len(sample) % 2:
        return None
    big, little = sample[0::2].count(0), sample[1::2].count(0)
    if min(big, little) * 4 > max(big, little):
        return None
    encoding = "utf-16-be" if big > little else "utf-16-le"
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return None
    odd = sum(not (character.isprintable() or character in "\r\n\t\f") for character in text)
    return encoding if odd * 50 <= len(text) else None


def line_feed(encoding: str) -> bytes:
    """Return the encoded line feed."""
    return "\n".encode(encoding)


def character_start(data: bytes, offset: int, encoding: str) -> int:
    """Return the offset of the first character of ``data`` that begins at ``offset`` or after it.

    ``data`` begins at a character, or, in GB18030, at least with a kilobyte that comes before ``offset``.
    """
    if encoding == UTF8:
        end = min(offset + 3, len(data))
        while offset < end and data[offset] & 0xC0 == 0x80:
            offset += 1
    elif encoding.startswith("utf-16"):
        offset += offset % 2
        high = offset + (1 if encoding == "utf-16-le" else 0)
        if high < len(data) and data[high] & 0xFC == 0xDC:
            offset += 2
    elif encoding.startswith("utf-32"):
        offset += -offset % 4
    elif encoding == "gb18030":
        # A byte below 0x30 is always a character of its own; from the last one on, characters can be counted.
        position = next((index + 1 for index in range(offset - 1, -1, -1) if data[index] < 0x30), 0)
        while position < offset:
            if data[position] < 0x81:
                position += 1
            else:
                position += 4 if position + 1 < len(data) and 0x30 <= data[position + 1] <= 0x39 else 2
        offset = position
    return min(offset, len(data))
