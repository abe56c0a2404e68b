"""URIs: splitting, the form to compare, and file names there and back."""

import os
from pathlib import PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from carrel.uri.parse import (
    SIMPLE,
    Uri,
    UriError,
    canonical,
    encode_path,
    file_path,
    file_uri,
    normalize,
    parse,
    percent_decode,
    percent_encode,
    resolve,
    split_port,
)
from support.processor_time import is_linear

NEARLY_URIS = st.text(st.sampled_from("afz:/?#[]@!$&'()*+,;=%20EFé糖.-_~ \\\x00\ud800|")) | st.text()


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("file:///a/b.txt", Uri("file", "", "/a/b.txt")),
        ("file:/a", Uri("file", None, "/a")),
        ("http://user:pw@example.com:8080/a?b=c#d", Uri("http", "user:pw@example.com:8080", "/a", "b=c", "d")),
        ("http://example.com", Uri("http", "example.com", "")),
        ("http://example.com?", Uri("http", "example.com", "", "")),
        ("http://example.com:/", Uri("http", "example.com:", "/")),
        ("http://[2001:db8::1]:80/", Uri("http", "[2001:db8::1]:80", "/")),
        ("http://[v1.fe80::a+en1]/", Uri("http", "[v1.fe80::a+en1]", "/")),
        ("http://127.0.0.1/", Uri("http", "127.0.0.1", "/")),
        ("memo:1", Uri("memo", None, "1")),
        ("memo:", Uri("memo", None, "")),
        ("urn:isbn:0-486-27557-4", Uri("urn", None, "isbn:0-486-27557-4")),
        ("git+file:a?b/c?d#e/f?g", Uri("git+file", None, "a", "b/c?d", "e/f?g")),
        ("x:a?#", Uri("x", None, "a", "", "")),
        ("x://a//b", Uri("x", "a", "//b")),
        ("mailto:o'brien@example.com", Uri("mailto", None, "o'brien@example.com")),
    ],
)
def test_a_uri_is_split_into_its_components_and_put_together_again(text: str, uri: Uri) -> None:
    assert parse(text) == uri
    assert str(uri) == text


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        ("file:///docs/糖尿病.txt", "file:///docs/%E7%B3%96%E5%B0%BF%E7%97%85.txt"),
        ("file:///a🙂/%41é", "file:///a%F0%9F%99%82/%41%C3%A9"),
        ("x://müller@bücher.example/?q=ü#ß", "x://m%C3%BCller@b%C3%BCcher.example/?q=%C3%BC#%C3%9F"),
        ("file:///app/[id]/a|b^c?[#]", "file:///app/%5Bid%5D/a%7Cb%5Ec?%5B#%5D"),
    ],
)
def test_characters_that_clients_leave_unescaped_are_escaped(text: str, encoded: str) -> None:
    assert str(parse(text)) == encoded
    assert str(parse(encoded)) == encoded


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begins with a scheme"),
        ("a", "begins with a scheme"),
        (":a", "begins with a scheme"),
        ("/etc/passwd", "begins with a scheme"),
        ("1a:b", "the scheme of a URI"),
        ("a b:c", "the scheme of a URI"),
        ("a_b:c", "the scheme of a URI"),
        ("é:c", "the scheme of a URI"),
        ("a\ud800:c", "the scheme of a URI"),
        ("a/b:c", "the scheme of a URI"),
        ("x:a b", "' ' is not allowed in the path"),
        ("x:a\nb", "is not allowed in the path"),
        ("x:a\x00", "is not allowed in the path"),
        ("x:a\x7f", "is not allowed in the path"),
        ("x:a\\b", "is not allowed in the path"),
        ('x:"', "is not allowed in the path"),
        ("x:<a>", "is not allowed in the path"),
        ("x:{a}", "is not allowed in the path"),
        ("x:`", "is not allowed in the path"),
        ("x:a?b c", "is not allowed in the query"),
        ("x:a#b#c", "is not allowed in the fragment"),
        ("x:%", "'%' in the path"),
        ("x:%4", "'%' in the path"),
        ("x:%4g", "'%' in the path"),
        ("x:%é1", "'%' in the path"),
        ("x:a?%zz", "'%' in the query"),
        ("x:a#%", "'%' in the fragment"),
        ("x:\ud800", "lone surrogate"),
        ("x://a b/", "is not allowed in the host"),
        ("x://a@b@c/", "is not allowed in the user part"),
        ("x://a[b/", "is not allowed in the host"),
        ("x://" + "a" * 256, "at most 255 characters"),
        ("x://a:80x/", "the port of a URI is a number"),
        ("x://a:b:80/", "the port of a URI is a number"),
        ("x://a:-1/", "the port of a URI is a number"),
        ("x://[::1/", "brackets"),
        ("x://[::1]x/", "brackets"),
        ("x://[1.2.3.4]/", "brackets"),
        ("x://[fe80::1%25en1]/", "brackets"),
        ("x://[v.a]/", "brackets"),
        ("x://[vg.a]/", "brackets"),
        ("x://[v1.]/", "brackets"),
        ("x://[::g]/", "brackets"),
        ("x://[é]/", "brackets"),
        ("x://[]/", "brackets"),
    ],
)
def test_what_is_not_a_uri_is_refused(text: str, message: str) -> None:
    with pytest.raises(UriError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("FILE:///A", "file:///A"),
        ("HTTP://User@EXAMPLE.com:80/A?B#C", "http://User@example.com:80/A?B#C"),
        ("x://%41%c3%a9.com/", "x://a%C3%A9.com/"),
        ("x:%7euser/%2fa%2E", "x:~user/%2Fa."),
        ("x:%2541", "x:%2541"),
        ("x:a?%61=%26#%66", "x:a?a=%26#f"),
        ("file:///糖", "file:///%E7%B3%96"),
        ("file:///a/../b/./c", "file:///a/../b/./c"),
        ("file:///a/%2e%2e/b", "file:///a/../b"),
        ("file://localhost/a", "file://localhost/a"),
        ("http://example.com", "http://example.com"),
        ("x:?#", "x:?#"),
    ],
)
def test_equivalent_uris_have_one_normal_form_in_which_nothing_is_removed(text: str, normal: str) -> None:
    assert normalize(text) == normal
    assert normalize(normal) == normal


