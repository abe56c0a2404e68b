"""Texts of documents: a caller who may not read the document gets nothing of it, also after another one has read it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from carrel import Server, sources
from carrel.catalog.access import UNRESTRICTED
from carrel.protocol.principal import View
from carrel.search.options import SearchOptions
from carrel.sources.stores.memory import InMemoryStore
from carrel.transports import memory
from support.memory_client import complete

pytestmark = pytest.mark.slow

PAGE = "<h1>Treasure</h1><p>It is buried below the old oak.</p>"
QUERIES = ("?page=1", "?view=text", "?view=text&lines=1-2", "?page=1&bytes=0-10", "?page=1&tail=1", "?page=99", "")


class Gate:
    """Gate that shows everything, or only what has no "secret" in its URI."""

    hides = False

    def view(self, principal: object) -> View:
        return Hiding() if self.hides else UNRESTRICTED


class Hiding(View):
    key = "hiding"
    hides = True

    def allows(self, verb: str, target: str) -> bool:
        return "secret" not in target or target.startswith("search:")


@pytest.fixture(params=["files", "memory", "zip"])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Gate, Any, str]]:
    """Give the gate of a server with a hidden document, a client of it, and the URI of the folder."""
    gate, folder = Gate(), tmp_path / "shelf"
    (folder / "secret").mkdir(parents=True)
    (folder / "open.html").write_text("<h1>Open</h1>")
    (folder / "secret" / "a.html").write_text(PAGE)
    if request.param == "files":
        target = str(folder)
    elif request.param == "zip":
        target = f"zip:{tmp_path}/shelf.zip"
        with ZipFile(tmp_path / "shelf.zip", "w") as archive:
            for path in folder.rglob("*.html"):
                archive.write(path, path.relative_to(folder))
    else:
        target = "memory://attacked"
        for path in folder.rglob("*.html"):
            InMemoryStore.named("attacked").put(str(path.relative_to(folder)), path.read_bytes())
    source = sources.open(target)
    app = Server("shelf", gate=gate)
    app.add_provider(source)
    index = app.add_search(SearchOptions(folder=str(tmp_path / "cache")))
    async with memory.connect(app) as peer:
        await index.settled()
        yield gate, peer, str(source.uri).rstrip("/")


async def test_a_hidden_document_has_no_text_in_any_spelling(shared: tuple[Gate, Any, str]) -> None:
    gate, peer, base = shared

    async def answer(uri: str) -> str:
        return str(await peer.request("resources/read", {"uri": uri}))

    assert "old oak" in await answer(f"{base}/secret/a.html?page=1")
    assert "old oak" in await answer(f"{base}/secret/a.html?view=text")
    assert "old oak" in await answer("search://oak?limit=10")
    gate.hides = True
    scheme, _, rest = base.partition(":")
    for start in (base, f"{scheme.upper()}:{rest}", f"{base}/open.html/..", f"{base}/."):
        for path in (
            "secret/a.html",
            "%73ecret/a.html",
            "%73ecret%2Fa.html",
            "%73ecret//a.html",
            "x/%2e%2e/%73ecret/a.html",
        ):
            for query in QUERIES:
                said = await answer(f"{start}/{path}{query}")
                assert "error" in said, said
                assert "oak" not in said
                assert "1 section" not in said, "how many pages it has"
    for query in ("oak", "treasure", "a.html", "buried"):
        found = await answer(f"search://{query}?limit=10")
        assert "oak" not in found.replace(query, "")
        assert "secret" not in found


async def test_pages_of_a_hidden_document_are_not_suggested(shared: tuple[Gate, Any, str]) -> None:
    gate, peer, base = shared
    template = f"{base}/{{+path}}{{?page}}"
    assert (await complete(peer, template, "page", path="secret/a.html"))["values"] == ["1"]
    gate.hides = True
    for path in ("secret/a.html", "%73ecret/a.html", "./secret/a.html", "x/../secret/a.html"):
        assert (await complete(peer, template, "page", path=path))["values"] == []
    assert (await complete(peer, template, "page", path="open.html"))["values"] == ["1"]
