"""Detection of text and its encoding, and decoding.

Tried in this order: a byte order mark; UTF-8; UTF-16 without a mark, where zero bytes on one side give it away; the
usual encodings of East Asian, European and Middle Eastern languages, as chardet finds them in a sample; Latin-1, which
decodes anything, if chardet is not installed or does not decide. Data with zero bytes, or control characters not found
in text, is binary. Line endings are left alone.

Only the block of the file with the first non-ASCII byte and the next block are examined. A window of a file, its
beginning and the whole file therefore have the same encoding.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from carrel.threads import stop_if_cancelled

__all__ = [
    *("SAMPLE", "UTF8", "DecodedText", "character_start", "decode", "decode_as", "describe_encoding", "has_escapes"),
    *("is_utf8", "line_feed", "recognise"),
]

UTF8 = "utf-8"
UNDECIDED = "latin-1"  # chardet calls Latin-1 "iso8859-1" where it decides for it
BLOCK = 32_768
SAMPLE = 2 * BLOCK  # bytes: enough to judge by, and quick
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

MAX_EVIDENCE = 4096  # bytes that chardet looks at, which takes it about a millisecond
LEAST_CONFIDENCE = 0.05  # random bytes get 0.01 to 0.03, and sentences more than this
LEAST_OF_DOUBLE = 0.02  # in encodings of two bytes per character, which random bytes are hardly ever valid in
CLOSE = 0.92  # of the best confidence: then the commonest encodings are preferred
WESTERN = ("cp1252", "iso8859-1")
ESCAPE = b"\x1b$"  # begins characters of two bytes in ISO-2022
SIGN = re.compile(rb"[\x80-\xff]|\x1b\$")
C1 = bytes(range(0x80, 0xA0))  # control characters in ISO 8859, letters and punctuation in other encodings
ISO_8859 = tuple(f"iso8859-{number}" for number in (1, 2, 5, 6, 7, 8, 9, 13, 15))
USUAL = (
    *("big5hkscs", "cp932", "cp949", "euc_jis_2004", "euc_kr", "gb18030", "iso2022_jp_2"),
    *("shift_jis_2004", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258"),
    *("cp437", "cp850", "cp852", "cp866", "cp874", "koi8-r", "koi8-u", "mac-cyrillic", "mac-roman", "tis-620"),
)
SINGLE_BYTE = ("cp", "iso8859", "koi8", "mac", "tis", "latin")
DOUBLE_BYTE = ("cp932", "cp949")


class DecodedText(NamedTuple):
    """Decoded text, and the encoding that was detected."""

    text: str
    encoding: str


def decode(data: bytes) -> DecodedText | None:
    """Detect the encoding of a whole file and decode it, without its byte order mark. None if it is not text."""
    if not data.startswith((b"\xef", b"\xff", b"\xfe", b"\0")) and not has_escapes(data):
        try:
            text = data.decode()
        except UnicodeDecodeError:
            pass
        else:
            if not is_binary(data[:SAMPLE]):
                return DecodedText(text, UTF8)  # nearly every file
    encoding = recognise(data)
    return None if encoding is None else DecodedText(decode_as(data, encoding), encoding)


def describe_encoding(encoding: str) -> dict[str, Any]:
    """Return the entries in ``_meta`` for text in an encoding: nothing for UTF-8."""
    if encoding == UTF8:
        return {}
    undecided = {"carrel/encodingUndecided": True} if encoding == UNDECIDED else {}
    return {"carrel/encoding": encoding} | undecided


def decode_as(data: bytes, encoding: str) -> str:
    """Decode text in a known encoding, without its byte order mark. Invalid bytes are replaced."""
    if len(data) <= PIECE:
        return data.decode(encoding, "replace").removeprefix("\ufeff")
    return "".join(pieces(data, encoding)).removeprefix("\ufeff")


def pieces(data: bytes, encoding: str) -> Iterator[str]:
    """Decode piece by piece, unless the request is cancelled. Invalid bytes are replaced."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for start in range(0, len(data), PIECE):
        stop_if_cancelled()
        yield decoder.decode(data[start : start + PIECE], start + PIECE >= len(data))