@pytest.mark.skipif(os.name == "nt", reason="paths of POSIX")
@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("file:///a/b", "file:///a/b"),
        ("file:/a/b", "file:///a/b"),
        ("FILE:/%61/b/", "file:///a/b"),
        ("file://LocalHost/a/b", "file:///a/b"),
        ("file:///a/b?tail=1", "file:///a/b?tail=1"),
        ("file:/a/%E9%2A", "file:///a/%E9%2A"),
        ("file:///a/.b/..c", "file:///a/.b/..c"),
        ("file:///", "file:///"),
        ("file:/", "file:///"),
        ("X://%41/%62/?c", "x://a/b/?c"),
        ("x:/a/../b", "x:/a/../b"),
    ],
)
def test_every_spelling_names_one_resource(spelling: str, name: str) -> None:
    assert str(resolve(spelling)) == name
    assert str(resolve(normalize(spelling))) == name


@pytest.mark.parametrize(
    "uri",
    [
        "file:a",
        "file://host/a",
        "file:///a//b",
        "file:////a",
        "file:///a/./b",
        "file:///a/%2e%2e/b",
        "file:///a/..",
        "file:///a%2Fb",
        "file:///a%5cb",
        "file:///a%00",
        "file:///a#b",
        "a",
    ],
)
def test_what_names_no_file_for_certain_is_refused(uri: str) -> None:
    with pytest.raises(UriError):
        resolve(uri)


@given(NEARLY_URIS)
def test_what_is_named_does_not_depend_on_the_spelling(text: str) -> None:
    try:
        name = resolve(text)
    except UriError:
        return
    assert resolve(str(name)) == name == resolve(normalize(text))


def test_an_escaped_host_is_compared_without_case_like_any_other() -> None:
    assert normalize("x://%45X/") == normalize("x://ex/")


