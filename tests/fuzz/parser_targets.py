"""Fuzz targets of the parsers of sources: objects of git, log lines, feeds, sitemaps, API descriptions, and targets."""

# ruff: noqa: E501  (the seeds are easier to read in rows)

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fuzz.cleanup import cleanup

__all__ = ["SEEDS", "TARGETS"]

Target = Callable[[bytes], None]

#: Controls, but tabs, and what turns text around: https://trojansource.codes
HARMFUL = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def git_objects() -> Target:
    """Trees, commits, tags, and the small files of a repository: an object, or ``DamagedObject``; names lead nowhere else."""
    from carrel.errors import ConfigError
    from carrel.sources.git.objects import DamagedObject, parse_commit, parse_tag, parse_tree
    from carrel.sources.git.refs import Refs, is_ref_name
    from carrel.sources.git.repository import Repository, follow, formats

    path = cleanup.enter_context(TemporaryDirectory(prefix="carrel-fuzz-"))
    refs_of = partial(Repository, path, path, path)

    def small_files(data: bytes) -> None:
        Path(path, "packed-refs").write_bytes(data)
        Path(path, "HEAD").write_bytes(data)
        refs = Refs(refs_of("sha1"))
        for name, id in refs.all().items():
            assert name.startswith("refs/")
            assert is_ref_name(name)
            assert ".." not in name
            assert len(id) == 40
        head = refs.head()
        assert head is None or (head.startswith("refs/") and ".." not in head)
        name = data[:100].decode("utf-8", "surrogateescape")
        found = refs.find(name)
        assert found is None or is_ref_name(name)
        Path(path, "config").write_bytes(data)
        for read in (formats, lambda folder: follow(folder, f"{folder}/HEAD")):
            try:
                read(path)
            except ConfigError:
                pass

    def run(data: bytes) -> None:
        digits = 64 if data[:1] == b"\x01" else 40
        try:
            for entry in parse_tree(data[1:], digits):
                assert entry.name not in ("", ".", "..")
                assert "/" not in entry.name
                assert len(entry.id) == digits
        except DamagedObject:
            pass
        for parse in (parse_commit, parse_tag):
            try:
                found: Any = parse(data[1:], digits)
            except DamagedObject:
                continue
            assert isinstance(found.subject, str)
            person = found.author if parse is parse_commit else found.tagger
            assert isinstance(person.date, str)
        small_files(data[1:])

    return run


def log_lines() -> Target:
    """Lines of logs in every format, times and durations: a time that is a number, a level that is one, text that is shown."""
    from carrel.errors import InvalidParams
    from carrel.sources.logs.entries import group, shown
    from carrel.sources.logs.formats import FORMATS, detect
    from carrel.sources.logs.levels import LEVELS
    from carrel.sources.logs.query import matcher, parameters_of, read_query, redactor
    from carrel.sources.logs.times import TimestampParser, duration_of, instant_of, iso, zone_of

    now = 1_750_000_000.0
    zones = (None, zone_of("UTC"), zone_of("Europe/Berlin"), zone_of("Pacific/Apia"))
    redact = redactor((), secrets=True)
    assert redact is not None

    def run(data: bytes) -> None:
        zone = zones[data[0] % len(zones)] if data else None
        text = data[1:].decode("utf-8", "backslashreplace")  # as logs are read
        lines = text.split("\n")
        for format in FORMATS.values():
            stamps = TimestampParser(zone, now)
            for line in lines:
                head = format.head(line, stamps)
                if head is not None:
                    assert head.time is None or math.isfinite(head.time), (format.name, line)
                    assert head.level is None or head.level in LEVELS, (format.name, line)
                assert isinstance(format.fields(line), dict)
            for entry in group(lines, format, stamps, now, redact).entries:
                assert iso(entry.time)
                entry.fields()
        assert not any(HARMFUL.search(shown(line)) for line in lines)
        assert detect(lines, TimestampParser(zone, now)).name in FORMATS
        for line in lines[:3]:
            for read in (duration_of, partial(instant_of, name="since", now=now, zone=zone), matcher):
                try:
                    found: Any = read(line)
                except InvalidParams:
                    continue
                assert found(text[:1000]) in (True, False) if callable(found) else math.isfinite(found), line
            try:
                query = read_query(parameters_of(line), now, zone, 1000)
            except InvalidParams:
                continue
            assert query.since <= query.until

    return run


