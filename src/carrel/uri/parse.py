"""URI parsing, normalization and percent-encoding (RFC 3986), and conversion of file: URIs (RFC 8089).

No function accesses a disk or a network, and each takes time linear in its input.

Accepted input and the form of the output:

- The grammar of RFC 3986 is enforced: a scheme is required, escapes are `%` and two hexadecimal digits.
- Characters outside ASCII, which clients do send (`file:///docs/糖尿病.txt`), are percent-encoded as UTF-8
  (RFC 3987, section 3.1). So are `[ ] ^ |` in a path, query or fragment, which WHATWG URL serializers
  leave unescaped. Spaces, quotes, backslashes and control characters are refused.
- Dot segments are kept: `normalize` never changes which path a URI names, and `file_path` refuses them.
- `resolve` decides which resource a URI names. Resource look-ups and access rules start from its result.
"""

import os
import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

__all__ = [
    "SIMPLE",
    "Uri",
    "UriError",
    "encode_path",
    "file_path",
    "file_uri",
    "normal_form",
    "normalize",
    "parse",
    "percent_decode",
    "percent_encode",
    "resolve",
    "split_port",
]

ALPHA = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGIT = "0123456789"
UNRESERVED = ALPHA + DIGIT + "-._~"
SUB_DELIMITERS = "!$&'()*+,;="
RESERVED = ":/?#[]@" + SUB_DELIMITERS
TOLERATED = "[]^|"
"""Illegal in a path, query or fragment, left unescaped there by WHATWG URL serializers, so accepted and escaped."""

MAX_HOST = 255
"""Maximum number of characters of a host name, as in the domain name system (section 3.2.2)."""

_HEXADECIMAL = DIGIT + "abcdefABCDEF"
_SCHEME = (ALPHA + DIGIT + "+-.").encode()
_HOST = (UNRESERVED + SUB_DELIMITERS + "%").encode()
_USER = _HOST + b":"
_PATH = _USER + b"@/"
_QUERY = _PATH + b"?"
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
#: Fast path: a file: URI that is in canonical form already, as most listed ones are.
_PLAIN_FILE = re.compile(r"file://(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~-]+)+\Z")
#: The same for other schemes.
_PLAIN = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://[a-z0-9.-]{1,255}(?:/[A-Za-z0-9._~-]*)*\Z")
_FILE = r"file://(?=/)|" if os.name != "nt" else ""
#: Matches URIs that are in canonical form for certain, and have no segment ``.`` or ``..``.
SIMPLE = re.compile(
    rf"(?:{_FILE}(?!file:)[a-z][a-z0-9+.-]*://(?!\.\.?(?:/|\Z))[a-z0-9.-]{{1,255}})(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~-]+)*\Z"
)
_UNSAFE_IN_FILE_NAME = re.compile("%(?:00|2[Ff]|5[Cc])")


class UriError(ValueError):
    """The text is not a URI, or not one that the operation supports."""


class Uri(NamedTuple):
    """The five components of a URI, percent-encoded; `None` is absent, as opposed to empty (RFC 3986, section 5.3)."""

    scheme: str
    authority: str | None
    path: str
    query: str | None = None
    fragment: str | None = None

    def __str__(self) -> str:
        authority = "" if self.authority is None else "//" + self.authority
        query = "" if self.query is None else "?" + self.query
        fragment = "" if self.fragment is None else "#" + self.fragment
        return f"{self.scheme}:{authority}{self.path}{query}{fragment}"


def parse(uri: str) -> Uri:
    """Split a URI into its components, checking each (RFC 3986, section 3).

    Components stay percent-encoded and otherwise unchanged; see `normalize` for the form to compare.

    Raises:
        UriError: the text is not an absolute URI with a scheme; the message gives the reason and position.
    """
    return _split(uri, normal=False)


def normalize(uri: str) -> str:
    """Return the normal form of a URI, for comparison (RFC 3986, section 6.2.2).

    Scheme and host in lower case, escapes in upper case, unreserved characters not escaped, everything
    else that needs it escaped. Dot segments, default ports and an empty path stay: removing them may change
    which resource is named.

    Raises:
        UriError: as for `parse`.
    """
    return uri if _PLAIN.match(uri) or _PLAIN_FILE.match(uri) else str(_split(uri, normal=True))


def normal_form(uri: str) -> str:
    """Return the normal form of a URI, or the text unchanged if it is not a valid URI."""
    try:
        return normalize(uri)
    except UriError:
        return uri


def resolve(uri: str) -> Uri:
    """Return the canonical URI of the resource that a URI names, equal for all its spellings.

    The canonical URI is the normal form. For a `file:` URI it is the normal form of the opened path, without a host and
    a trailing slash. A query stays: it may name another resource, or a part of the same one (a window of a file).

    Raises:
        UriError: the text is not a URI, or a `file:` URI without a path on this machine (see `file_path`).
    """
    if _PLAIN_FILE.match(uri) and os.name != "nt":
        return Uri("file", "", uri[len("file://") :])
    name = _split(uri, normal=True)
    if name.scheme != "file":
        return name
    path = file_uri(file_path(name._replace(query=None))).removeprefix("file://")
    short = path.rstrip("/")
    top = not short or short.endswith(":")  # the root of the file system, or of a drive
    return Uri("file", "", path if top else short, name.query)


