"""What a caller may not read is never found: not by hits, scores, snippets, suggestions or counts."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

from carrel import Server
from carrel.catalog.access import UNRESTRICTED
from carrel.protocol.principal import View
from carrel.search.index import SearchIndex
from search.indexed import TEMPLATE, names, searching, write
from support.memory_client import call, complete, read


class Switch:
    """Gate that shows everything, or only what has no "secret" in its URI."""

    def __init__(self) -> None:
        self.hides = True

    def view(self, principal: object) -> View:
        return Open() if self.hides else UNRESTRICTED


class Open(View):
    key = "open"
    hides = True

    def allows(self, verb: str, target: str) -> bool:
        return "secret" not in target or target.startswith("search:")


def shelf(tmp_path: Path, gate: Switch | None, *, secrets: bool = True) -> Server:
    app = Server("shelf", gate=gate)
    folder = write(
        tmp_path / f"shelf {secrets}", open_md="# Open\n\nA whale, seen by all.\n", other_txt="whale and lamp\n"
    )
    app.resources.add("memo://open", "a whale in a memo")
    if secrets:
        write(folder / "secret", whale_md="# Whale\n\nThe whale of the treasure: moby.\n")
        for number in range(400):
            app.resources.add(
                f"memo://secret/{number}", f"whale whale whale moby {number}", title="Whale", mime_type="text/x-secret"
            )
    app.add_provider(str(folder))
    return app


async def test_hidden_resources_are_not_found_by_any_way(tmp_path: Path) -> None:
    gate = Switch()
    queries = ("whale", "treasure", "moby", "secret", "mobi", "399")
    async with searching(shelf(tmp_path, gate), tmp_path / "cache") as (_, peer):
        for query, limit in product(queries, (1, 100)):
            for contents in await read(peer, f"search://{query}?limit={limit}"):
                told = contents["text"].replace(query, "", 1).lower()
                assert "secret" not in told, query
                assert "moby" not in told, query
            found = await call(peer, "search", query=query, limit=limit)
            assert all("secret" not in hit["link"] for hit in found["structuredContent"]["hits"]), query
        gate.hides = False
        for query in queries:
            assert "secret" in (await read(peer, f"search://{query}?limit=100"))[1]["text"], query


async def test_visible_resources_are_found_behind_many_hidden_ones(tmp_path: Path) -> None:
    async with searching(shelf(tmp_path, Switch()), tmp_path / "cache") as (_, peer):
        found = json.loads((await read(peer, "search://whale?limit=10"))[1]["text"])
        assert {hit["resource"]["name"] for hit in found["hits"]} == {"open.md", "other.txt", "open"}


async def test_hits_and_scores_are_those_of_a_server_without_the_hidden_resources(tmp_path: Path) -> None:
    answers: list[dict[str, list[tuple[Any, ...]]]] = []
    for secrets in (True, False):
        app = shelf(tmp_path, Switch(), secrets=secrets)
        answers.append({})
        async with searching(app, tmp_path / f"cache {secrets}") as (_, peer):
            for query in ("whale", "whale lamp", "moby", "open"):
                hits = json.loads((await read(peer, f"search://{quote(query)}"))[1]["text"])["hits"]
                answers[-1][query] = [(hit["resource"]["name"], hit["score"], hit.get("snippet")) for hit in hits]
    assert answers[0] == answers[1]


async def test_completion_suggests_nothing_hidden(tmp_path: Path) -> None:
    gate = Switch()
    async with searching(shelf(tmp_path, gate), tmp_path / "cache") as (_, peer):
        assert (await complete(peer, TEMPLATE, "query", "whal"))["values"] == []
        assert "text/x-secret" not in (await complete(peer, TEMPLATE, "mime_type"))["values"]
        gate.hides = False
        assert (await complete(peer, TEMPLATE, "query", "whal"))["values"][0] == "Whale"
        assert "text/x-secret" in (await complete(peer, TEMPLATE, "mime_type"))["values"]


async def test_a_file_that_is_now_a_link_to_a_hidden_one_is_not_shown(tmp_path: Path) -> None:
    """The index still has the old text; the snippet is read as the caller may read it, and so there is no hit."""
    app = shelf(tmp_path, Switch())
    folder = tmp_path / "shelf True"
    async with searching(app, tmp_path / "cache") as (index, peer):
        index.on_changes = lambda *_: None  # type: ignore[method-assign]
        link = folder / "open.md"
        link.unlink()
        link.symlink_to(folder / "secret" / "whale.md")
        assert "treasure" not in (await read(peer, "search://seen"))[1]["text"]
        assert "open.md" not in (await read(peer, "search://seen"))[1]["text"]


async def test_resources_for_some_callers_only_are_not_indexed(tmp_path: Path) -> None:
    app = Server("s")
    app.resources.add("x://guarded", "whale", when=lambda: False)
    app.resources.add("x://open", "whale")
    async with searching(app, tmp_path / "cache") as (index, _):
        assert isinstance(index, SearchIndex)
        assert names(await index.search("whale")) == ["open"]


async def test_marks_in_names_and_texts_do_not_forge_the_page(tmp_path: Path) -> None:
    app = Server("s")
    app.resources.add("x://odd", "whale <script>\n# whale", title="](evil) [x]\n# Whale")
    async with searching(app, tmp_path / "cache") as (_, peer):
        page, _ = await read(peer, "search://whale")
        assert "\\]\\(evil\\)" in page["text"] or "\\](evil) \\[x\\] \\# Whale" in page["text"]
        assert "<script>" not in page["text"]