def feeds() -> Target:
    """Feeds, sitemaps, robots.txt and HTML: entries whose links are of the web, no more pages than wanted, no surprise."""
    from protego import Protego

    from carrel.sources.web.cache import Cached, fresh_for
    from carrel.sources.web.feeds import kind_of, read_feed, read_sitemap
    from carrel.sources.web.readable import html_text, outline
    from carrel.transports.client.response_text import read_type

    kinds = ("application/rss+xml", "application/feed+json", "text/html", "text/xml", "application/json")

    def run(data: bytes) -> None:
        kind = kinds[data[0] % len(kinds)] if data else ""
        body = data[1:]
        name, charset = read_type(body[:60].decode("latin-1"))
        page = Cached("https://example.com/a/b.xml", kind, charset, body, 0.0, {}, None)
        assert name.isascii()
        assert kind_of(page) in ("feed", "sitemap", "page")
        title, entries = read_feed(page)
        assert isinstance(title, str)
        for entry in entries:
            assert not entry.link or entry.link.startswith(("https://", "http://"))
            assert len(entry.id) == 16
            assert 0 < len(entry.title) <= 300
            assert isinstance(entry.markdown(), str)
        sitemap = read_sitemap(page, 5)
        assert len(sitemap.pages) + len(sitemap.sitemaps) <= 5
        text = html_text(body, charset)
        found = outline(text, page.url)
        assert all(isinstance(link, str) for link in (*found.links, *found.feeds))
        robots = Protego.parse(body.decode("utf-8", "replace"))
        assert robots.can_fetch("https://example.com/a", "carrel") in (True, False)
        robots.crawl_delay("carrel")
        assert fresh_for({"Cache-Control": text[:100]}, 60.0) >= 0

    return run


def descriptions() -> Target:
    """API descriptions in JSON and YAML: operations whose URLs stay below the base, or ``ConfigError``; parameters likewise."""
    from urllib.parse import unquote, urlsplit

    import msgspec

    from carrel.errors import ConfigError, InvalidParams
    from carrel.sources.openapi.document import ApiDocuments, decode_document, external_references
    from carrel.sources.openapi.loading import base_url
    from carrel.sources.openapi.operations import check_version, read_operations
    from carrel.sources.openapi.parameters import read_value
    from carrel.sources.openapi.resources import describe_operation, overview
    from carrel.sources.openapi.routes import PathRoutes, build_url, read_query, template_of
    from carrel.sources.openapi.schemas import arguments_schema
    from carrel.uri.template import UriTemplate

    location = "https://example.com/api/openapi.json"
    base = "https://example.com/api"

    def check_url(url: str) -> None:
        parts = urlsplit(url)
        assert url.startswith(f"{base}/"), url
        assert (parts.netloc, parts.fragment) == ("example.com", ""), url
        assert not any(unquote(segment) in (".", "..") for segment in parts.path.split("/")), url
        assert all("!" <= character <= "~" for character in url), url

    def run(data: bytes) -> None:
        body, _, given = data.partition(b"\n--\n")
        if body[:1] == b"\xff":
            body = json.dumps(altered(API, iter(body[1:]))).encode()
        try:
            root = decode_document(body, "the description")
            check_version(root, "the description")
        except ConfigError:
            return
        external_references(body, location)
        documents = ApiDocuments(root, location)
        try:
            base_url(root, location, None)
        except ConfigError:
            pass
        text = given.decode("utf-8", "replace")
        path, _, query = text.partition("?")
        routes = PathRoutes()
        for operation in read_operations(documents):
            routes.add(operation)
            UriTemplate(template_of("openapi://example.com", operation))
            msgspec.json.encode(arguments_schema(documents, operation))
            describe_operation(documents, operation, None)
        overview(root, read_operations(documents))
        found = routes.find(path or "/")
        if found is None:
            return
        operation, variables = found
        known = {parameter.name: parameter for parameter in operation.located("path")}
        try:
            values: dict[Any, Any] = {
                ("path", name): read_value(known[name], [value]) for name, value in variables.items()
            }
            url = build_url(base, operation, {**values, **read_query(operation, query)})
        except InvalidParams:
            return
        check_url(url)

    return run