def recognise(data: bytes, *, truncated: bool = False) -> str | None:
    """Detect the encoding of text and return Python's name for it, or None if this is not text.

    With ``truncated`` the data is the beginning of something longer, and may end within a character.
    """
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return encoding
    if b"\0" in data[:SAMPLE]:
        return recognise_utf16(data[: SAMPLE & ~1])
    if is_binary(data[:SAMPLE]):
        return None
    begin, end = first_signs(data)
    area = data[begin:end]
    if is_utf8(area, truncated=truncated or end < len(data)) and not has_escapes(area):
        return UTF8
    if b"\0" in area or data.startswith(SIGNATURES):
        return None
    return recognise_usual(area)


def first_signs(data: bytes) -> tuple[int, int]:
    """Return the range of the data that shows its encoding; it is empty in ASCII.

    The range begins with a line. It ends with the block after the one in which the first sign is.
    """
    for block in range(0, len(data), BLOCK):
        part = data[block : block + BLOCK + 1]  # one more, since an escape sequence has two bytes
        if part.isascii() and not has_escapes(part):
            continue
        sign = SIGN.search(part)
        if sign is not None:
            begin = block + sign.start()
            return max(data.rfind(b"\n", begin - MAX_EVIDENCE, begin) + 1, begin - MAX_EVIDENCE, 0), block + SAMPLE
    return len(data), len(data)


def recognise_usual(area: bytes) -> str:
    """Detect one of the usual encodings besides Unicode. ASCII text with unknown escape sequences is UTF-8."""
    lines, size = list[bytes](), 0
    for line in area.split(b"\n"):
        if SIGN.search(line) is not None:
            lines.append(line[: MAX_EVIDENCE - size])
            size += len(lines[-1]) + 1
            if size >= MAX_EVIDENCE:
                break
    evidence = b"\n".join(lines)
    undecided = UTF8 if evidence.isascii() else UNDECIDED
    try:
        import chardet  # deferred: hardly any file needs it, and it takes 40 MB
    except ImportError:
        return undecided
    has_c1 = len(evidence.translate(None, C1)) < len(evidence)
    names = USUAL if has_c1 else USUAL + ISO_8859
    found = chardet.detect_all(evidence, compat_names=False, include_encodings=names)
    encoding, best = found[0]["encoding"], found[0]["confidence"]
    if encoding is None or best < (LEAST_OF_DOUBLE if has_double_bytes(encoding) else LEAST_CONFIDENCE):
        return undecided
    western = (one["encoding"] for one in found if one["confidence"] >= CLOSE * best and one["encoding"] in WESTERN)
    return next(western, encoding) or undecided


def has_double_bytes(encoding: str) -> bool:
    """Return whether an encoding is a multi-byte East Asian encoding."""
    return encoding in DOUBLE_BYTE or not encoding.startswith(("utf", *SINGLE_BYTE))


def has_escapes(data: bytes) -> bool:
    """Return whether there are escape sequences of ISO-2022."""
    return b"\x1b" in data and ESCAPE in data  # a search for one byte is ten times as fast


def is_binary(sample: bytes) -> bool:
    """Return whether there are zero bytes, or more than 2 % control characters."""
    odd = len(sample) - len(sample.translate(None, CONTROLS))
    return odd > 0 and (odd * 50 > len(sample) or b"\0" in sample)


def is_utf8(data: bytes, *, truncated: bool) -> bool:
    """Return whether this is UTF-8, maybe with a few invalid bytes and, if ``truncated``, a partial last character."""
    try:
        codecs.utf_8_decode(data, "strict", not truncated)
    except UnicodeDecodeError:
        text = data[:SAMPLE].decode(UTF8, "replace")
        broken = text.count("\ufffd")
        other = len(text) - len(text.encode("ascii", "ignore"))
        return broken * 20 < other
    return True


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

    ``data`` begins at a character, or, in encodings of East Asia, at least with a kilobyte that comes before
    ``offset``. In ISO-2022, the characters from one escape sequence to the next count as one.
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
    elif has_double_bytes(encoding):
        if encoding.startswith("iso2022"):
            position = max(data.rfind(b"\x1b", 0, offset), data.rfind(b"\n", 0, offset) + 1)
        else:  # a byte below 0x30 is always a single-byte character
            position = next((index + 1 for index in range(offset - 1, -1, -1) if data[index] < 0x30), 0)
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        initial = decoder.getstate()
        decoder.decode(data[position:offset])
        while decoder.getstate() != initial and offset < len(data):
            decoder.decode(data[offset : offset + 1])
            offset += 1
    return min(offset, len(data))