@pytest.mark.parametrize("host", ["a" * 256, "A" * 256])
def test_a_host_is_too_long_in_every_way_of_comparing_uris(host: str) -> None:
    for read in (parse, normalize):
        with pytest.raises(UriError, match="at most 255 characters"):
            read(f"x://{host}/")


@given(st.from_regex(r"\A[a-z]([a-z]|file)?://[a-z.]*[A-Z:@]?(/[a-zA-Z0-9._~-]{0,3}|%41|\?a|#a){0,3}\n?\Z"))
def test_a_plain_uri_is_in_normal_form_as_its_components_say(text: str) -> None:
    try:
        uri = parse(text)
    except UriError:
        with pytest.raises(UriError):
            normalize(text)
        return
    if "%" not in text:
        assert normalize(text) == str(uri._replace(authority=uri.authority and uri.authority.lower()))


@given(NEARLY_URIS)
@example("x:%C3%A9")
def test_any_text_is_a_uri_or_refused_with_the_documented_error(text: str) -> None:
    try:
        uri = parse(text)
    except UriError:
        with pytest.raises(UriError):
            normalize(text)
        return
    assert str(uri).isascii()
    assert parse(str(uri)) == uri
    assert normalize(normalize(text)) == normalize(text) == normalize(str(uri))


@given(st.text())
def test_percent_encoding_is_undone_by_decoding(text: str) -> None:
    assert percent_decode(percent_encode(text)) == text
    assert percent_encode(text).isascii()


@given(st.text(st.sampled_from("%\\x0123Fé\n")) | st.text())
def test_any_text_is_decoded_or_refused_with_the_documented_error(text: str) -> None:
    try:
        decoded = percent_decode(text)
    except UriError:
        assert "%" in text
    else:
        assert "%" in text or decoded == text


@pytest.mark.parametrize(
    ("text", "decoded"),
    [
        ("%41", "A"),
        ("%2525", "%25"),
        ("%e7%B3%96", "糖"),
        ("\\x41%5C", "\\x41\\"),
        ("a%0Ab", "a\nb"),
        ("糖%20", "糖 "),
        ("", ""),
    ],
)
def test_decoding_happens_once(text: str, decoded: str) -> None:
    assert percent_decode(text) == decoded


@pytest.mark.parametrize("text", ["%", "%4", "%4g", "%%", "%C3", "%FF", "%ED%A0%80", "%C0%AF", "%\ud800"])
def test_malformed_escapes_and_bytes_that_are_not_utf8_are_refused(text: str) -> None:
    with pytest.raises(UriError, match="malformed percent escape"):
        percent_decode(text)


def test_a_lone_surrogate_cannot_be_encoded() -> None:
    with pytest.raises(UriError, match="character 2 is a lone surrogate"):
        percent_encode("a\ud800")
    with pytest.raises(UriError, match="lone surrogate"):
        percent_encode("\udcff")
    with pytest.raises(UriError, match="lone surrogate"):
        encode_path(["\ud800"])


def test_path_segments_are_joined_with_everything_escaped_but_unreserved_characters() -> None:
    assert encode_path(["a b", "c/d", "", "é", "~-._", "x:y@z", "\udcff"]) == "a%20b/c%2Fd//%C3%A9/~-._/x%3Ay%40z/%FF"
    assert encode_path([]) == ""


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/", "file:///"),
        ("/a/b.txt", "file:///a/b.txt"),
        ("/a/b/", "file:///a/b/"),
        ("/my docs/C# 100%?.txt", "file:///my%20docs/C%23%20100%25%3F.txt"),
        ("/docs/糖尿病.txt", "file:///docs/%E7%B3%96%E5%B0%BF%E7%97%85.txt"),
        ("/🙂", "file:///%F0%9F%99%82"),
        ("/caf\udce9", "file:///caf%E9"),
        ("/a\nb", "file:///a%0Ab"),
        ("/...", "file:///..."),
        ("/a:b", "file:///a%3Ab"),
        ("/%2F", "file:///%252F"),
    ],
)
def test_a_path_has_a_file_uri_that_names_it(path: str, uri: str) -> None:
    assert file_uri(path, windows=False) == uri
    assert file_path(uri, windows=False) == path
    assert file_path(parse(uri), windows=False) == path


