"""Hostile documents: each has a clear end in the process that reads them, which serves the next one."""

from __future__ import annotations

import io
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from carrel.sources.documents.kinds import KINDS
from carrel.sources.documents.messages import WorkerRequest, WorkerResponse
from carrel.sources.documents.process import Process
from carrel.sources.process import Crashed, ProcessTimeout
from support.documents import DOCUMENTS, archive, changed_archive, pdf, photo

pytestmark = pytest.mark.slow


@pytest.fixture
def forked_workers() -> None:
    """Start processes as a server does: no fork has their limits and environment from the start."""


BY_FORMAT = {kind.format: kind for kind in KINDS.values()}
KEYS = count()

LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "lol">'
    + b"".join(b'<!ENTITY a%d "%s">' % (n, b"&a%d;" % (n - 1) * 10) for n in range(1, 12))
    + b"]>"
)


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    process = Process(seconds=60, memory=1024**3)
    yield process
    process.stop()


def ask(process: Process, format: str, data: bytes, page: int = 0) -> WorkerResponse:
    kind = BY_FORMAT[format]
    key = str(next(KEYS))
    return process.ask(WorkerRequest(key, kind.module, format, kind.unit, data, page, 16 * 1024**2, False))


def is_well(process: Process) -> bool:
    """Return whether it reads the next document."""
    return "quick" in ask(process, "eml", DOCUMENTS["eml"]()).text


PLACES = {
    "docx": "word/document.xml",
    "pptx": "ppt/slides/slide1.xml",
    "xlsx": "xl/worksheets/sheet1.xml",
    "odt": "content.xml",
    "ods": "content.xml",
    "epub": "OEBPS/text/c2.xhtml",
}
"""Parts of documents in which their words are."""


def with_entity(format: str, declaration: bytes) -> bytes:
    """Return a document that has a DTD, and an entity where one of its words was."""

    def change(data: bytes) -> bytes:
        body = data.partition(b"?>")[2] if data.startswith(b"<?xml") else data
        assert b"quick" in body
        return declaration + body.replace(b"quick", b"&a11;", 1)

    return changed_archive(DOCUMENTS[format](), PLACES[format], change)


@pytest.mark.parametrize("format", PLACES)
def test_entities_are_not_expanded(process: Process, format: str) -> None:
    found = ask(process, format, with_entity(format, LAUGHS), 1)
    assert found.failure == "damaged" or "lollol" not in found.text
    assert len(found.text) < 10_000


@pytest.mark.parametrize("format", PLACES)
def test_external_entities_are_not_fetched(process: Process, format: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    declaration = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a11 SYSTEM "{secret.as_uri()}">]>'
    found = ask(process, format, with_entity(format, declaration.encode()), 1)
    assert "the secret" not in found.text


@pytest.mark.parametrize("format", ["docx", "pptx", "xlsx", "xls", "odt", "ods", "odp", "epub"])
def test_archives_that_expand_are_refused(process: Process, format: str) -> None:
    file = io.BytesIO(DOCUMENTS["xlsx" if format == "xls" else format]())  # whatever it is called
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as grown:
        grown.writestr("word/media/bomb", bytes(17 * 1024**2))
    found = ask(process, format, file.getvalue())
    assert found.failure == "expands"
    assert "bytes" in found.detail


def test_archives_with_very_many_parts_are_refused(process: Process) -> None:
    many = archive(dict.fromkeys(map(str, range(20_001)), b""))
    assert ask(process, "docx", many).failure == "expands"


def test_sheets_whose_dimensions_lie_are_read(process: Process) -> None:
    def lie(data: bytes) -> bytes:
        assert b'ref="B2:C4"' in data
        return data.replace(b'ref="B2:C4"', b'ref="A1:XFD1048576"')

    found = ask(process, "xlsx", changed_archive(DOCUMENTS["xlsx"](), "xl/worksheets/sheet1.xml", lie), 1)
    assert "| quick fox |" in found.text
    assert len(found.text) < 500


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is that of Linux")
def test_a_sheet_that_needs_too_much_memory_ends_its_process_only(process: Process) -> None:
    def far(data: bytes) -> bytes:
        cell = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
        return data.replace(b"</sheetData>", cell)

    with pytest.raises(Crashed):
        ask(process, "xlsx", changed_archive(DOCUMENTS["xlsx"](), "xl/worksheets/sheet1.xml", far), 1)
    assert is_well(process)


@pytest.mark.parametrize("format", ["odt", "ods", "odp"])
def test_broken_xml_ends(process: Process, format: str) -> None:
    for broken in (b"<table:table <", b"<table:ta:oe>", b"<a>&"):
        data = changed_archive(DOCUMENTS[format](), "content.xml", lambda part, with_=broken: part[:-40] + with_)
        assert ask(process, format, data).failure == "damaged"


