"""Documents shared by ``carrel serve``, read as text by the official Python client, over stdio and HTTP."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from carrel import Server
from carrel.uri.parse import file_uri
from support.carrel_process import command
from support.documents import DOCUMENTS, pdf
from support.http_server import over_http
from support.sdk_session import SDKSession, sdk_session

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "report.pdf").write_bytes(pdf())
    (folder / "offer.docx").write_bytes(DOCUMENTS["docx"]())
    (folder / "film.mp4").write_bytes(bytes(range(256)) * 40)
    return folder


def use(session: SDKSession, root: str) -> None:
    """List the documents, read one as it is and as text, and fail as one should."""
    listed = {resource["name"]: resource for resource in session.call("list_resources")["resources"]}
    assert listed["report.pdf"]["meta"] == {"carrel/text": "?view=text"}
    assert listed["report.pdf"]["description"].startswith("PDF; ?view=text")
    templates = [one["uriTemplate"] for one in session.call("list_resource_templates")["resourceTemplates"]]
    assert {f"{root}/{{+path}}{{?page}}", f"{root}/{{+path}}{{?view}}"} <= set(templates)
    [original] = session.call("read_resource", f"{root}/report.pdf")["contents"]
    assert base64.b64decode(original["blob"]) == pdf()
    [page] = session.call("read_resource", f"{root}/report.pdf?page=2")["contents"]
    assert (page["mimeType"], page["text"]) == ("text/markdown", "Page 2\nThe quick fox jumps over it.\n")
    [text] = session.call("read_resource", f"{root}/offer.docx?view=text&lines=1-3")["contents"]
    assert text["text"].startswith("# Chapter One\n")
    [piece] = session.call("read_resource", f"{root}/film.mp4?bytes=100-199")["contents"]
    assert (piece["mimeType"], base64.b64decode(piece["blob"])) == ("video/mp4", bytes(range(100, 200)))


def test_documents_are_read_as_text_over_stdio(folder: Path) -> None:
    with sdk_session(*command("serve", str(folder))) as session:
        use(session, file_uri(folder))
        assert "quick fox" in session.tool("read_resource", uri=f"{file_uri(folder)}/report.pdf?page=1")


def test_documents_are_read_as_text_over_http(folder: Path) -> None:
    app = Server("documents")
    app.add_provider(str(folder))
    with over_http(app) as origin, sdk_session(f"{origin}/mcp") as session:
        use(session, file_uri(folder))
