"""Texts of documents of servers, page by page."""

from __future__ import annotations

import pytest

from carrel import Server
from support import documents
from support.studio_page import app_server, opened

pytestmark = pytest.mark.slow
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


async def test_documents_of_any_server_are_read_page_by_page() -> None:
    app = Server("papers")
    app.resources.add("paper://pdf", documents.pdf(pages=3), name="pdf", mime_type="application/pdf")
    app.resources.add("paper://word", documents.docx(), name="word", mime_type=WORD)
    app.resources.add("paper://locked", documents.pdf("secret"), name="locked", mime_type="application/pdf")
    app.resources.add("paper://broken", b"%PDF-1.7 no", name="broken", mime_type="application/pdf")
    app.resources.add("paper://text", "words", name="text", mime_type="text/plain")
    async with opened(app_server(app)) as page:
        await page.ready("papers")
        kinds = [
            (await page.get("/contents", server="papers", uri=f"paper://{name}"))["kind"] for name in ("pdf", "word")
        ]
        assert kinds == ["pdf", "document"]
        texts = [await page.get("/page", server="papers", uri="paper://pdf", page=number) for number in (1, 2, 3)]
        assert [(text["page"], text["pages"]) for text in texts] == [(1, 3), (2, 3), (3, 3)]
        assert len({text["text"] for text in texts}) == 3
        word = await page.get("/page", server="papers", uri="paper://word")
        assert word["text"].strip()
        for name, number, status, about in [
            ("pdf", 4, 422, "the document has 3 pages"),
            ("pdf", 0, 422, "count from 1"),
            ("locked", 1, 502, "password"),
            ("broken", 1, 502, "not a valid PDF"),
            ("text", 1, 422, "not a document"),
            ("none", 1, 404, "paper://none"),
        ]:
            found, problem = await page.ask("GET", "/page", server="papers", uri=f"paper://{name}", page=number)
            assert (found, about in problem["detail"]) == (status, True), (name, number, found, problem)
