"""Pages of the web, fetched over TLS from servers that try everything to lead us elsewhere.

In these tests 127.0.0.1 counts as an address of the public Internet, so that there is somebody there; 127.0.0.2 is in
here, as all the other addresses are that are not public. Names stand for what a test says. All the rest is real.
"""

from __future__ import annotations

import asyncio
import gzip
import inspect
import ipaddress
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from carrel.client.web_resources import fetch
from carrel.errors import RequestTimeout, ResourceError, ResourceForbidden, ResourceNotFound, ResourceTooLarge
from carrel.transports import addresses
from carrel.transports.client.response_text import is_textual, read_type
from carrel.wire.resources import BlobResourceContents, TextResourceContents
from support.certificates import Authority

pytestmark = pytest.mark.slow


PUBLIC, INSIDE = "127.0.0.1", "127.0.0.2"
HOSTS = (
    "public.example",
    "other.example",
    "inside.example",
    "rebinding.example",
    "mixed.example",
    "b\u00fccher.example",
)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), HOSTS)


Page = bytes | Callable[[asyncio.StreamWriter], Any]


class Web:
    """A web server at a public address, and one in here at the same port that nobody may reach.

    ``pages`` are whole answers, by path, or functions that write them; ``seen`` are the requests, ``intruders`` counts
    connections to the server inside, and ``asked`` are the names that were looked up.
    """

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self.pages: dict[str, Page] = {}
        self.seen: list[str] = []
        self.intruders = 0
        self.asked: list[str] = []
        self.names: dict[str, list[list[str]]] = {host: [[PUBLIC]] for host in HOSTS}
        self.names["xn--bcher-kva.example"] = [[PUBLIC]]
        self.names["inside.example"] = [[INSIDE]]
        self.names["localhost"] = [[INSIDE]]
        self.port = 0

    def url(self, path: str = "/", host: str = "public.example") -> str:
        return f"https://{host}:{self.port}{path}"

    async def fetch(self, url: str, **options: Any) -> TextResourceContents | BlobResourceContents:
        [found] = await fetch(url, ssl=self.authority.trust, **options)
        return found

    def serve(self, path: str, body: bytes = b"", status: str = "200 OK", **headers: str) -> str:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.pages[path] = "\r\n".join([*lines, "", ""]).encode() + body
        return self.url(path)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.seen.append(request)
            page = self.pages.get(request.split()[1], b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            if callable(page):
                await page(writer)
            else:
                writer.write(page)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def repel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.intruders += 1
        writer.close()

    def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> list[Any]:
        """What ``socket.getaddrinfo`` would say; the last answer for a name stays."""
        host = host.decode() if isinstance(host, bytes) else host
        try:
            found = [str(ipaddress.ip_address(host))]
        except ValueError:
            self.asked.append(host)
            if host.rstrip(".").lower() not in self.names:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None
            answers = self.names[host.rstrip(".").lower()]
            found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (one, port, 0, 0))
            if ":" in one
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port))
            for one in found
        ]


@pytest.fixture
async def site(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Web]:
    site = Web(authority)
    while True:
        public = await asyncio.start_server(site.answer, PUBLIC, 0, ssl=authority.serving)
        site.port = public.sockets[0].getsockname()[1]
        try:
            inside = await asyncio.start_server(site.repel, INSIDE, site.port)
            break
        except OSError:  # the port is free at one of the addresses only
            public.close()
    loopback = ipaddress.ip_network("127.0.0.0/8")
    networks = [network for network in addresses.INSIDE_IPV4 if network != loopback]
    monkeypatch.setattr(addresses, "INSIDE_IPV4", (*networks, *loopback.address_exclude(ipaddress.ip_network(PUBLIC))))
    monkeypatch.setattr(socket, "getaddrinfo", site.getaddrinfo)
    async with public, inside:
        yield site
    assert site.intruders == 0


# What is fetched


async def test_a_page_is_what_reading_a_resource_would_give(site: Web):
    url = site.serve("/a", "Gr\u00fc\u00dfe".encode(), Content_Type="text/markdown; charset=utf-8")
    assert await fetch(url, ssl=site.authority.trust) == [
        TextResourceContents(url, "Gr\u00fc\u00dfe", mime_type="text/markdown")
    ]
    assert site.asked == ["public.example"]


