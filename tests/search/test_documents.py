"""Documents are found by what is in them, and hits lead to their text."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from carrel import Server
from carrel.search import indexer
from search.indexed import names, searching, write
from support.documents import DOCUMENTS, pdf
from support.memory_client import read

pytestmark = pytest.mark.slow


async def test_documents_of_a_source_with_many_resources_are_found_when_they_are_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer, "LISTED", 0)
    shared = write(tmp_path / "shared", notes_md="# Notes\n")
    app = Server("library")
    app.add_provider(str(shared))
    async with searching(app, tmp_path / "cache") as (index, _):
        (shared / "report.pdf").write_bytes(pdf())
        async with asyncio.timeout(60):
            while names(await index.search("jumps over")) != ["report.pdf"]:
                await asyncio.sleep(0.05)


async def test_documents_are_found_by_their_text(tmp_path: Path) -> None:
    shared = write(tmp_path / "shared", notes_md="# Notes\n\nNothing of it.\n")
    (shared / "report.pdf").write_bytes(pdf())
    (shared / "offer.docx").write_bytes(DOCUMENTS["docx"]())
    (shared / "locked.pdf").write_bytes(pdf("secret"))
    app = Server("library")
    app.add_provider(str(shared))
    async with searching(app, tmp_path / "cache") as (index, peer):
        results = await index.search("jumps over")
        assert names(results) == ["report.pdf"]
        [hit] = results.hits
        assert hit.resource.mime_type == "application/pdf"
        assert hit.snippet is not None
        assert "The quick fox jumps over it." in hit.snippet
        assert hit.link.startswith(f"{hit.resource.uri}?view=text&lines=")
        [found] = await read(peer, hit.link)
        assert "jumps over" in found["text"]
        assert names(await index.search("bold words")) == ["offer.docx"]
        assert names(await index.search("locked")) == ["locked.pdf"]


async def test_files_in_other_encodings_are_found_by_their_words(tmp_path: Path) -> None:
    shared = write(tmp_path / "shared", notes_md="# Notes\n")
    texts = {"cp932": "図書館は午前九時に開きます。\n", "koi8_r": "Библиотека открывается в девять часов утра.\n"}
    for encoding, text in texts.items():
        (shared / f"{encoding}.txt").write_bytes(text.encode(encoding) * 3)
    app = Server("library")
    app.add_provider(str(shared))
    async with searching(app, tmp_path / "cache") as (index, _):
        assert names(await index.search("図書館")) == ["cp932.txt"]
        assert names(await index.search("библиотека")) == ["koi8_r.txt"]