def test_a_path_object_is_taken_as_well_as_text() -> None:
    assert file_uri(PurePosixPath("/a b"), windows=False) == "file:///a%20b"


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:/a", "/a"),
        ("FILE://LOCALHOST/a", "/a"),
        ("file:///糖尿病.txt", "/糖尿病.txt"),
        ("file:///%e7%b3%96", "/糖"),
        ("file:///a%3ab+c", "/a:b+c"),
        ("file:///[id]", "/[id]"),
    ],
)
def test_other_ways_of_writing_a_file_uri_are_understood(uri: str, path: str) -> None:
    assert file_path(uri, windows=False) == path


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("http://localhost/a", "not a file: URI"),
        ("file://server/share", "another host"),
        ("file://127.0.0.1/a", "another host"),
        ("file://user@localhost/a", "another host"),
        ("file://localhost:80/a", "another host"),
        ("file:///a?lines=1", "a query or a fragment"),
        ("file:///a?", "a query or a fragment"),
        ("file:///a#b", "a query or a fragment"),
        ("file:///a%00", "NUL, slash or backslash"),
        ("file:///a%2fb", "NUL, slash or backslash"),
        ("file:///a%2Fb", "NUL, slash or backslash"),
        ("file:///a%5cb", "NUL, slash or backslash"),
        ("file:///a/%2E%2E%5C", "NUL, slash or backslash"),
        ("file:///a/../b", "'.' or '..' segment"),
        ("file:///a/%2e%2e/b", "'.' or '..' segment"),
        ("file:///.%2e", "'.' or '..' segment"),
        ("file:///a/./b", "'.' or '..' segment"),
        ("file:///a/.", "'.' or '..' segment"),
        ("file:////etc", "an empty, '.' or '..' segment"),
        ("file:///a//b", "an empty, '.' or '..' segment"),
        ("file:a", "absolute"),
        ("file:", "absolute"),
        ("file://", "absolute"),
        ("file:///%", "two hexadecimal digits"),
        ("file:///a\\b", "not allowed in the path"),
        ("a", "begins with a scheme"),
    ],
)
def test_a_file_uri_that_names_no_file_here_is_refused(uri: str, message: str) -> None:
    with pytest.raises(UriError, match=message):
        file_path(uri, windows=False)


def test_a_file_uri_that_was_not_parsed_is_not_trusted() -> None:
    with pytest.raises(UriError, match="malformed percent escape"):
        file_path(Uri("file", "", "/%zz"), windows=False)
    with pytest.raises(UriError, match="backslash"):
        file_path(Uri("file", "", "/a\\..\\b"), windows=False)


@pytest.mark.parametrize("path", ["", "a", "./a", "/a/../b", "/a/.", "//a", "/a//b", "/a\0", "/a\\b", "/\ud800"])
def test_a_path_that_no_file_uri_can_name_is_refused(path: str) -> None:
    with pytest.raises(UriError):
        file_uri(path, windows=False)


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("C:\\", "file:///C:/"),
        ("C:\\my docs\\a#b.txt", "file:///C:/my%20docs/a%23b.txt"),
        ("d:\\糖", "file:///d:/%E7%B3%96"),
    ],
)
def test_a_windows_path_has_a_file_uri_that_names_it(path: str, uri: str) -> None:
    assert file_uri(path, windows=True) == uri
    assert file_uri(path.replace("\\", "/"), windows=True) == uri
    assert file_path(uri, windows=True) == path
    assert file_path(uri.replace("C:", "C%3A"), windows=True) == path


@pytest.mark.parametrize(
    "path", ["\\\\server\\share", "\\a", "a", "C:a", "C:\\a:stream", "C:\\..\\a", "C:\\\\a", "é:\\a"]
)
def test_a_windows_path_that_is_relative_remote_or_a_stream_is_refused(path: str) -> None:
    with pytest.raises(UriError):
        file_uri(path, windows=True)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///a",
        "file:////server/share",
        "file:///C:/a:stream",
        "file:///C:a",
        "file:///C:/a%5C..%5Cb",
        "file:///C:/../a",
    ],
)
def test_a_file_uri_that_names_no_windows_file_is_refused(uri: str) -> None:
    with pytest.raises(UriError):
        file_path(uri, windows=True)