@pytest.mark.parametrize(
    ("kind", "body", "expected"),
    [
        ("text/plain", b"\xe9t\xe9", b"\xe9t\xe9"),
        ("text/plain; charset=latin-1", b"\xe9t\xe9", "\u00e9t\u00e9"),
        ('text/html; Charset="ISO-8859-1"; x=y', b"\xe9t\xe9", "\u00e9t\u00e9"),
        ("text/plain; charset=shift_jis", "\u65e5\u672c".encode("shift_jis"), "\u65e5\u672c"),
        ("text/plain; charset=utf-16", "\u65e5".encode("utf-16"), "\u65e5"),
        ("text/plain; charset=latin-1", b"\xef\xbb\xbf\xc3\xa9", "\u00e9"),
        ("text/plain", "\u65e5".encode("utf-16"), "\u65e5"),
        ("text/plain", b"\xef\xbb\xbfx", "x"),
        ("text/plain; charset=none-such", b"\xc3\xa9", "\u00e9"),
        ("text/plain; charset=none-such", b"\xff", b"\xff"),
        ("text/plain; charset=zlib", zlib.compress(b"x"), zlib.compress(b"x")),
        ("text/plain; charset=punycode", b"caf-dma", "caf-dma"),
        ("text/plain; charset=unicode_escape", b"\\x41", "\\x41"),
        ("text/plain; charset=a\x00b", b"x", "x"),
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("application/ld+json", b"{}", "{}"),
        ("image/svg+xml", b"<svg/>", "<svg/>"),
        ("image/png", b"\x89PNG", b"\x89PNG"),
        ("application/octet-stream", b"text", b"text"),
        ("application/pdf; charset=utf-8", b"%PDF", b"%PDF"),
        ("", b"text", "text"),
        ("", b"\0", b"\0"),
        ("nonsense", b"\xff", b"\xff"),
        ("text/plain", b"", ""),
    ],
)
async def test_text_is_text_in_its_own_encoding_and_the_rest_is_bytes(site: Web, kind: str, body: bytes, expected: Any):
    url = site.serve("/a", body, **({"Content_Type": kind} if kind and "\0" not in kind else {}))
    found = await site.fetch(url)
    assert (found.text if isinstance(found, TextResourceContents) else found.blob) == expected
    assert found.uri == url


def test_types_are_read_as_they_are_written():
    assert read_type("Text/HTML ; charset = 'UTF-8'") == ("text/html", "utf-8")
    assert read_type("") == ("", "")
    assert read_type("a/b/c; charset") == ("", "")
    assert read_type("text/<script>") == ("", "")
    assert is_textual("text/x-python")
    assert not is_textual("image/png")


@pytest.mark.parametrize("parts", [1, 3])
async def test_compressed_pages_are_decompressed(site: Web, parts: int):
    text = b"many words " * 10_000
    body = b"".join(gzip.compress(text, mtime=0) for _ in range(parts))
    found = await site.fetch(site.serve("/a", body, Content_Type="text/plain", Content_Encoding="gzip"))
    assert isinstance(found, TextResourceContents)
    assert found.text.encode() == text * parts
    raw = zlib.compressobj(wbits=-15)
    for body in (zlib.compress(text), raw.compress(text) + raw.flush()):
        found = await site.fetch(site.serve("/a", body, Content_Type="text/plain", Content_Encoding="deflate"))
        assert isinstance(found, TextResourceContents)
        assert found.text.encode() == text


async def test_names_of_any_script_are_fetched(site: Web):
    site.serve("/a", b"x", Content_Type="text/plain")
    url = site.url("/a", "b\u00fccher.example")
    assert (await site.fetch(url)).uri == url
    assert site.asked == ["xn--bcher-kva.example"]


async def test_the_part_after_the_hash_stays_here(site: Web):
    site.serve("/a?q=1", b"x")
    await site.fetch(site.url("/a?q=1#secret"))
    assert "secret" not in site.seen[0]


