"""Tokenization of URIs for template matching: one character per token, percent-encoded or not."""

__all__ = ["is_encodable", "tokenize", "untokenize"]


def is_encodable(uri: str) -> bool:
    """Return whether the text is free of lone surrogates."""
    try:
        uri.encode()
    except UnicodeEncodeError:
        return False
    return True


def tokenize(text: str) -> str:
    """Replace each percent-encoded character by one character, for `%41` the surrogate U+DC41.

    An escaped delimiter then differs from a delimiter, and a position is never inside a character.

    Raises:
        ValueError: an escape is malformed, or next to a backslash or lone surrogate.
    """
    if "%" not in text:
        return text
    if "\\" in text:
        raise ValueError("a backslash is never part of a URI")
    # Python's own escapes are decoded in C; see `carrel.uri.parse`. First escaped ASCII, then UTF-8.
    for digit in "01234567":
        text = text.replace("%" + digit, "\\\\udc" + digit)
    octets = text.encode().replace(b"%", b"\\x").decode("unicode_escape").encode("latin-1")
    return octets.decode("utf-8", "surrogateescape").encode("ascii", "backslashreplace").decode("unicode_escape")


def untokenize(tokens: str) -> str:
    """Return the percent-decoded text of tokens.

    Raises:
        ValueError: escaped bytes are not UTF-8.
    """
    if tokens.isascii():
        return tokens
    escaped = tokens.encode("ascii", "backslashreplace")
    for digit in b"01234567":
        escaped = escaped.replace(b"\\udc%c" % digit, b"\\u00%c" % digit)
    decoded = escaped.decode("unicode_escape")
    decoded.encode()
    return decoded
