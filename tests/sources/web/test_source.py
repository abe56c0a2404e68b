"""Pages of a site, fetched from a web server: text, feeds, sitemaps, caching, robots.txt, redirects, limits."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from carrel.catalog.provider import Change, Interest, Provider, Request
from carrel.errors import (
    ConfigError,
    InvalidParams,
    MCPError,
    RequestTimeout,
    ResourceError,
    ResourceForbidden,
    ResourceNotFound,
    ResourceTooLarge,
)
from carrel.media_types import DIRECTORY
from carrel.sources.web import feeds
from carrel.sources.web.options import WebOptions
from carrel.sources.web.source import WebSource
from carrel.testing import Caller, running
from carrel.transports import addresses
from carrel.wire.resources import BlobResourceContents, decoded
from support.certificates import Authority
from support.web_site import Site, running_site

pytestmark = pytest.mark.slow

ITEMS = "".join(
    f"<item><title>Entry {n}</title><guid>{n}</guid><link>https://elsewhere.example/{n}</link>"
    f"<description>&lt;p&gt;Text &lt;b&gt;{n}&lt;/b&gt; of the news, in a sentence.&lt;/p&gt;</description>"
    f"<pubDate>Mon, 0{n} Jun 2026 10:00:00 GMT</pubDate></item>"
    for n in (1, 2, 3)
)
RSS = f"<?xml version='1.0'?><rss version='2.0'><channel><title>News</title>{ITEMS}</channel></rss>"
ATOM = """<?xml version='1.0'?><feed xmlns='http://www.w3.org/2005/Atom'><title>News</title>
<entry><id>urn:1</id><title>Entry 1</title><updated>2026-06-01T10:00:00Z</updated>
<link href='https://elsewhere.example/1'/><content type='html'>&lt;p&gt;Text 1&lt;/p&gt;</content></entry></feed>"""
JSON = json.dumps(
    {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "News",
        "items": [{"id": 1, "title": "Entry 1", "content_text": "Text 1", "date_published": "2026-06-01T10:00:00Z"}, 5],
    }
)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site() as site:
        site.page("/docs/", "Docs")
        yield site


async def contents(source: Provider, uri: str) -> Any:
    """Return the one content of a resource."""
    [found] = decoded(await source.read_resource(uri, Request())).contents
    return found


async def read(site: Site, path: str, *, root: str = "/docs/", **options: Any) -> Any:
    source = site.source(root, **options)
    async with running(source):
        return await contents(source, f"web+{site.origin}{path}")


# Pages


async def test_a_page_is_read_as_markdown_without_its_navigation(site: Site):
    site.put(
        "/docs/a",
        "<title>Guide</title><nav><a href=/>Menu entry</a></nav><main><h1>Guide</h1><p>Begin with a "
        "<a href='b'>second page</a>, it is long enough.</p><h2>Setup</h2><pre><code>pip install x</code></pre>"
        "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table></main><footer>imprint</footer>",
    )
    found = await read(site, "/docs/a")
    assert found.mime_type == "text/markdown"
    assert found.text.startswith("# Guide")
    for part in ("## Setup", "pip install x", "second page", "| A | B |"):
        assert part in found.text
    assert "Menu entry" not in found.text
    assert found.meta == {"carrel/url": f"{site.origin}/docs/a"}


@pytest.mark.parametrize(
    ("head", "encoding", "header"),
    [
        ("<meta charset=windows-1251>", "windows-1251", ""),
        ("<meta http-equiv=Content-Type content='text/html; charset=shift_jis'>", "shift_jis", ""),
        ("", "shift_jis", "; charset=Shift_JIS"),
        ("<meta charset=latin-1>", "utf-8", "; charset=utf-8"),
        ("", "utf-16", ""),
        ("", "utf-8", "; charset=no-such"),
        ("", "euc_jp", ""),
    ],
)
async def test_pages_are_read_in_their_own_encoding(site: Site, head: str, encoding: str, header: str):
    text = "Привет мир" if "125" in encoding else "日本語の文章"
    html = f"<html><head>{head}</head><body><p>{text} {text} {text}</p></body></html>".encode(encoding)
    site.put("/docs/a", html, f"text/html{header}")
    assert text in (await read(site, "/docs/a")).text


async def test_what_is_not_html_is_given_as_it_is(site: Site):
    site.put("/docs/a.json", '{"a": 1}', "application/json")
    site.put("/docs/a.png", b"\x89PNG\r\n", "image/png")
    assert (await read(site, "/docs/a.json")).text == '{"a": 1}'
    found = await read(site, "/docs/a.png")
    assert isinstance(found, BlobResourceContents)
    assert (found.blob, found.mime_type) == (b"\x89PNG\r\n", "image/png")


async def test_plain_text_without_a_charset_is_read_in_the_encoding_that_it_shows(site: Site):
    text = "Библиотека открывается в девять часов утра.\n"
    site.put("/docs/a.txt", text.encode("koi8_r"), "text/plain")
    found = await read(site, "/docs/a.txt")
    assert found.text == text
    assert found.meta["carrel/encoding"] == "koi8-r"


async def test_windows_of_a_page_are_read(site: Site):
    site.put("/docs/a.txt", "one\ntwo\nthree\n", "text/plain")
    site.put("/docs/a.txt?x=1", "other\n", "text/plain")
    assert (await read(site, "/docs/a.txt?lines=2-3")).text == "two\nthree\n"
    assert (await read(site, "/docs/a.txt?tail=1")).text == "three\n"
    assert (await read(site, "/docs/a.txt?bytes=4-6")).text == "two"
    assert (await read(site, "/docs/a.txt?x=1&lines=1")).text == "other\n"
    with pytest.raises(InvalidParams, match="lines=100-200"):
        await read(site, "/docs/a.txt?lines=9-8")


async def test_bytes_are_windows_of_what_is_no_text(site: Site):
    site.put("/docs/a.png", bytes(range(256)), "image/png")
    found = await read(site, "/docs/a.png?bytes=250-")
    assert found.blob == bytes(range(250, 256))
    assert (found.meta["carrel/window"], found.meta["carrel/size"]) == (
        {"unit": "bytes", "first": 250, "last": 255},
        256,
    )
    with pytest.raises(InvalidParams, match="has no lines, only bytes"):
        await read(site, "/docs/a.png?lines=1")


async def test_windows_have_templates_with_completion(site: Site):
    source = site.source()
    async with running(source):
        caller = Caller(source)
        templates = [one.uri_template for one in await caller.templates()]
        here = f"web+{site.origin}/docs/{{+path}}"
        assert templates[:4] == [here, f"{here}{{?lines}}", f"{here}{{?tail}}", f"{here}{{?bytes}}"]
        assert (await caller.complete(f"{here}{{?lines}}", "lines", "1-1")).values == ["1-100", "1-1000"]
    page = site.source("/docs/a?x=1")
    async with running(page):
        assert f"web+{site.origin}/docs/a?x=1{{&tail}}" in [one.uri_template for one in await Caller(page).templates()]


async def test_links_are_the_list_where_there_is_no_sitemap(site: Site):
    site.put(
        "/docs/", "<title>Docs</title><a href=a>A</a><a href='b?x=1#y'>B</a><a href=/other>C</a><a href=//x/>D</a>"
    )
    source = site.source()
    async with running(source):
        uris = [resource.uri.removeprefix(f"web+{site.origin}") for resource in await Caller(source).resources()]
    assert uris == ["/docs/", "/docs/a", "/docs/b?x=1"]


async def test_sitemaps_of_sitemaps_are_followed_within_the_origin(site: Site):
    index = "".join(f"<sitemap><loc>{site.origin}/{n}.xml.gz</loc></sitemap>" for n in (1, 2, 3))
    index += "<sitemap><loc>http://169.254.169.254/latest.xml</loc></sitemap>"
    index += f"<sitemap><loc>{site.origin}/sitemap.xml</loc></sitemap>"
    site.put("/sitemap.xml", f"<sitemapindex>{index}</sitemapindex>", "application/xml")
    for n in (1, 2):
        pages = f"<url><!-- note --><loc>{site.origin}/docs/{n}</loc><lastmod>2026-06-0{n}</lastmod></url>"
        pages += "<url><loc>http://other.example/docs/</loc></url>"
        site.put(f"/{n}.xml.gz", gzip.compress(f"<urlset>{pages}</urlset>".encode()), "application/gzip")
    source = site.source("/sitemap.xml")
    async with running(source):
        found = await Caller(source).resources()
        assert [one.uri.removeprefix(f"web+{site.origin}") for one in found] == ["/docs/1", "/docs/2", "/sitemap.xml"]
        assert found[0].annotations is not None
        assert found[0].annotations.last_modified == "2026-06-01T00:00:00Z"
        assert found[2].mime_type == DIRECTORY
        assert [one.uri for one in await Caller(source).directory(source.uri)] == [found[0].uri, found[1].uri]
        site.page("/docs/1", "First")
        assert "First" in (await contents(source, found[0].uri)).text
        with pytest.raises(ResourceNotFound):
            await contents(source, f"web+{site.origin}/docs/")


@pytest.mark.parametrize(
    ("body", "kind"),
    [(RSS, "application/rss+xml"), (ATOM, "application/xml"), (JSON, "application/feed+json"), (RSS, "text/plain")],
)
async def test_a_feed_is_a_directory_of_its_entries(site: Site, body: str, kind: str):
    site.put("/news", body, kind)
    source = site.source("/news")
    async with running(source):
        [feed] = [one for one in await Caller(source).resources() if one.mime_type == DIRECTORY]
        assert feed.title == "News"
        entries = await Caller(source).directory(feed.uri)
        first = next(entry for entry in entries if entry.name == "Entry 1")
        assert re.fullmatch(r".*/news\?entry=[0-9a-f]{16}", first.uri)
        assert first.annotations is not None
        assert first.annotations.last_modified == "2026-06-01T10:00:00Z"
        text = (await contents(source, first.uri)).text
        assert text.startswith("# Entry 1\n")
        assert "Text" in text
        assert "<p>" not in text
        listing = json.loads((await contents(source, feed.uri)).text)
        assert [entry["uri"] for entry in listing] == [entry.uri for entry in entries]


# Asking again


async def test_a_page_is_asked_for_again_only_when_it_is_stale_and_then_conditionally(site: Site):
    uri = site.put("/docs/a", "<p>" + "text of the page " * 9, Cache_Control="max-age=1000")
    stale = site.put("/docs/b", "<p>" + "text of the page " * 9, Cache_Control="no-cache", Last_Modified="x")
    source = site.source(cache_seconds=1e-9)
    async with running(source):
        for _ in range(3):
            await contents(source, uri)
            await contents(source, stale)
    assert site.asked("/docs/a") == [200]
    assert site.asked("/docs/b") == [200, 304, 304]
    assert [one["If-Modified-Since"] for one in site.headers if "If-Modified-Since" in one] == ["x", "x"]


async def test_a_page_that_many_ask_for_is_fetched_once(site: Site):
    uri = site.page("/docs/a", "A")
    source = site.source(cache_seconds=100)
    async with running(source):
        await asyncio.gather(*(contents(source, uri) for _ in range(20)))
    assert site.asked("/docs/a") == [200]


async def test_the_cache_is_bounded(site: Site):
    source = site.source(cache_seconds=100, cache_size=50_000)
    async with running(source):
        for number in range(20):
            await contents(source, site.put(f"/docs/{number}", "x" * 10_000, "text/plain"))
            assert source._pages.cache.size <= 50_000
        await contents(source, f"web+{site.origin}/docs/19")
    assert site.asked("/docs/19") == [200]


# On disk


async def test_pages_in_a_folder_are_asked_for_conditionally_after_a_restart(site: Site, tmp_path: Path):
    folder = tmp_path / "new" / "pages"
    uri = site.page("/docs/a", "A")
    fresh = site.put("/docs/b", "text", "text/plain", Cache_Control="max-age=1000")
    for _ in range(2):
        source = site.source(cache_folder=str(folder))
        async with running(source):
            first = [(await contents(source, one)).text for one in (uri, fresh)]
    assert site.asked("/docs/a") == [200, 304]
    assert site.asked("/docs/b") == [200], "it was fresh"
    assert folder.stat().st_mode & 0o077 == 0
    assert not [path for path in folder.iterdir() if path.stat().st_mode & 0o077]
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-1])  # damaged
    (folder / "old.part").touch()
    os.utime(folder / "old.part", (0, 0))
    source = site.source(cache_folder=str(folder))
    async with running(source):
        assert [(await contents(source, one)).text for one in (uri, fresh)] == first
    assert site.asked("/docs/b") == [200, 200]
    assert not (folder / "old.part").exists()


async def test_the_folder_of_pages_is_bounded_by_bytes(site: Site, tmp_path: Path):
    options = {"cache_folder": str(tmp_path), "cache_folder_size": 50_000, "cache_seconds": 1000}
    uris = [site.put(f"/docs/{number}", "x" * 10_000, "text/plain") for number in range(7)]
    source = site.source(**options)
    async with running(source):
        for uri in uris[:4]:
            await contents(source, uri)
    source = site.source(**options)
    async with running(source):
        for uri in (uris[0], *uris[4:7]):  # what is read is used last
            await contents(source, uri)
            assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 50_000
    source = site.source(**options)
    async with running(source):
        await contents(source, uris[0])
        await contents(source, uris[1])
    assert (site.asked("/docs/0"), site.asked("/docs/1")) == ([200], [200, 200])


async def test_what_is_private_gone_or_fetched_under_other_rules_is_not_taken_from_the_folder(
    site: Site, tmp_path: Path
):
    options: dict[str, Any] = {"cache_folder": str(tmp_path), "cache_seconds": 1000}
    for name, control in (("private", "private, max-age=1000"), ("none", "no-store")):
        uri = site.put(f"/docs/{name}", "text", "text/plain", Cache_Control=control)
        source = site.source(**options)
        async with running(source):
            await contents(source, uri)
    assert not [path for path in tmp_path.iterdir() if b"/docs/private" in path.read_bytes()]
    uri = site.put("/docs/a", "text", "text/plain")
    for given in (options, {**options, "robots": False}):
        source = site.source(**given)
        async with running(source):
            await contents(source, uri)
    assert site.asked("/docs/a") == [200, 200]
    site.put("/docs/a", "", status=404)
    source = site.source(**options)
    async with running(source):
        with pytest.raises(ResourceNotFound):
            await source._pages.get(f"{site.origin}/docs/a", refresh=True)
        with pytest.raises(ResourceNotFound):
            await contents(source, uri)


async def test_a_folder_that_others_may_write_to_is_refused(site: Site, tmp_path: Path):
    tmp_path.chmod(0o777)
    (tmp_path / "file").touch()
    for folder, reason in ((tmp_path, "others may write to it"), (tmp_path / "file", "File exists")):
        with pytest.raises(ConfigError, match=reason):
            async with running(site.source(cache_folder=str(folder))):
                pass


async def test_a_folder_of_another_user_is_refused(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "link").symlink_to("theirs")
    monkeypatch.setattr(os, "geteuid", lambda: (tmp_path / "theirs").stat().st_uid + 1)
    for name in ("theirs", "link"):
        with pytest.raises(ConfigError, match="another user"):
            async with running(site.source(cache_folder=str(tmp_path / name))):
                pass


async def test_requests_to_a_host_are_apart(site: Site):
    uris = [site.put(f"/docs/{number}", "x", "text/plain") for number in range(4)]
    source = site.source(fetch_delay=0.05, robots=False, sitemap=False)
    async with running(source):
        start = asyncio.get_running_loop().time()
        await asyncio.gather(*(contents(source, uri) for uri in uris))
        assert asyncio.get_running_loop().time() - start >= 0.15


async def test_a_subscriber_is_told_when_a_page_changes(site: Site):
    uri = site.page("/docs/a", "A")
    source = site.source(sitemap=False)
    async with running(source):
        await contents(source, uri)
        async with aclosing(source.watch(Interest([uri]))) as batches:
            assert await anext(batches) == ()
            site.page("/docs/a", "B")
            assert list(await anext(batches)) == [Change("changed", uri)]


# robots.txt


@pytest.mark.parametrize("by", ["links", "sitemap"])
async def test_pages_that_robots_txt_forbids_are_not_listed_completed_or_found(site: Site, by: str):
    site.put("/robots.txt", "User-agent: carrel\nDisallow: /docs/no\n", "text/plain")
    site.put("/docs/", "<title>Docs</title><a href=no-secret>x</a><a href=yes>y</a>")
    if by == "sitemap":
        pages = "".join(f"<url><loc>{site.origin}/docs/{name}</loc></url>" for name in ("no-secret", "yes"))
        sitemap = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{pages}</urlset>'
        site.put("/sitemap.xml", sitemap, "application/xml")
    for options, wanted in (({}, ["docs", "yes"]), ({"robots": False}, ["docs", "no-secret", "yes"])):
        async with running(site.source(**options)) as source:
            caller = Caller(source)
            assert [one.name for one in await caller.resources()] == wanted
            assert [hit.resource.name for hit in await caller.search("secret", 5)] == wanted[1:-1]


async def test_robots_txt_is_followed(site: Site):
    site.put("/robots.txt", "User-agent: carrel\nDisallow: /docs/*.pdf$\nDisallow: /docs/no\n", "text/plain")
    for path in ("/docs/a.pdf", "/docs/no", "/docs/yes"):
        site.put(path, "text", "text/plain")
    assert (await read(site, "/docs/yes")).text == "text"
    for path in ("/docs/a.pdf", "/docs/no"):
        with pytest.raises(ResourceForbidden, match="robots"):
            await read(site, path)
        assert site.asked(path) == []
        assert (await read(site, path, robots=False)).text == "text"


async def test_a_site_whose_rules_cannot_be_read_is_left_alone(site: Site):
    site.put("/robots.txt", "", "text/plain", status=500)
    with pytest.raises(ResourceError, match="rules of the site"):
        await read(site, "/docs/")


# Limits


@pytest.mark.parametrize("status", [400, 404, 401, 403, 429, 500, 503, 206, 300])
async def test_a_refusal_names_the_uri_and_not_the_body(site: Site, status: int):
    uri = site.put("/docs/a", "secret", status=status)
    with pytest.raises(ResourceError) as caught:
        await read(site, "/docs/a")
    assert caught.value.uri == uri
    assert "secret" not in str(caught.value)


async def test_a_large_page_is_refused_also_if_it_grows_when_it_is_decompressed(site: Site):
    site.put("/docs/a", "x" * 2000, "text/plain")
    site.put("/docs/b", gzip.compress(b"x" * 50_000_000), "text/plain", Content_Encoding="gzip")
    for path in ("/docs/a", "/docs/b"):
        with pytest.raises(ResourceTooLarge, match="max_page_size"):
            await read(site, path, max_page_size=1000 if path == "/docs/a" else 1_000_000)


async def test_a_gzipped_sitemap_that_expands_is_cut(site: Site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feeds, "MAX_SITEMAP", 1_000_000)
    site.put("/a.xml.gz", gzip.compress(b"<urlset>" + b" " * 2_000_000), "application/gzip")
    source = site.source("/a.xml.gz")
    async with running(source):
        assert [one.uri for one in await Caller(source).resources()] == [source.uri]


@pytest.mark.parametrize("root", ["/a.xml", "/a"])
async def test_entities_of_a_document_are_neither_expanded_nor_fetched(site: Site, root: str):
    laughs = "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 12))
    doctype = f"<!DOCTYPE x [<!ENTITY f SYSTEM 'file:///etc/passwd'><!ENTITY l0 'ha'>{laughs}]>"
    body = f"{doctype}<rss version='2.0'><channel><item><title>&l11;&f;</title><guid>1</guid></item></channel></rss>"
    if root == "/a.xml":
        body = f"{doctype}<urlset><url><loc>{site.origin}/&f;</loc></url></urlset>"
    site.put(root, f"<?xml version='1.0'?>{body}", "application/xml")
    source = site.source(root)
    async with running(source):
        shown = repr(await Caller(source).resources())
    assert "root:" not in shown
    assert len(shown) < 5000


async def test_entities_of_characters_are_read(site: Site):
    doctype = "<!DOCTYPE x [<!ENTITY less '&#38;#60;'><!ENTITY e '&#233;'>]>"
    body = "<rss version='2.0'><channel><item><title>Caf&e; &less; bar</title><guid>1</guid></item></channel></rss>"
    site.put("/a", f"<?xml version='1.0'?>{doctype}{body}", "application/xml")
    source = site.source("/a")
    async with running(source):
        assert "Café < bar" in [resource.name for resource in await Caller(source).resources()]


async def test_a_fetch_that_takes_too_long_ends(site: Site):
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        site.port = server.sockets[0].getsockname()[1]
        with pytest.raises((RequestTimeout, ResourceError), match=r"0\.2 seconds"):
            await read(site, "/docs/", fetch_timeout=0.2)


# Where it may not lead


@pytest.mark.parametrize(
    "location",
    [
        *("http://169.254.169.254/latest/meta-data/", "http://localhost:{port}/x", "http://[::1]:{port}/x"),
        *("http://2130706433:{port}/x", "http://0x7f000001:{port}/x", "http://127.1:{port}/x", "file:///etc/passwd"),
        *("http://user:secret@127.0.0.1:{port}/x", "//other.example/x", "http://127.0.0.1:22/x", "gopher://x/"),
        *(
            "http://127.0.0.1:{port}\\@other.example/",
            "http://[",
            "http://127.0.0.1:99999/x",
            "http://[::ffff:7f00:1]/",
        ),
    ],
)
async def test_redirects_lead_nowhere_else(site: Site, location: str):
    site.put("/docs/a", "", status=302, Location=location.format(port=site.port))
    site.put("/x", "inside", "text/plain")
    with pytest.raises(ResourceForbidden) as caught:
        await read(site, "/docs/a")
    assert site.asked("/x") == []
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "location",
    [
        *("/admin", "../admin", "/docs", "/docsecret/x", "http://127.0.0.1:{port}/admin", "/docs/../admin"),
        *("/docs/%2e%2e/admin", "/docs/..%2fadmin", "/docs/x%5c..%5cadmin", "/docs/..;/admin", "/?/docs/"),
    ],
)
async def test_a_redirect_out_of_the_shared_folder_is_not_followed(site: Site, location: str):
    site.put("/docs/a", "", status=302, Location=location.format(port=site.port))
    for path in ("/admin", "/docs", "/docsecret/x", "/docs/admin", "/", "/?/docs/"):
        site.put(path, "inside", "text/plain")
    with pytest.raises(ResourceForbidden, match=r"outside of the shared pages|not fetched"):
        await read(site, "/docs/a")
    assert {path for path, _ in site.requests} <= {"/docs/", "/docs/a", "/robots.txt", "/sitemap.xml"}
    if location == "/admin":
        assert (await read(site, "/docs/a", redirect_hosts=("127.0.0.1",))).text == "inside"


async def test_one_page_is_shared_with_where_it_redirects_to_on_its_host(site: Site):
    site.put("/manual", "", status=301, Location="/manual/en/")
    site.put("/manual/en/", "here", "text/plain")
    assert (await read(site, "/manual", root="/manual")).text == "here"


async def test_a_page_of_a_sitemap_redirects_to_pages_of_the_sitemap_only(site: Site):
    site.list({"/a": "2026-01-01", "/b": "2026-01-01", "/c": "2026-01-01"})
    site.put("/a", "", status=302, Location="/b")
    site.put("/b", "here", "text/plain")
    site.put("/c", "", status=302, Location="/admin")
    site.put("/admin", "inside", "text/plain")
    source = site.source("/sitemap.xml")
    async with running(source):
        await source.list_resources(Request())
        assert (await contents(source, f"web+{site.origin}/a")).text == "here"
        with pytest.raises(ResourceForbidden, match="outside of the shared pages"):
            await contents(source, f"web+{site.origin}/c")
    assert site.asked("/admin") == []


async def test_a_page_that_was_kept_under_a_wider_scope_is_not_given_under_a_narrower_one(site: Site, tmp_path: Path):
    site.put("/docs/a", "", status=302, Location="/admin")
    site.put("/admin", "inside", "text/plain", Cache_Control="max-age=1000")
    site.page("/", "Home")
    assert (await read(site, "/docs/a", root="/", cache_folder=str(tmp_path))).text == "inside"
    with pytest.raises(ResourceForbidden, match="outside of the shared pages"):
        await read(site, "/docs/a", cache_folder=str(tmp_path))
    assert site.asked("/admin") == [200]


async def test_redirects_within_the_site_are_followed_and_counted(site: Site):
    site.put("/docs/a", "", status=301, Location="b")
    site.put("/docs/b", "", status=307, Location="/docs/c")
    site.put("/docs/c", "here", "text/plain")
    site.put("/docs/d", "", status=302, Location="/docs/d")
    found = await read(site, "/docs/a")
    assert (found.text, found.meta["carrel/url"]) == ("here", f"{site.origin}/docs/c")
    with pytest.raises(ResourceError, match="more than 5 times"):
        await read(site, "/docs/d")


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "017700000001", "[::1]", "[::ffff:127.0.0.1]", "0"],
)
def test_private_hosts_are_refused_at_the_start_unless_an_option_names_them(host: str):
    with pytest.raises(ConfigError, match=r"(private address.*--private-hosts)|(is not a URL)"):
        WebSource(f"web+http://{host}:8000/docs/")
    with pytest.raises(ConfigError, match=r"(private address.*--private-hosts)|(is not a URL)"):
        WebSource(f"https://{host}:8000/docs/", WebOptions(private_hosts=("10.0.0.1",)))


def test_a_private_host_that_an_option_names_is_shared():
    for host in ("127.0.0.1", "localhost", "[::1]", "10.0.0.1"):
        WebSource(f"web+http://{host}:8000/docs/", WebOptions(private_hosts=(host,)))


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]", "127.0.0.2"])
async def test_redirects_lead_to_no_private_host_that_no_option_names(site: Site, host: str):
    site.put("/docs/a", "", status=302, Location=f"http://{host}:{site.port}/docs/b")
    site.put("/docs/b", "inside", "text/plain")
    with pytest.raises(ResourceForbidden, match="public Internet"):
        await read(site, "/docs/a", redirect_hosts=(host.strip("[]"), "::ffff:7f00:1"))
    assert site.asked("/docs/b") == []


async def test_a_name_that_resolves_differently_later_is_checked_each_time(site: Site, monkeypatch: pytest.MonkeyPatch):
    """127.0.0.1 counts as public here, and 127.0.0.2 as inside."""
    answers = ["127.0.0.1", "127.0.0.2"]
    asked: list[str] = []

    def resolve(host: Any, port: Any, *_: Any, **__: Any) -> list[Any]:
        asked.append(host if isinstance(host, str) else host.decode())
        address = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    import ipaddress

    loopback, public = ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("127.0.0.1/32")
    rest = [network for network in addresses.INSIDE_IPV4 if network != loopback]
    monkeypatch.setattr(addresses, "INSIDE_IPV4", (*rest, *loopback.address_exclude(public)))
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    site.put("/docs/a", "first", "text/plain", Connection="close")
    source = site.source(robots=False)
    source._options = msgspec.structs.replace(source._options, private_hosts=())
    source = type(source)(f"web+http://b\u00fccher.example:{site.port}/docs/", source._options)
    uri = source.uri + "a"
    assert "xn--bcher-kva.example" in uri
    async with running(source):
        source._listing = None
        assert (await source._pages.get(f"http://xn--bcher-kva.example:{site.port}/docs/a")).data == b"first"
        await source._pages._fetch.close()
        source._pages.cache.drop(f"http://xn--bcher-kva.example:{site.port}/docs/a")
        asked.clear()
        with pytest.raises(MCPError, match="public Internet"):
            await source._pages.get(f"http://xn--bcher-kva.example:{site.port}/docs/a", refresh=True)
    assert set(asked) == {"xn--bcher-kva.example"}


# Over TLS


async def test_https_pages_are_listed_for_clients_to_fetch_and_read_as_they_are(tmp_path: Path):
    authority = Authority(tmp_path)
    async with running_site(authority.serving) as site:
        site.put("/docs/", "<title>Docs</title><p>text</p><a href=a>A</a>")
        source = site.source(scheme="https", ssl=authority.trust, sitemap=False)
        async with running(source):
            listed = await Caller(source).resources()
            assert [one.uri for one in listed] == [f"{site.origin}/docs/", f"{site.origin}/docs/a"]
            assert (listed[0].title, listed[0].mime_type) == ("Docs", "text/html")
            found = await contents(source, source.uri)
            assert (found.mime_type, found.text[:7]) == ("text/html", "<title>")
        fetched = site.source(scheme="web+https", ssl=authority.trust)
        async with running(fetched):
            assert (await contents(fetched, fetched.uri)).text.startswith("# Docs")
        site.put("/docs/b", "", status=302, Location=f"http://127.0.0.1:{site.port}/docs/")
        async with running(fetched):
            with pytest.raises(ResourceForbidden, match="not fetched"):
                await contents(fetched, f"{fetched.uri}b")


async def test_a_certificate_that_is_not_trusted_is_an_error(tmp_path: Path):
    async with running_site(Authority(tmp_path).serving) as site:
        source = site.source(scheme="web+https")
        async with running(source):
            with pytest.raises(ResourceError, match="certificate"):
                await contents(source, source.uri)
        assert site.requests == []
