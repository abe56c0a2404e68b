"""Documents of sources as text: files, git and the web, with the cache, windows, limits, rights and switches."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from carrel.catalog.provider import Provider, Request
from carrel.errors import InvalidParams, ResourceError, ResourceNotFound, ResourceTooLarge
from carrel.sources.documents import documents as documents_module
from carrel.sources.documents.documents import Documents, Original
from carrel.sources.files.source import FilesSource
from carrel.sources.git.options import GitOptions
from carrel.sources.git.source import GitSource
from carrel.testing import Caller, running
from carrel.wire.completion import ResourceTemplateReference
from carrel.wire.resources import BlobResourceContents, TextResourceContents, decoded
from support.documents import DOCUMENTS, pdf, photo
from support.git import Repository
from support.web_site import running_site

pytestmark = pytest.mark.slow

Put = Callable[..., Path]
Share = Callable[..., Awaitable[FilesSource]]


async def read(source: Provider, uri: str) -> Any:
    """Return the one content of a resource."""
    [found] = await Caller(source).read_resource(uri)
    return found


async def test_a_document_is_read_beside_its_original(put: Put, share: Share) -> None:
    put("report.pdf", pdf())
    source = await share()
    uri = f"{source.uri}/report.pdf"
    original = await read(source, uri)
    assert isinstance(original, BlobResourceContents)
    assert (original.blob, original.mime_type) == (pdf(), "application/pdf")
    assert original.meta == {"carrel/text": "?view=text"}
    page = await read(source, f"{uri}?page=2")
    assert (page.text, page.mime_type) == ("Page 2\nThe quick fox jumps over it.\n", "text/markdown")
    assert page.meta == {"carrel/pages": 3, "carrel/page": 2}
    whole = await read(source, f"{uri}?view=text")
    assert [line for line in whole.text.splitlines() if line.startswith("<!--")] == [
        f"<!-- page {number} -->" for number in (1, 2, 3)
    ]
    lines = await read(source, f"{uri}?view=text&lines=3-4")
    assert lines.text == "Chapter One\nThe quick fox jumps over it.\n"
    assert lines.meta["carrel/window"] == {"unit": "lines", "first": 3, "last": 4}
    assert lines.meta["carrel/size"] == len(whole.text)
    assert (await read(source, f"{uri}?page=1&tail=1")).text == "The quick fox jumps over it.\n"
    assert (await read(source, f"{uri}?page=1&bytes=0-6")).text == "Chapter"
    assert (await read(source, f"{uri}?bytes=0-4")).blob == b"%PDF-"


async def test_lists_and_templates_say_that_there_is_text(put: Put, share: Share) -> None:
    put("report.pdf", pdf())
    put("book.xlsx", DOCUMENTS["xlsx"]())
    put("photo.jpg", photo())
    put("notes.txt")
    source = await share()
    caller = Caller(source)
    listed = {resource.name: resource for resource in await caller.resources(100)}
    assert listed["report.pdf"].description == "PDF; ?view=text is its text, ?page=1 its first page"
    assert listed["book.xlsx"].description == "Excel workbook; ?view=text is its text, ?page=1 its first sheet"
    assert listed["report.pdf"].meta == {"carrel/text": "?view=text"}
    assert listed["photo.jpg"].meta is listed["notes.txt"].meta is listed["notes.txt"].description is None
    found = (await read(source, source.uri)).text
    assert found.count('"carrel/text":"?view=text"') == 2
    templates = [template.uri_template for template in await caller.templates()]
    assert templates[-2:] == [f"{source.uri}/{{+path}}{{?view}}", f"{source.uri}/{{+path}}{{?page}}"]
    alone = await share(Path(source.path, "report.pdf"))
    assert [one.uri_template for one in await Caller(alone).templates()][-1] == f"{alone.uri}{{?page}}"
    assert "Page 3" in (await read(alone, f"{alone.uri}?page=3")).text
    text = await share(Path(source.path, "notes.txt"))
    assert not any("{?page}" in one.uri_template for one in await Caller(text).templates())


async def test_pages_are_suggested(put: Put, share: Share) -> None:
    put("a b.pdf", pdf(pages=12))
    put("notes.txt")
    source = await share()
    template = f"{source.uri}/{{+path}}{{?page}}"

    async def suggested(typed: str, **context: str) -> list[str]:
        return list((await Caller(source).complete(template, "page", typed, context)).values)

    assert await suggested("", path="a b.pdf") == [str(number) for number in range(1, 13)]
    assert await suggested("1", path="a b.pdf") == ["1", "10", "11", "12"]
    assert await suggested("") == ["1"]
    for path in ("notes.txt", "missing.pdf", "../x.pdf"):
        assert await suggested("", path=path) == []
    hidden = Request(visible=lambda uri: not uri.endswith("b.pdf"))
    found = await source.complete(ResourceTemplateReference(template), "page", "", {"path": "a b.pdf"}, hidden)
    assert found.values == []
    view = await Caller(source).complete(f"{source.uri}/{{+path}}{{?view}}", "view", "")
    assert list(view.values) == ["text"]


async def test_what_cannot_be_turned_into_text_says_why(put: Put, share: Share) -> None:
    put("report.pdf", pdf())
    put("locked.pdf", pdf("secret"))
    put("old.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    put("old.ppt", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    put("broken.docx", b"PK\x03\x04 nothing")
    put("notes.txt")
    source = await share()
    for path, error, message in (
        ("old.doc?view=text", InvalidParams, r"old Word files \(.doc\) is not read, save it as .docx"),
        ("old.ppt?page=1", InvalidParams, r"old PowerPoint files \(.ppt\) is not read, save it as .pptx"),
        ("report.pdf?page=4", InvalidParams, "the document has 3 pages"),
        ("report.pdf?page=0", InvalidParams, "count from 1"),
        ("report.pdf?page=x", InvalidParams, "count from 1"),
        ("report.pdf?view=html", InvalidParams, "it should be view=text"),
        ("report.pdf?view=text&page=1", InvalidParams, "no window"),
        ("report.pdf?view=text&lines=9000-", InvalidParams, "ends with line"),
        ("notes.txt?view=text", InvalidParams, "not a document"),
        ("?page=1", InvalidParams, "not a document"),
        ("missing.pdf?page=1", ResourceNotFound, "not found"),
        ("locked.pdf?view=text", ResourceError, "encrypted, and needs a password"),
        ("broken.docx?view=text", ResourceError, "not a valid Word document"),
    ):
        with pytest.raises(error, match=message):
            await read(source, f"{source.uri}/{path}".replace("/?", "?"))


async def test_text_over_the_limit_is_read_in_windows(put: Put, share: Share) -> None:
    put("report.pdf", pdf(pages=40))
    source = await share(max_size=1000)
    uri = f"{source.uri}/report.pdf"
    with pytest.raises(ResourceTooLarge, match=r"over the limit of 1,000.*\?view=text&lines=1-1000 or .*\?page=1"):
        await read(source, f"{uri}?view=text")
    with pytest.raises(ResourceTooLarge, match=r"read a narrower one, .*\?view=text&lines=1-") as raised:
        await read(source, f"{uri}?view=text&lines=1-1000")
    narrower = raised.value.message.partition("narrower one, ")[2].partition(" or ")[0]
    assert 0 < len((await read(source, narrower)).text) <= 1000


async def test_a_document_that_changes_is_read_again(put: Put, share: Share) -> None:
    path = put("page.html", "<h1>One</h1>")
    source = await share()
    uri = f"{source.uri}/page.html?view=text"
    assert (await read(source, uri)).text == "# One\n"
    path.write_text("<h1>Another</h1>")
    os.utime(path, ns=(1, 1))
    assert (await read(source, uri)).text == "# Another\n"
    path.unlink()
    with pytest.raises(ResourceNotFound):
        await read(source, uri)


async def test_text_is_kept_and_a_document_stays_open(put: Put, share: Share, monkeypatch: pytest.MonkeyPatch) -> None:
    from carrel.sources.files import read as read_module

    loaded = list[int]()
    read_all = read_module.read_all

    def counted(descriptor: int, size: int, limit: int) -> bytes | None:
        loaded.append(size)
        return read_all(descriptor, size, limit)

    monkeypatch.setattr(read_module, "read_all", counted)
    put("report.pdf", pdf())
    source = await share()
    uri = f"{source.uri}/report.pdf"
    for query in ("page=1", "page=2", "page=2", "view=text", "view=text&lines=1"):
        await read(source, f"{uri}?{query}")
    assert len(loaded) == 1
    assert source._documents._process is not None
    source._documents._process.close()  # as if it had crashed
    assert (await read(source, f"{uri}?page=1")).text.startswith("Chapter One")
    assert len(loaded) == 1
    assert (await read(source, f"{uri}?page=3")).text.startswith("Page 3")
    assert len(loaded) == 2


async def test_documents_can_be_switched_off(put: Put, share: Share) -> None:
    put("report.pdf", pdf())
    put("photo.jpg", photo())
    source = await share(documents=False)
    [_, *listed] = await Caller(source).resources(100)
    assert all(resource.meta is resource.description is None for resource in listed)
    assert not any("{?page}" in one.uri_template for one in await Caller(source).templates())
    for resource in listed:
        assert (await read(source, resource.uri)).meta is None
        with pytest.raises(InvalidParams, match="there is no window 'view'"):
            await read(source, f"{resource.uri}?view=text")


async def test_a_missing_package_is_named_when_text_is_asked_for(
    put: Put, share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_module, "PACKAGES", ("lxml", "no_such_package"))
    put("report.pdf", pdf())
    source = await share()
    [_, listed] = await Caller(source).resources(100)
    assert listed.meta is None
    assert (await read(source, listed.uri)).blob == pdf()
    with pytest.raises(ResourceError, match=r"needs the package no_such_package: pip install 'carrel\[documents\]'"):
        await read(source, f"{listed.uri}?view=text")


@pytest.mark.parametrize("locations", [False, True])
async def test_images_have_their_facts(
    put: Put, share: Share, locations: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents_module, "PATIENCE", 60.0)
    put("photo.jpg", photo())
    put("broken.png", b"\x89PNG\r\n\x1a\n\0\0\0")
    source = await share(image_locations=locations)
    found = await read(source, f"{source.uri}/photo.jpg")
    assert found.blob == photo()
    facts = found.meta["carrel/image"]
    assert (facts["width"], facts["height"], facts["date"]) == (40, 30, "2026-11-22T10:30:00")
    assert ("latitude" in facts) == locations
    text = await read(source, f"{source.uri}/photo.jpg?view=text")
    assert "JPEG image, 40 × 30 pixels" in text.text
    assert text.meta["carrel/image"] == facts
    assert (await read(source, f"{source.uri}/broken.png")).meta is None
    assert (await read(source, f"{source.uri}/photo.jpg?bytes=0-1")).blob == b"\xff\xd8"


async def test_reading_many_at_once_gives_each_its_own(put: Put, share: Share) -> None:
    for number in range(12):
        put(f"{number}.html", f"<h1>Number {number}</h1>")
    source = await share()
    found = await asyncio.gather(*(read(source, f"{source.uri}/{number}.html?page=1") for number in range(12)))
    assert [one.text for one in found] == [f"# Number {number}\n" for number in range(12)]


async def test_a_cancelled_request_frees_the_process(put: Put, share: Share) -> None:
    put("many.eml", b'Subject: x\nContent-Type: multipart/mixed; boundary="b"\n\n' + b"--b\n\nhi\n" * 300_000)
    put("page.html", "<h1>One</h1>")
    source = await share()
    slow = asyncio.ensure_future(read(source, f"{source.uri}/many.eml?view=text"))
    while source._documents._process is None or source._documents._process._process is None:
        await asyncio.sleep(0.01)
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert (await read(source, f"{source.uri}/page.html?view=text")).text == "# One\n"


async def test_what_the_caller_may_not_see_has_no_text(put: Put, share: Share) -> None:
    put("secret.pdf", pdf())
    source = await share()
    uri = f"{source.uri}/secret.pdf?page=1"
    assert (await read(source, uri)).text
    with pytest.raises(ResourceError):
        await source.read_resource(uri, Request(visible=lambda uri: "secret" not in uri))


async def test_documents_at_a_revision_of_a_repository(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "shop")
    for number, title in enumerate(("One", "Two")):
        repository.put("page.html", f"<h1>{title}</h1>")
        repository.put("report.pdf", pdf())
        repository.commit(f"commit {number}")
    source = GitSource(f"git:{repository.path}", GitOptions())
    async with running(source):
        tree = await Caller(source).directory(f"{source.uri}/tree/HEAD", 10)
        assert {one.name: one.meta for one in tree}["report.pdf"] == {"carrel/text": "?view=text"}
        for ref, title in (("HEAD", "Two"), ("HEAD~1", "One")):
            assert (await read(source, f"{source.uri}/file/{ref}/page.html?view=text")).text == f"# {title}\n"
        assert (await read(source, f"{source.uri}/file/HEAD/report.pdf?page=3")).text.startswith("Page 3")
        template = f"{source.uri}/file/{{ref}}/{{+path}}{{?page}}"
        found = await Caller(source).complete(template, "page", "", {"ref": "HEAD", "path": "report.pdf"})
        assert list(found.values) == ["1", "2", "3"]
        for path in ("tree/HEAD", "log/HEAD"):
            with pytest.raises(InvalidParams):
                await read(source, f"{source.uri}/{path}?page=1")


async def test_documents_of_a_web_site() -> None:
    async with running_site() as site:
        site.put("/docs/", "<a href=report.pdf>Report</a><a href=list?page=2>More</a>")
        report = site.put("/docs/report.pdf", pdf(), "application/pdf")
        listed = site.put(
            "/docs/list?page=2", "<h1>The second page</h1><p>of a list of the site, which has a page.</p>"
        )
        source = site.source(sitemap=False)
        async with running(source):
            described = {one.uri: one for one in await Caller(source).resources(10)}
            assert described[report].meta == {"carrel/text": "?view=text"}
            assert (await read(source, f"{report}?page=2")).text.startswith("Page 2")
            assert "Chapter One" in (await read(source, f"{report}?view=text&lines=1-5")).text
            original = await read(source, report)
            assert original.blob == pdf()
            assert original.meta["carrel/text"] == "?view=text"
            assert "The second page" in (await read(source, listed)).text  # a parameter of the site
            template = f"{source.uri}{{+path}}{{?page}}"
            found = await Caller(source).complete(template, "page", "", {"path": "report.pdf"})
            assert list(found.values) == ["1", "2", "3"]


async def test_few_documents_are_in_memory_while_they_wait() -> None:
    documents, large = Documents("test"), b"<h1>x</h1>"
    inside, most = 0, 0

    async def load(uri: str, request: Request, limit: int, known: Callable[[Any], bool]) -> Original:
        nonlocal inside, most
        if known(uri):
            return Original("text/html", uri, None)
        inside += 1
        most = max(most, inside)
        return Original("text/html", uri, large)

    async def ask(number: int) -> None:
        nonlocal inside
        await documents.read(f"a:{number}?page=1", Request(), unexpected, load)
        inside -= 1

    async def unexpected(uri: str, request: Request) -> Any:
        raise AssertionError(uri)

    try:
        await asyncio.gather(*(ask(number) for number in range(12)))
    finally:
        await documents.stop()
    assert most <= documents_module.LOADED_PER_CLIENT


async def test_another_source_adopts_documents_in_a_few_lines() -> None:
    from carrel.catalog.provider import Page
    from carrel.wire.resources import ReadResourceResult, Resource

    class Bucket(Provider):
        name, prefixes = "bucket:", ("bucket:",)

        def __init__(self) -> None:
            self._documents = Documents(self)

        def list_resources(self, request: Request) -> Page[Resource]:
            return Page([self._documents.describe(Resource("bucket:a.pdf", "a.pdf", mime_type="application/pdf"))])

        def list_templates(self, request: Request) -> Page[Any]:
            return Page(self._documents.templates("bucket:{+key}", "bucket"))

        async def read_resource(self, uri: str, request: Request) -> ReadResourceResult:
            return await self._documents.read(uri, request, self._read, self._load)

        async def _read(self, uri: str, request: Request) -> ReadResourceResult:
            return ReadResourceResult(contents=[BlobResourceContents(uri, pdf(), mime_type="application/pdf")])

        async def _load(self, uri: str, request: Request, limit: int, known: Any) -> Original:
            return Original("application/pdf", "etag", None if known("etag") else pdf())

        async def stop(self) -> None:
            await self._documents.stop()

    bucket = Bucket()
    async with running(bucket):
        [found] = decoded(await bucket.read_resource("bucket:a.pdf?page=2", Request())).contents
        assert isinstance(found, TextResourceContents)
        assert found.text.startswith("Page 2")