@given(st.lists(st.binary(min_size=1), min_size=1))
def test_every_name_on_disk_round_trips_whatever_its_bytes(names: list[bytes]) -> None:
    names = [name.translate(None, b"/\\\0") or b"x" for name in names]
    names = [b"x" + name if name in (b".", b"..") else name for name in names]
    path = b"/" + b"/".join(names)
    text = path.decode("utf-8", "surrogateescape")
    uri = file_uri(text, windows=False)
    assert uri.isascii()
    assert normalize(uri) == uri
    assert file_path(uri, windows=False).encode("utf-8", "surrogateescape") == path


@given(NEARLY_URIS.map(lambda text: "file://" + text), st.booleans())
def test_a_file_path_is_absolute_and_stays_below_its_beginning(uri: str, windows: bool) -> None:
    try:
        path = file_path(uri, windows=windows)
    except UriError:
        return
    segments = path.replace("\\", "/").split("/")
    assert path[1:3] == ":\\" if windows else path[0] == "/"
    assert ".." not in segments
    assert "\0" not in path
    assert file_path(file_uri(path, windows=windows), windows=windows) == path


def test_the_paths_of_this_machine_are_the_default() -> None:
    here = os.path.abspath(os.curdir)
    assert file_path(file_uri(here)) == here


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern", ["a", "%41", "%e7%b3%96", "a%2F", "é", "/", "/.", "?", "#", ":", "@", "[", "%", "\\", "//%2e%2e"]
)
@pytest.mark.parametrize("start", ["", "file:///", "x://", "x://[", "x:?", "x:#"])
def test_hostile_text_takes_linear_time(start: str, pattern: str) -> None:
    def use(uri: str) -> None:
        for action in (parse, normalize, percent_decode, file_path):
            try:
                action(uri)
            except UriError:
                pass

    quarter, whole = (start + (pattern * length)[: length - length % len(pattern)] for length in (8_192, 32_768))
    assert is_linear(lambda: use(quarter), lambda: use(whole), 20)


@pytest.mark.parametrize(
    ("uri", "form"),
    [
        ("note://a/b", "note://a/b"),
        ("NOTE://A/b/%7Ed", "note://a/b/~d"),
        ("file:///%61/b", "file:///a/b"),
        ("file:///a/b", "file:///a/b"),
        ("a:b", "a:b"),
        ("no uri", "no uri"),
        ("a://[", "a://["),
    ],
)
def test_the_canonical_form_is_resolved_and_a_text_that_is_no_uri_stays(uri: str, form: str) -> None:
    assert canonical(uri) == form


@given(st.from_regex(r"(?:file:///?|[a-zA-Z]{1,4}:/{0,3})(?:[aA~%/.:?#-]|%41|\.\.){0,12}", fullmatch=True))
@example("file:///a/..")
@example("file://host/a")
@example("note://a/./b")
@example("note://a:1/b")
def test_a_simple_uri_is_canonical_and_has_no_dot_segments(uri: str) -> None:
    if SIMPLE.match(uri) is not None:
        assert canonical(uri) == uri
        assert not {".", ".."}.intersection(uri.split("/"))


@pytest.mark.parametrize("uri", ["file:///srv/a.md", "note://a/b-c/~d", "note://a"])
def test_most_listed_uris_are_simple(uri: str) -> None:
    assert SIMPLE.match(uri) is not None


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("host", ("host", None)),
        ("host:1", ("host", 1)),
        ("host:65535", ("host", 65535)),
        ("[::1]", ("[::1]", None)),
        ("[::1]:80", ("[::1]", 80)),
        (":80", ("", 80)),
    ],
)
def test_the_port_of_an_authority_is_a_number(text: str, split: tuple[str, int | None]) -> None:
    assert split_port(text) == split


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "+1", "1 ", "x", "٣", "000001"])
def test_another_port_is_refused(port: str) -> None:
    with pytest.raises(UriError, match="is not a port"):
        split_port(f"host:{port}")