def canonical(uri: str) -> str:
    """Return the canonical form of a URI as text, for comparison; the text itself if it cannot be resolved."""
    if _PLAIN.match(uri) or (_PLAIN_FILE.match(uri) and os.name != "nt"):
        return uri
    try:
        return str(resolve(uri))
    except UriError:
        return uri


def percent_encode(text: str, safe: str = UNRESERVED, *, undecodable: bool = False) -> str:
    """Percent-encode the UTF-8 bytes of all characters except the ASCII characters in `safe` (RFC 3986, section 2.1).

    With `undecodable`, surrogate escapes of `os.fsdecode` become the original bytes again.

    Raises:
        UriError: the text contains a lone surrogate.
    """
    try:
        octets = text.encode("utf-8", "surrogateescape" if undecodable else "strict")
    except UnicodeEncodeError as error:
        raise UriError(f"character {error.start + 1} is a lone surrogate and has no encoding") from None
    if not octets.translate(None, safe.encode()):
        return text
    escapes = _escapes(safe)
    return "".join([escapes[octet] for octet in octets])


def percent_decode(text: str) -> str:
    """Percent-decode a text once, as UTF-8.

    Raises:
        UriError: an escape is malformed, or the bytes are not UTF-8.
    """
    if "%" not in text:
        return text
    try:
        return _octets(text).decode()
    except ValueError:
        raise UriError("malformed percent escape, or escaped bytes that are not UTF-8") from None


def split_port(text: str) -> tuple[str, int | None]:
    """Split ``host:port`` of an authority; None without a port.

    Raises:
        UriError: the port is not a number from 1 to 65535.
    """
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        return text, None
    if not (port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536):
        raise UriError(f"{port[:20]!r} is not a port")
    return host, int(port)


def encode_path(segments: Iterable[str]) -> str:
    """Join path segments with slashes, each percent-encoded except for its unreserved characters.

    The template expression `{/segments*}` expands in the same way, with a leading slash. Segments may come
    from `os.fsdecode`.

    Raises:
        UriError: a segment contains a lone surrogate.
    """
    return "/".join([percent_encode(segment, undecodable=True) for segment in segments])


def file_uri(path: str | os.PathLike[str], *, windows: bool = os.name == "nt") -> str:
    """Return the `file:` URI of an absolute path (RFC 8089), the inverse of `file_path`.

    Names are UTF-8; names that are not (as `os.fsdecode` gives them) keep their bytes. A trailing slash stays.

    Raises:
        UriError: the path is relative, has an empty, `.` or `..` segment, or contains a character that cannot be in one
            (NUL, a backslash; on Windows a network path or a colon after the drive).
    """
    text = os.fspath(path)
    drive = ""
    if windows:
        drive, text = _split_drive(text.replace("\\", "/"))
    _check_file_name(text, windows=windows)
    return f"file://{drive}{encode_path(text.split('/'))}"


def file_path(uri: str | Uri, *, windows: bool = os.name == "nt") -> str:
    """Return the local path of a `file:` URI (RFC 8089), as `os.fsdecode` would give it.

    Raises:
        UriError: not a `file:` URI; another host than none or `localhost`; a query or fragment; an empty,
            `.` or `..` segment, escaped or not; an escaped NUL, slash or backslash.
    """
    parts = parse(uri) if isinstance(uri, str) else uri
    if parts.scheme.lower() != "file":
        raise UriError("not a file: URI")
    if parts.authority and parts.authority.lower() != "localhost":
        raise UriError("the file: URI names another host")
    if parts.query is not None or parts.fragment is not None:
        raise UriError("the file: URI has a query or a fragment, which no file has")
    if _UNSAFE_IN_FILE_NAME.search(parts.path):
        raise UriError("the file: URI has an escaped NUL, slash or backslash in its path")
    try:
        text = _octets(parts.path).decode("utf-8", "surrogateescape")
    except ValueError:
        raise UriError("the file: URI has a malformed percent escape") from None
    drive = ""
    if windows:
        drive, text = _split_drive(text.removeprefix("/"))
    _check_file_name(text, windows=windows)
    return f"{drive[1:]}{text}".replace("/", "\\") if windows else text