async def test_nothing_says_who_asks(site: Web, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine public.example login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("https_proxy", f"http://{INSIDE}:{site.port}")
    site.serve("/a", b"", "302 Found", Set_Cookie="id=1; Path=/; Secure", Location="/b")
    site.serve("/b", b"x", Set_Cookie="id=2; Path=/; Secure")
    await site.fetch(site.url("/a"))
    await site.fetch(site.url("/b"))
    assert len(site.seen) == 3
    for request in site.seen:
        names = {line.partition(":")[0].lower() for line in request.split("\r\n")[1:] if line}
        assert names == {"host", "accept", "accept-encoding", "user-agent"}


@pytest.mark.parametrize(
    ("status", "error"),
    [
        *((404, ResourceNotFound), (410, ResourceNotFound), (401, ResourceForbidden), (403, ResourceForbidden)),
        *((206, ResourceError), (300, ResourceError), (302, ResourceError), (304, ResourceError), (400, ResourceError)),
        *((429, ResourceError), (500, ResourceError), (503, ResourceError)),
    ],
)
async def test_refusals_of_the_web_server_are_errors(site: Web, status: int, error: type[Exception]):
    url = site.serve("/a", b"secret", f"{status} X")
    with pytest.raises(error) as caught:
        await site.fetch(url)
    assert type(caught.value) is error
    assert url in str(caught.value)


# Where it may not lead


@pytest.mark.parametrize(
    "url",
    [
        *("http://public.example/", "ftp://public.example/", "file:///etc/passwd", "javascript:alert(1)", "data:,x"),
        *("gopher://public.example/", "//public.example/", "/etc/passwd", "public.example", "", "https:", "https://"),
        *("https:///etc/passwd", "https:public.example", "https://public.example:x/", "https://public.example:99999/"),
        *("https://user@public.example/", "https://user:secret@public.example/", "https://@public.example/"),
        *("https://:secret@public.example/", "https://public.example@inside.example/", "https://[::1/", "https://[/"),
        *("https://public.example\\@inside.example/", "https://public.example/a b", "https://public.example/\r\nX: y"),
        *("https://public.example\t.inside.example/", "https://pub\0lic.example/", "\nhttps://public.example/"),
        *(
            "https://public.example/" + "a" * 9000,
            "http+unix://x/",
            "wss://public.example/",
            "blob:https://public.example",
        ),
    ],
)
async def test_other_urls_than_plain_https_are_not_fetched(site: Web, url: str):
    with pytest.raises(ResourceForbidden) as caught:
        await site.fetch(url)
    assert (site.asked, site.seen) == ([], [])
    assert "secret" not in str(caught.value)


HERE = [
    *("127.0.0.2", "127.0.0.2.", "127.1.1.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1"),
    *("169.254.169.254", "169.254.170.2", "168.63.129.16", "192.0.0.192", "198.18.0.1", "224.0.0.1", "239.1.1.1"),
    *("240.0.0.1", "255.255.255.255", "2130706434", "0x7f000002", "017700000002", "0177.0.0.2", "0x7f.0.0.2", "127.2"),
    *("[::]", "[::1]", "[::127.0.0.2]", "[::ffff:127.0.0.2]", "[::ffff:7f00:2]", "[::ffff:169.254.169.254]"),
    *(
        "[64:ff9b::7f00:2]",
        "[64:ff9b::169.254.169.254]",
        "[64:ff9b:1::a9fe:a9fe]",
        "[2002:7f00:2::]",
        "[2002:a9fe:a9fe::1]",
    ),
    *(
        "[2001::1]",
        "[2001:db8::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fe80::1%25lo]",
        "[fec0::1]",
        "[ff02::1]",
    ),
    *("[100::1]", "[5f00::1]", "\u2460\u2461\u2466.0.0.2", "\uff11\uff12\uff17.0.0.2", "127\u30020.0.2"),
]


@pytest.mark.parametrize("host", HERE)
async def test_addresses_in_here_are_not_connected_to_however_they_are_written(site: Web, host: str):
    for url in (site.url("/a", host), site.serve("/a", b"", "302 Found", Location=f"https://{host}:{site.port}/b")):
        with pytest.raises(ResourceForbidden):
            await site.fetch(url)
    assert len(site.seen) == 1


def strip(host: str) -> str:
    return host.strip("[]")


def is_address(host: str) -> bool:
    """Whether a name server could answer with this, rather than with one of the odd ways to write it."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("address", [host for host in map(strip, HERE) if is_address(host)])
async def test_names_that_stand_for_addresses_in_here_are_not_connected_to(site: Web, address: str):
    site.names["inside.example"] = [[address]]
    with pytest.raises(ResourceForbidden, match="not an address of the public Internet"):
        await site.fetch(site.url("/", "inside.example"))


async def test_metadata_names_and_this_machine_are_not_connected_to(site: Web):
    site.names["metadata.google.internal"] = [["169.254.169.254"]]
    for host in ("localhost", "LOCALHOST.", "inside.example", "INSIDE.example", "metadata.google.internal"):
        with pytest.raises(ResourceForbidden):
            await site.fetch(site.url("/computeMetadata/v1/", host))


async def test_proxies_of_the_environment_are_no_exception(site: Web, monkeypatch: pytest.MonkeyPatch):
    for host in (INSIDE, "inside.example"):
        monkeypatch.setenv("https_proxy", f"http://{host}:{site.port}")
        with pytest.raises(ResourceForbidden):
            await site.fetch(site.url("/", host))
    site.serve("/a", b"x")
    await site.fetch(site.url("/a"))


async def test_a_name_is_looked_up_once_and_what_was_looked_at_is_connected_to(site: Web):
    site.names["rebinding.example"] = [[PUBLIC], [INSIDE]]
    site.serve("/a", b"x", Content_Type="text/plain")
    assert (await site.fetch(site.url("/a", "rebinding.example"))).uri
    assert site.asked == ["rebinding.example"]
    with pytest.raises(ResourceForbidden):
        await site.fetch(site.url("/a", "rebinding.example"))
    assert site.asked == ["rebinding.example"] * 2


async def test_of_several_addresses_only_public_ones_are_tried(site: Web):
    site.names["mixed.example"] = [["::1", INSIDE, PUBLIC, "fd00::1"]]
    site.serve("/a", b"x", Content_Type="text/plain")
    assert isinstance(await site.fetch(site.url("/a", "mixed.example")), TextResourceContents)


async def test_hosts_that_the_user_has_named_may_be_anywhere(site: Web, authority: Authority):
    reached = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx")
        reached.set()
        writer.close()

    async with await asyncio.start_server(answer, INSIDE, 0, ssl=authority.serving) as server:
        port = server.sockets[0].getsockname()[1]
        for host in ("inside.example", INSIDE):
            await site.fetch(f"https://{host}:{port}/", allowed=[host])
            assert reached.is_set()
            with pytest.raises(ResourceForbidden):
                await site.fetch(f"https://{host}:{port}/", allowed=["other.example"])


# Redirects


@pytest.mark.parametrize("status", ["301 X", "302 X", "303 X", "307 X", "308 X"])
async def test_redirects_are_followed_to_public_places(site: Web, status: str):
    site.serve("/a", b"", status, Location=f"https://other.example:{site.port}/b#part")
    site.serve("/b", b"", status, Location="c?d=e")
    site.serve("/c?d=e", b"found", Content_Type="text/plain")
    found = await site.fetch(site.url("/a"))
    assert found == TextResourceContents(site.url("/a"), "found", mime_type="text/plain")
    assert site.asked == ["public.example", "other.example"]
    assert [request.split("\r\n")[0] for request in site.seen] == [
        "GET /a HTTP/1.1",
        "GET /b HTTP/1.1",
        "GET /c?d=e HTTP/1.1",
    ]


async def test_five_redirects_are_followed_and_no_more(site: Web):
    for number in range(6):
        site.serve(f"/{number}", b"", "302 Found", Location=f"/{number + 1}")
    site.serve("/6", b"x")
    assert await site.fetch(site.url("/1"))
    site.seen.clear()
    with pytest.raises(ResourceError, match="more than 5 times"):
        await site.fetch(site.url("/0"))
    assert len(site.seen) == 6
    with pytest.raises(ResourceError, match="more than 0 times"):
        await site.fetch(site.url("/5"), max_redirects=0)


@pytest.mark.parametrize(
    "location",
    [
        *(
            "http://public.example:{plain}/",
            "HTTP://public.example:{plain}/",
            "http://169.254.169.254/latest/meta-data/",
        ),
        *("https://user:secret@public.example:{port}/b", "//user@other.example:{port}/b"),
        *(
            "file:///etc/passwd",
            "data:,x",
            "javascript:alert(1)",
            "ftp://public.example:{port}/b",
            "wss://public.example/",
        ),
        *("https://public.example:99999/", "https://[::1", "https://pub lic.example/", "https://public.example\\@x/"),
        "http:b",
    ],
)
async def test_redirects_to_what_would_not_be_fetched_are_not_followed(site: Web, location: str):
    site.serve("/b", b"x")
    async with await asyncio.start_server(site.answer, PUBLIC, 0) as plain:
        where = {"port": site.port, "plain": plain.sockets[0].getsockname()[1]}
        url = site.serve("/a", b"", "302 Found", Location=location.format(**where))
        with pytest.raises(ResourceForbidden) as caught:
            await site.fetch(url)
    assert len(site.seen) == 1
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("host", ["inside.example", "localhost", INSIDE])
async def test_redirects_to_names_in_here_are_not_followed(site: Web, host: str):
    url = site.serve("/a", b"", "302 Found", Location=site.url("/", host))
    with pytest.raises(ResourceForbidden):
        await site.fetch(url)
    assert len(site.seen) == 1


async def test_a_name_that_redirects_to_itself_does_not_lead_elsewhere(site: Web):
    site.names["rebinding.example"] = [[PUBLIC], [INSIDE]]
    site.serve("/a", b"", "302 Found", Location=site.url("/b", "rebinding.example"))
    site.serve("/b", b"still there", Content_Type="text/plain")
    found = await site.fetch(site.url("/a", "rebinding.example"))
    assert isinstance(found, TextResourceContents)
    assert (found.text, site.asked) == ("still there", ["rebinding.example"])


# Certificates


async def test_a_certificate_of_an_unknown_authority_is_refused(site: Web):
    with pytest.raises(ResourceError, match="cannot be fetched"):
        await fetch(site.serve("/a", b"x"))
    assert site.seen == []


async def test_a_certificate_of_another_host_is_refused(site: Web):
    site.names["stranger.example"] = [[PUBLIC]]
    with pytest.raises(ResourceError, match="cannot be fetched"):
        await site.fetch(site.url("/a", "stranger.example"))
    assert site.seen == []


# How much, and how long


async def test_a_page_may_be_as_large_as_the_limit_and_no_larger(site: Web):
    url = site.serve("/a", b"x" * 1000, Content_Type="text/plain")
    assert await site.fetch(url, max_bytes=1000)
    with pytest.raises(ResourceTooLarge, match="999 bytes"):
        await site.fetch(url, max_bytes=999)


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_page_without_end_is_read_up_to_the_limit(site: Web, chunked: bool):
    sent = 0

    async def pour(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n" + b"Transfer-Encoding: chunked\r\n" * chunked + b"\r\n")
        while sent < 50_000_000 and not writer.is_closing():
            writer.write(b"10000\r\n" * chunked + b"x" * 65536 + b"\r\n" * chunked)
            await writer.drain()
            sent += 65536

    site.pages["/a"] = pour
    with pytest.raises(ResourceTooLarge):
        await site.fetch(site.url("/a"), max_bytes=1_000_000)
    assert sent < 20_000_000


def bomb(size: int) -> bytes:
    """Zeros, compressed as far as gzip goes: 1,000 to 1."""
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(bytes(1_000_000)) for _ in range(size // 1_000_000)) + packer.flush()


async def test_a_decompression_bomb_is_not_unpacked(site: Web):
    url = site.serve("/a", bomb(100_000_000), Content_Type="text/plain", Content_Encoding="gzip")
    before, begun = peak_memory(), time.process_time()
    with pytest.raises(ResourceTooLarge):
        await site.fetch(url, max_bytes=1_000_000)
    assert peak_memory() - before < 30_000_000
    assert time.process_time() - begun < 1


def peak_memory() -> int:
    """The most memory that this process has had, in bytes."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"not compressed"),
        ("gzip", gzip.compress(b"words " * 100, mtime=0)[:-12]),
        ("gzip", gzip.compress(b"words", mtime=0) + b"rubbish"),
        ("deflate", b"\xff\xff"),
        ("deflate", zlib.compress(b"words") + b"x"),
        ("br", b"x"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"x", mtime=0), mtime=0)),
    ],
)
async def test_invalid_or_unsupported_compression_is_an_error(site: Web, encoding: str, body: bytes):
    with pytest.raises(ResourceError) as caught:
        await site.fetch(site.serve("/a", body, Content_Encoding=encoding))
    assert type(caught.value) is ResourceError


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx"])
async def test_a_page_that_does_not_come_is_not_waited_for(site: Web, beginning: bytes):
    gone = asyncio.Event()

    async def stall(writer: asyncio.StreamWriter) -> None:
        writer.write(beginning)
        await writer.drain()
        await gone.wait()

    site.pages["/a"] = stall
    with pytest.raises(RequestTimeout, match="within 0"):
        await site.fetch(site.url("/a"), timeout=0.2)
    gone.set()