def altered(value: Any, choices: Iterator[int]) -> Any:
    """Return a JSON value in which bytes choose what is another value: 0 leaves as it is, and goes inside."""
    choice = next(choices, 0)
    if choice % 8:
        return ODD[choice // 8 % len(ODD)] if choice % 8 == 1 else value
    if isinstance(value, dict):
        return {str(ODD[key % len(ODD)]) if (key := next(choices, 0)) > 200 else name: altered(one, choices)
                for name, one in value.items()}  # fmt: skip
    return [altered(one, choices) for one in value] if isinstance(value, list) else value


def targets() -> Target:
    """What ``carrel serve`` is given: a source that has not been started, or ``ConfigError``, which tells no password."""
    from carrel import sources
    from carrel.catalog.provider import Provider
    from carrel.cli.server.sharing import default_name, target_of
    from carrel.errors import ConfigError
    from carrel.sources.databases.address import read_address
    from carrel.sources.registry import SOURCES

    schemes = [*SOURCES, "web+https", "web+http", "git+file", "openapi+https", "openapi+file", "sqlite+x", ""]
    marker = "s3cr3t"

    def run(data: bytes) -> None:
        scheme = schemes[data[0] % len(schemes)] if data else ""
        rest = data[1:].decode("utf-8", "surrogateescape")
        target = f"{scheme}:{rest}" if scheme else rest
        authority = rest[2:].partition("/")[0] if rest.startswith("//") and scheme not in PATHS else ""
        secret = f":{marker}@" in authority
        for open in (sources.open, lambda target: target_of(target, {}), read_address):
            told: Any = None
            try:
                found: Any = open(target)
            except ConfigError as error:
                found, told = None, str(error)
            if secret:
                assert f":{marker}@" not in (told or ""), (target, told)
            if isinstance(found, Provider):
                assert found.name
                assert not secret or f":{marker}@" not in found.name, target
            elif found is not None and open is read_address:
                assert not secret or f":{marker}@" not in found.base, target
        if target:
            assert default_name([target])

    return run


TARGETS: dict[str, Callable[[], Target]] = {
    "git-objects": git_objects,
    "log-lines": log_lines,
    "feeds": feeds,
    "descriptions": descriptions,
    "targets": targets,
}

#: What follows these is a path, in which an @ is one character of many.
PATHS = ("", "file", "git", "git+file", "logs", "skills")
PERSON = b"Ada <ada@example.com> 1700000000 +0200\n"
ID = b"4b825dc642cb6eb9a060e54bf8d69288fbee4904"
API: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "/{v}", "variables": {"v": {"default": "api"}}}],
    "paths": {
        "/pets/{id}": {
            "get": {
                "operationId": "pet",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
                    {"name": "q", "in": "query", "schema": {"type": "array", "items": {"$ref": "#/components/schemas/A"}}},
                    {"name": "deep", "in": "query", "style": "deepObject", "schema": {"type": "object"}},
                    {"name": "X-A", "in": "header", "schema": {"type": "string"}},
                ],
                "responses": {"200": {"description": "ok"}},
            },
            "put": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/B"}}}}},
        },
        "/a.{b}/{c}~{d}": {"get": {"parameters": [{"name": "b", "in": "path", "style": "matrix", "explode": True,
                                                   "schema": {"type": ["array", "null"]}}]}},
        "/{n}": {"get": {"parameters": [{"name": "n", "in": "path", "style": "label", "schema": {"type": "number"}}]}},
    },
    "components": {"schemas": {"A": {"type": "string", "enum": ["x", "y"]}, "B": {"allOf": [{"$ref": "#/components/schemas/B"}]}}},
}  # fmt: skip
ODD: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        10**400,
        1.5,
        "",
        "..",
        "x",
        "#",
        "/{a}{b}/..%2f",
        "{",
        "{}",
        "/{a}/{a}",
        [],
        [[]],
        [None],
        {},
    ),
    *(
        {"$ref": "#"},
        {"$ref": "#/paths"},
        {"$ref": "%zz"},
        {"$ref": "other.json#/a"},
        {"$ref": "#/components/schemas/B"},
    ),
    *(
        {"type": "object"},
        {"type": ["array", 1]},
        {"x": {"$ref": 1}},
        {"type": "array", "items": [1]},
        "http://[",
        "matrix",
    ),
    *("spaceDelimited", "deepObject", "label", {"enum": [{}, None]}, "body", "\ud800", "\x00", "a" * 300, "../../x"),
]
YAML = b"openapi: 3.0.3\ninfo: {title: &a x, version: '1'}\npaths:\n  /a/{b}:\n    get:\n      operationId: *a\n"

