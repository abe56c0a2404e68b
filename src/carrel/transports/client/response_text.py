"""Text of HTTP responses: the media type and the charset of a Content-Type header, and decoding."""

from __future__ import annotations

import codecs

__all__ = ["decode", "is_encoding", "is_textual", "read_type"]

#: Media types besides text/* that are text, and the suffixes of such types.
TEXTUAL = frozenset(
    f"application/{name}"
    for name in (
        *("ecmascript", "graphql", "javascript", "json", "jsonl", "ndjson", "sql", "toml", "x-javascript"),
        *("x-ndjson", "x-sh", "x-toml", "x-yaml", "xhtml", "xml", "yaml"),
    )
)
TEXTUAL_ENDINGS = ("+json", "+xml", "+yaml")
#: Byte order marks (BOM) and their encodings; UTF-32 before UTF-16, whose marks are prefixes.
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
#: Python codecs that are not character encodings of pages. Some of them decode in quadratic time.
NOT_ENCODINGS = frozenset(("idna", "mbcs", "oem", "punycode", "rawunicodeescape", "undefined", "unicodeescape", "utf7"))


def read_type(header: str) -> tuple[str, str]:
    """Return the media type and the charset of a Content-Type header, each empty if missing."""
    kind, *parameters = header.split(";")
    kind = kind.strip().lower()
    if (
        kind.count("/") != 1
        or not kind.isascii()
        or any(character <= " " or character in '"<>\\' for character in kind)
    ):
        kind = ""
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return kind, value.strip().strip("\"'").lower()
    return kind, ""


def is_textual(kind: str) -> bool:
    """Return whether a media type is textual; an empty one may be."""
    return kind == "" or kind.startswith("text/") or kind in TEXTUAL or kind.endswith(TEXTUAL_ENDINGS)


def decode(data: bytes, charset: str) -> str | None:
    """Decode bytes by their byte order mark, by ``charset``, or as UTF-8. None if they cannot be decoded."""
    encoding = charset if charset and is_encoding(charset) else "utf-8"
    for mark, name in MARKS:
        if data.startswith(mark):
            data, encoding = data[len(mark) :], name
            break
    try:
        return data.decode(encoding)
    except (UnicodeError, LookupError):
        return None


def is_encoding(charset: str) -> bool:
    """Return whether a charset is a character encoding that Python has, and that is safe to decode."""
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return False
    return name.replace("-", "").replace("_", "") not in NOT_ENCODINGS