async def test_a_page_that_drips_has_no_more_time_than_others(site: Web):
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    site.pages["/a"] = drip
    with pytest.raises(RequestTimeout):
        await site.fetch(site.url("/a"), timeout=0.3)


async def test_redirects_share_the_time(site: Web):
    async def stall(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.15)
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: /a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    site.pages["/a"] = stall
    with pytest.raises(RequestTimeout):
        await site.fetch(site.url("/a"), timeout=0.4)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
    ],
)
async def test_an_invalid_http_response_is_an_error(site: Web, answer: bytes):
    site.pages["/a"] = answer
    with pytest.raises(ResourceError) as caught:
        await site.fetch(site.url("/a"))
    assert type(caught.value) is ResourceError


async def test_an_unreachable_host_is_an_error(site: Web):
    with pytest.raises(ResourceError, match="cannot be fetched"):
        await site.fetch(site.url("/", "nobody.example"))
    with socket.socket() as unused:
        unused.bind((PUBLIC, 0))
        with pytest.raises(ResourceError, match="cannot be fetched"):
            await site.fetch(f"https://public.example:{unused.getsockname()[1]}/")


async def test_giving_up_leaves_nothing_behind(site: Web):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def stall(writer: asyncio.StreamWriter) -> None:
        begun.set()
        await writer.wait_closed()
        ended.set()

    site.pages["/a"] = stall
    task = asyncio.create_task(site.fetch(site.url("/a")))
    async with asyncio.timeout(60):
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    for server_side in asyncio.all_tasks() - {asyncio.current_task()}:
        server_side.cancel()