SEEDS: dict[str, list[bytes]] = {
    "git-objects": [
        b"\x00tree " + ID + b"\nparent " + ID + b"\nauthor " + PERSON + b"committer " + PERSON + b"encoding latin1\n\nText\n",
        b"\x00object " + ID + b"\ntype commit\ntag v1\ntagger " + PERSON + b"\nText\n",
        b"\x00100644 a.txt\x00" + b"x" * 20 + b"40000 b\x00" + b"y" * 20 + b"160000 ..\x00" + b"z" * 20,
        b"\x00# pack-refs with: peeled\n" + ID + b" refs/heads/main\n^" + ID + b"\n" + ID + b" refs/tags/v1\n",
        *(b"\x00ref: refs/heads/main\n", b"\x00gitdir: ../.git/modules/x\n", b"\x00" + ID),
        b"\x00[core]\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n\trefstorage = files\n",
    ],
    "log-lines": [
        b"\x00" + line
        for line in (
            b'{"time":"2025-01-31T08:00:00Z","level":"info","msg":"x"}\n{"ts":1738310400.5,"severity":3,"log":"E x"}',
            b'time=2025-01-31T08:00:00+01:00 level=warn msg="a \\"b\\"" n=1\nlevel=error',
            b"2025-01-31T08:00:00.123456789Z stdout P part\n2025-01-31T08:00:00Z stderr F E0131 08:00:00.000001 1 a.go:1] x",
            b"<34>1 2025-01-31T08:00:00Z host app 1 - text\nJan 31 08:00:00 host app[1]: error\n<13>Feb 29 23:59:60 h a: x",
            b"2025-01-31T08:00:00+0100 host app[12]: text\n2025-03-30 02:30:00 INFO summer",
            b'1.2.3.4 - - [31/Jan/2025:08:00:00 +0100] "GET / HTTP/1.1" 503 12 "-" "x \\" y"',
            b"2025/01/31 08:00:00 [error] 1#2: *3 text\n[Fri Jan 31 08:00:00.123456 2025] [core:warn] text",
            b"I0131 08:00:00.000001 1 main.go:12] text\nE1231 23:59:59.999999 1 a] b",
            b"2025-01-31 08:00:00,123 ERROR x\nTraceback:\n  File x\nERROR:root:text\nplain",
            b"password=abc token: xyz https://a:b@c/ AKIAABCDEFGHIJKLMNOP",
            *(b"1h30m", b"PT5M", b"2w3d", b"1738310400.5", b"2025-01-31", b"(?i)status=5\\d\\d", b"[[:alpha:]]+\\b(a|b)*"),
            *(b"timeframe=5m&level=warn&match=a%20b", b"since=2h&until=1h&tail=20&fields=time,level", b"skip=1&log=a"),
        )
    ],
    "feeds": [
        b"\x00<?xml version='1.0'?><rss version='2.0'><channel><title>T</title><item><title>A</title><link>https://example.com/a"
        b"</link><guid>1</guid><pubDate>Fri, 31 Jan 2025 08:00:00 GMT</pubDate><description>&lt;b&gt;x&lt;/b&gt;</description>"
        b"</item></channel></rss>",
        b"\x00<feed xmlns='http://www.w3.org/2005/Atom'><title>T</title><entry><id>a</id><updated>2025-01-31T08:00:00Z</updated>"
        b"<content type='html'>&lt;script&gt;</content><link href='javascript:1'/></entry></feed>",
        b'\x01{"version":"https://jsonfeed.org/version/1.1","title":"T","items":[{"id":1,"url":"https://x/","content_text":"c",'
        b'"date_published":"2025-01-31"}]}',
        b"\x03<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>https://example.com/a</loc><lastmod>2025"
        b"</lastmod></url><url><loc>b</loc></url></urlset>",
        b"\x03<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><sitemapindex><sitemap><loc>&a;</loc></sitemap></sitemapindex>",
        b"\x02<!doctype html><meta charset=utf-8><title>T</title><base href='/x/'><a href='../a?b#c'>a</a>"
        b"<link rel=alternate type=application/rss+xml href=feed.xml>",
        b"\x04User-agent: *\nDisallow: /a*$\nAllow: /a/b\nCrawl-delay: 1.5\nSitemap: https://example.com/s.xml\n",
        b"\x00text/html; charset=\"utf-8\"; max-age=60, no-cache",
    ],
    "descriptions": [
        *(json.dumps(API).encode() + b"\n--\n" + path for path in (b"/pets/7?q=x,y&deep=a,1", b"/a.;b=1/c~d", b"/.5", b"/pets/..")),
        json.dumps({**API, "openapi": "3.0.3"}).encode() + b"\n--\n/pets/%2e%2e",
        *(b"\xff" + bytes(first + 40) + bytes([1 + 8 * odd]) + b"\n--\n/pets/7?q=1" for first in range(0, 60, 3) for odd in (0, 9)),
        b"\xff" + bytes(200) + b"\n--\n/a.;b=1/c~d",
        YAML + b"\n--\n/a/b",
        YAML + b"      parameters: [{name: b, in: path, schema: {type: string}}, {$ref: 'other.yaml#/x'}]\n--\n/a/%2F..%2F",
    ],
    "targets": [
        *(bytes([number]) + b"//ann:s3cr3t@localhost:81/shop?x=1" for number in range(24)),
        *(bytes([number]) + rest for number in range(24) for rest in (b"/srv/a.db", b"//[::1]:80/a/../b", b"", b":1")),
    ],
}  # fmt: skip
