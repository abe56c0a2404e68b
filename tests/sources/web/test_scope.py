"""URLs that a web source shares, and the URIs of them."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carrel.errors import ConfigError, InvalidParams, ResourceNotFound
from carrel.sources.web import readable
from carrel.sources.web.cache import Cached
from carrel.sources.web.feeds import kind_of, read_feed, read_sitemap
from carrel.sources.web.readable import html_text, outline, to_markdown
from carrel.sources.web.scope import WebScope


@pytest.mark.parametrize(
    "target",
    [
        *(
            "http://a.example/",
            "web+ftp://a.example/",
            "web:",
            "https:",
            "https:a.example",
            "https:///x",
            "web+https:/x",
        ),
        *(
            "https://user:secret@a.example/",
            "web+https://user@a.example/",
            "https://a.example/#x",
            "https://a.example:x/",
            "https:/user:secret@a.example/",
            "web+https:\t//user:secret@a.example/",
        ),
        *("https://a.example/../x", "https://a.example/%2e%2e/x", "https://a.example/%2F", "https://a.example\\@b/"),
    ],
)
def test_a_target_that_is_not_a_plain_url_is_refused(target: str):
    with pytest.raises(ConfigError) as caught:
        WebScope(target)
    assert "secret" not in str(caught.value)


def test_the_uri_of_a_target_is_in_normal_form():
    assert WebScope("web+HTTPS://Example.org:443").uri == "web+https://example.org/"
    assert WebScope("web+https://b\u00fccher.example/\u00e9").uri == "web+https://xn--bcher-kva.example/%C3%A9"
    assert WebScope("https://[2606:4700::1111]:8443/a").origin == "https://[2606:4700::1111]:8443"


@pytest.mark.parametrize(
    "uri",
    [
        *("web+https://b.example/docs/x", "web+https://a.example:444/docs/x", "web+http://a.example/docs/x"),
        *("https://a.example/docs/x", "web+https://a.example@b.example/docs/x", "web+https://x@a.example/docs/x"),
        *(
            "web+https://a.example/docs/../x",
            "web+https://a.example/docs/%2e%2e/x",
            "web+https://a.example/docs/.%2E/x",
        ),
        *(
            "web+https://a.example/docs/..;/x",
            "web+https://a.example/docs/x%2f..%2fy",
            "web+https://a.example/docs/%5c",
        ),
        *("web+https://a.example/docs/%00", "web+https://a.example/docs/%252e%252e/", "web+https://a.example./docs/x"),
    ],
)
def test_a_uri_that_leads_out_of_the_origin_or_out_of_the_folder_is_not_found(uri: str):
    with pytest.raises(ResourceNotFound):
        WebScope("web+https://a.example/docs/").address(uri)


SCOPE = WebScope("web+https://a.example/docs/")


@given(st.text(max_size=60) | st.text("./%2eE5cfF\\?#@:;ax", max_size=40))
def test_no_path_leads_out(path: str):
    try:
        url = SCOPE.address(f"web+https://a.example/docs/{path}").url
    except (ResourceNotFound, InvalidParams):
        return
    parts = urlsplit(url)
    assert (parts.scheme, parts.netloc) == ("https", "a.example")
    assert ".." not in [segment.lower().replace("%2e", ".") for segment in parts.path.split("/")]
    assert not SCOPE.includes(url) or parts.path.startswith("/docs/")


def test_the_last_parameter_of_a_query_may_be_a_window():
    address = SCOPE.address("web+https://a.example/docs/a?lines=1-2&x=1&lines=3-4")
    assert address == ("https://a.example/docs/a?lines=1-2&x=1", "lines=3-4")
    assert SCOPE.address("web+https://a.example/docs/a?entry=1").extra == ""


@given(
    st.binary(max_size=300), st.sampled_from(["", "<rss>", "<urlset>", '{"version":"https://jsonfeed.org/version/1"'])
)
def test_damaged_documents_are_read_without_errors(data: bytes, start: str):
    page = Cached("https://a.example/x", "application/json", "", start.encode() + data, 0.0, {}, None)
    kind_of(page)
    read_feed(page)
    read_sitemap(page, 10)
    text = html_text(page.data, "")
    outline(text, page.url)


@pytest.mark.parametrize("html", ["", "<", "<p", "\0", "<html>", "<!-- x", "plain words", "<p>" * 3000, "&#0;&#xD800;"])
def test_html_of_any_kind_has_a_text(html: str):
    assert isinstance(to_markdown(html, "https://a.example/"), str)


@pytest.mark.parametrize("encoding", ["punycode", "idna", "unicode_escape", "utf-7", "u\0", "no-such", "latin1", ""])
def test_a_feed_is_read_whatever_encoding_it_names(encoding: str):
    declared = f"<?xml version='1.0' encoding='{encoding}'?>" if encoding else ""
    data = f"{declared}<rss version='2.0'><channel><title>Caf\xe9</title></channel></rss>".encode("latin-1")
    for charset in ("", encoding):
        title, entries = read_feed(Cached("https://a.example/x", "application/rss+xml", charset, data, 0.0, {}, None))
        assert (title, entries) == ("Caf\xe9", [])


def test_the_title_of_an_entry_is_short_even_where_it_is_its_address():
    link = f"https://a.example/{'x' * 10_000}"
    data = f"<rss version='2.0'><channel><item><link>{link}</link></item></channel></rss>".encode()
    [entry] = read_feed(Cached("https://a.example/x", "application/rss+xml", "", data, 0.0, {}, None))[1]
    assert (entry.title, entry.link) == (link[:300], link)


@pytest.mark.parametrize("start", ["<p", "<div><svg", "<p title='<x>' class=\"<\""])
def test_a_page_with_very_many_attributes_is_not_read_in_quadratic_time(start: str):
    attributes = " ".join(f"a{number}" for number in range(readable.MAX_ATTRIBUTES + 1))
    text = "A text that is long enough to be one of a page. " * 10
    assert readable.parse(f"<html><body><p>{text}</p>{start} {attributes}>{text}</html>") is None
    assert readable.to_markdown(f"<p {attributes}>{text}", "https://a.example/") == ""
    few = attributes.partition(" a500 ")[0]
    assert text.strip() in readable.to_markdown(f"<html><body><p {few}>{text}</p>", "https://a.example/")


def test_a_feed_with_very_many_attributes_has_no_entries():
    attributes = " ".join(f"a{number}='1'" for number in range(readable.MAX_ATTRIBUTES + 1))
    for some, titles in ((attributes, []), ("a='1'", ["x"])):
        data = f"<rss version='2.0'><channel><item {some}><title>x</title></item></channel></rss>".encode()
        page = Cached("https://a.example/f", "application/rss+xml", "utf-8", data, 0.0, {}, None)
        assert [entry.title for entry in read_feed(page)[1]] == titles
