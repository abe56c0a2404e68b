"""Questions that nothing in the index is relevant for."""

from __future__ import annotations

from pathlib import Path

from carrel import Client, Server
from carrel.search.options import SearchOptions
from search.indexed import names, write

#: Texts of one subject with many different words.
TEXTS = {
    f"page{number}_md": f"# Server {number}\n\nServer number{number} answers requests of a client with word{number}.\n"
    for number in range(300)
}


async def test_absent_words_of_a_question_make_everything_else_irrelevant(tmp_path: Path) -> None:
    app = Server("s")
    app.add_provider(str(write(tmp_path / "shared", **TEXTS)))
    index = app.add_search(SearchOptions(folder=str(tmp_path / "cache")))
    async with Client(app) as client:
        await index.ready()
        found = await index.search("lasagna: when to bake it in the oven of a server")
        assert (found.hits, list(found.absent)) == ([], ["lasagna", "bake", "oven"])
        assert len(found.nearest) == 3
        result = await client.call_tool("search", {"query": "bake lasagna server"})
        page = result.content[0].text  # type: ignore[union-attr]
        assert "Nothing relevant is found. No text has: bake, lasagna. The nearest:\n\n- [page" in page
        assert not result.structured_content["hits"]  # type: ignore[index]
        assert len(result.structured_content["nearest"]) == 3  # type: ignore[index]
        result = await client.call_tool("context", {"question": "bake lasagna server"})
        page = result.content[0].text  # type: ignore[union-attr]
        assert page.startswith("Nothing relevant is found. The nearest resources:\n- <file:///")
        pack = await index.context("bake lasagna server", pin=["file:///none"])
        assert pack.items == ()
        reasons = {each.reason for each in pack.left_out}
        assert reasons == {"the nearest, but not relevant", "pinned, but cannot be read"}
        assert names(await index.search("bake servers word7"))[0] == "page7.md"
        assert names(await index.search("pgae7")) == ["page7.md"]


async def test_a_small_index_may_lack_many_words_of_a_question(tmp_path: Path) -> None:
    app = Server("s")
    app.add_provider(str(write(tmp_path / "shared", tea_md="# Tea\n\nGreen tea.\n", car_md="# Car\n\nAn engine.\n")))
    index = app.add_search(SearchOptions(folder=str(tmp_path / "cache")))
    async with Client(app):
        await index.ready()
        assert names(await index.search("steep lasagna mountain tea")) == ["tea.md"]