def test_encrypted_documents_say_so(process: Process) -> None:
    assert ask(process, "pdf", pdf("secret")).failure == "encrypted"
    assert ask(process, "docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(2000)).failure == "encrypted"
    manifest = b'<manifest xmlns:m="urn:x"><m:encryption-data/></manifest>'
    odt = changed_archive(DOCUMENTS["odt"](), "META-INF/manifest.xml", lambda _: manifest)
    assert ask(process, "odt", odt).failure == "encrypted"


def pdf_of(*objects: bytes) -> bytes:
    """Return a PDF of objects; the first one is its root."""
    data, places = b"%PDF-1.4\n", list[int]()
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return data + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (
        size,
        table,
        size,
        len(data),
    )


ROOT, LEAF = b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>"


def test_trees_of_pages_that_lie_or_lead_in_a_circle_end(process: Process) -> None:
    many = pdf_of(ROOT, b"<</Type/Pages/Kids[%s]/Count 100000>>" % (b"3 0 R " * 100_000), LEAF)
    assert ask(process, "pdf", many, 99_999).pages == 100_000
    assert ask(process, "pdf", many, 100_001).failure == "no_page"
    circle = pdf_of(ROOT, b"<</Type/Pages/Kids[2 0 R]/Count 1>>")
    assert ask(process, "pdf", circle).failure == "damaged"
    lie = ask(process, "pdf", pdf_of(ROOT, b"<</Type/Pages/Kids[3 0 R]/Count 2000000000>>", LEAF))
    assert lie.failure in (None, "damaged")
    assert lie.pages <= 1


def test_deep_documents_end(process: Process) -> None:
    nested = b"Subject: deep\n" + b"".join(
        b'Content-Type: multipart/mixed; boundary="%d"\n\n--%d\n' % (n, n) for n in range(2000)
    )
    cases = {
        "eml": nested + b"Content-Type: text/plain\n\nend\n",
        "html": b"<div>" * 50_000 + b"end",
        "ipynb": b'{"cells":' + b"[" * 100_000,
    }
    for format, data in cases.items():
        found = ask(process, format, data)
        assert found.failure in (None, "damaged"), format
        assert len(found.text) < 100_000
    tables = b"<w:tbl><w:tr><w:tc>" * 2000 + b"<w:p/>" + b"</w:tc></w:tr></w:tbl>" * 2000

    def deep(data: bytes) -> bytes:
        return data.replace(b"<w:body>", b"<w:body>" + tables)

    assert ask(process, "docx", changed_archive(DOCUMENTS["docx"](), "word/document.xml", deep)).failure == "damaged"
    assert is_well(process)


def test_images_are_described_and_not_decoded(process: Process) -> None:
    png = photo("PNG")
    header = struct.pack(">II", 100_000, 100_000) + png[24:29]
    bomb = png[:16] + header + struct.pack(">I", zlib.crc32(b"IHDR" + header)) + png[33:]
    found = ask(process, "image", bomb)
    assert found.facts is not None
    assert (found.facts["width"], found.facts["height"]) == (100_000, 100_000)
    entries = b"".join(struct.pack("<HHII", tag, 1, 3_000_000, 8) for tag in range(65_535))
    tiff = b"II*\0\x08\0\0\0" + struct.pack("<H", 65_535) + entries + bytes(3_000_004)
    assert ask(process, "image", tiff).failure in ("damaged", "memory")
    assert is_well(process)


def test_what_takes_too_long_is_stopped() -> None:
    process = Process(seconds=0.0, memory=1024**3)
    try:
        with pytest.raises(ProcessTimeout):
            ask(process, "pdf", pdf())
        assert not process.has("anything")
        process._seconds = 60
        assert is_well(process)
    finally:
        process.stop()
    with pytest.raises(Crashed):
        ask(process, "pdf", pdf())  # it has been stopped


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_process_knows_no_secrets_and_writes_no_files(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "hunter2")
    fresh = Process(seconds=60, memory=1024**3)
    try:
        assert is_well(fresh)
        assert fresh._process is not None
        place = Path("/proc", str(fresh._process.pid))
        assert b"hunter2" not in (place / "environ").read_bytes()
        assert os.readlink(place / "cwd") == "/"
        limits = (place / "limits").read_text()
        assert "Max file size             0 " in limits
        assert f"Max address space         {1024**3} " in limits
        assert len(list((place / "fd").iterdir())) < 10
    finally:
        fresh.stop()
    assert not place.exists()