def test_nothing_of_the_web_is_loaded_before_it_is_needed(tmp_path: Path):
    script = (
        "import sys, carrel.client.web_resources\n"
        "print(sorted({'aiohttp', 'yarl', 'carrel.security'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
    (tmp_path / "aiohttp.py").write_text("raise ImportError('not here')")
    script = (
        "import asyncio\nfrom carrel.client.web_resources import fetch\nfrom carrel.errors import ConfigError\n"
        "try: asyncio.run(fetch('https://x'))\nexcept ConfigError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env={"PYTHONPATH": str(tmp_path)}
    )
    assert done.stdout.strip() == "Fetching from the web needs the package aiohttp: pip install 'carrel[client]'"


def test_the_limits_are_those_that_are_documented():
    page = (Path(__file__).parents[2] / "docs" / "client-cache.md").read_text().partition("## `https:`")[2]
    defaults = {name: parameter.default for name, parameter in inspect.signature(fetch).parameters.items()}
    assert all(f"`{name}`" in page or f"{name}=" in page for name in set(defaults) - {"url"})
    assert (defaults["max_bytes"], "may be up to 16 MiB" in page) == (16 * 1024 * 1024, True)
    assert (defaults["timeout"], "take up to 30 seconds" in page) == (30, True)
    assert (defaults["max_redirects"], "Up to 5 redirects" in page) == (5, True)