def _split(uri: str, *, normal: bool) -> Uri:
    scheme, colon, rest = uri.partition(":")
    if not colon or not scheme:
        raise UriError("a URI begins with a scheme and a colon, as in file: or https:")
    if scheme[0] not in ALPHA or scheme.encode("utf-8", "replace").translate(None, _SCHEME):
        raise UriError("the scheme of a URI is a letter followed by letters, digits, '+', '-' and '.'")
    rest, hash_sign, fragment = rest.partition("#")
    rest, question_mark, query = rest.partition("?")
    authority = None
    path = rest
    if rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        authority, path = _check_authority(authority, normal=normal), slash + path
    return Uri(
        scheme.lower() if normal else scheme,
        authority,
        _check(path, _PATH, "path", normal=normal),
        _check(query, _QUERY, "query", normal=normal) if question_mark else None,
        _check(fragment, _QUERY, "fragment", normal=normal) if hash_sign else None,
    )


def _check(text: str, legal: bytes, component: str, tolerated: str = TOLERATED, *, normal: bool) -> str:
    """Return the component percent-encoded, or raise UriError at an illegal character."""
    if "%" in text:
        if _BAD_ESCAPE.search(text):
            raise UriError(f"a '%' in the {component} is not followed by two hexadecimal digits")
        text = _normalize_escapes(text) if normal else text
    if text.isascii() and not text.encode().translate(None, legal):
        return text
    safe = legal.decode()
    for character in sorted(set(text).difference(safe, tolerated)):
        if character.isascii():
            raise UriError(f"{character!r} is not allowed in the {component} unless percent-encoded")
    return percent_encode(text, safe)


def _check_authority(authority: str, *, normal: bool) -> str:
    user, at_sign, host = authority.rpartition("@")
    user = _check(user, _USER, "user part", "", normal=normal)
    if host.startswith("["):
        address, bracket, rest = host[1:].partition("]")
        if not bracket or rest[:1] not in ("", ":") or not _is_address(address):
            raise UriError("the brackets in the host of a URI do not contain an IPv6 address")
        name, colon, port = f"[{address}]", rest[:1], rest[1:]
    else:
        name, colon, port = host.partition(":")
        if len(name) > MAX_HOST:
            raise UriError(f"the host of a URI has at most {MAX_HOST} characters")
        name = _check(name, _HOST, "host", "", normal=normal)
    if port.strip(DIGIT):
        raise UriError("the port of a URI is a number")
    if normal:
        # After decoding, because escaped letters have a case too; it restores upper-case escapes as well.
        name = _normalize_escapes(name.lower())
    return f"{user}{at_sign}{name}{colon}{port}"


def _is_address(text: str) -> bool:
    """Return whether the text is a valid IP literal, without brackets (RFC 3986, section 3.2.2)."""
    # Imported late because few URIs need it.
    from ipaddress import AddressValueError, IPv6Address

    if text[:1] in ("v", "V"):
        version, _, name = text[1:].partition(".")
        legal = _USER.decode().replace("%", "")
        return bool(version and name) and not (version.strip(_HEXADECIMAL) or set(name).difference(legal))
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return "%" not in text


def _check_file_name(path: str, *, windows: bool) -> None:
    if not path.startswith("/"):
        raise UriError("only an absolute path has a file: URI")
    if "\0" in path or "\\" in path or (windows and ":" in path):
        raise UriError("a path with a NUL, a backslash or, on Windows, a second colon has no file: URI")
    segments = path.split("/")[1:]
    if "" in segments[:-1] or "." in segments or ".." in segments:
        raise UriError("a path with an empty, '.' or '..' segment has no file: URI")


def _split_drive(path: str) -> tuple[str, str]:
    """Split the Windows path `C:/a` into the drive in URI form, `/C:`, and `/a`."""
    if path[:1] not in ALPHA or path[1:3] != ":/":
        raise UriError("only a path that begins with a drive has a file: URI on Windows")
    return "/" + path[:2], path[2:]


def _octets(text: str) -> bytes:
    """Decode percent escapes to bytes. Raises ValueError if one is malformed."""
    # The `\xNN` escapes of Python's own codec are decoded in C: ten times faster on hostile input than a loop here.
    literal = text.encode().replace(b"\\", b"\\\\").replace(b"%", b"\\x")
    return literal.decode("unicode_escape").encode("latin-1")


def _normalize_escapes(text: str) -> str:
    first, *rest = text.split("%")
    normalized = _normalized_escapes()
    return first + "".join([normalized[part[:2]] + part[2:] for part in rest])


@cache
def _escapes(safe: str) -> list[str]:
    """Return the encoding of each byte value if only the characters in `safe` stay unescaped."""
    return [chr(octet) if chr(octet) in safe else f"%{octet:02X}" for octet in range(256)]


@cache
def _normalized_escapes() -> dict[str, str]:
    """Return the normal form of each escape, by its two hexadecimal digits in any case."""
    table = {}
    for octet in range(256):
        high, low = f"{octet >> 4:X}", f"{octet & 15:X}"
        text = chr(octet) if chr(octet) in UNRESERVED else f"%{high}{low}"
        for digits in (high + low, high.lower() + low, high + low.lower(), high.lower() + low.lower()):
            table[digits] = text
    return table
