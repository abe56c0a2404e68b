"""Search over what a server shares: what is found, with which lines, and by which ways it is asked."""

import json
from pathlib import Path

import pytest

from carrel import Contents, Context, Server
from carrel.errors import ConfigError
from carrel.server.app import Server as App
from search.indexed import TEMPLATE, names, searching, write
from support.memory_client import call, complete, error, listed, read


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    folder = write(
        tmp_path / "shared",
        context_md="# 上下文\n\n模型上下文协议连接应用程序与数据。\n\n喝茶。\n",
        protocol_md="# プロトコル\n\nモデルコンテキストプロトコルは標準です。東京で作られました。\n",
        korean_txt="모델 컨텍스트 프로토콜은 표준입니다.\n",
        server_py="import os\n\n\ndef createHttpServer(port):\n    return port\n",
        subscriptions_md="# Subscriptions\n\nClients subscribe to resources.\n\n## Limits\n\nAt most ten of them.\n",
        photo_png="not really",
    )
    write(folder / "deep", lamps_md="# Lamps\n\nA lamp burns oil. Nobody subscribes to it.\n")
    return folder


def library(shared: Path) -> Server:
    app = Server("library")
    app.add_provider(str(shared))
    app.resources.add("memo://oil", "# Oil\nfrom olives\nand whales", title="About oil", mime_type="text/markdown")
    app.resources.add("memo://blob", Contents(b"\x00olives", "application/octet-stream"), name="olive.bin")
    return app


FOUND = {
    "协议": "context.md",
    "上下文": "context.md",
    "茶": "context.md",
    "据": "context.md",
    "プロトコル": "protocol.md",
    "東京": "protocol.md",
    "준": "korean.txt",
    "표준": "korean.txt",
    "http server": "server.py",
    "create_http_server": "server.py",
    "subscribing clients": "subscriptions.md",
    "subscritpions": "subscriptions.md",
    "sever.py": "server.py",
    "whale": "oil",
    "photo": "photo.png",
    "olive.bin": "olive.bin",
    "deep lamps": "lamps.md",
}
"""The first resource that each query finds."""


async def test_words_in_text_and_names_are_found(shared: Path, tmp_path: Path) -> None:
    async with searching(library(shared), tmp_path / "cache") as (index, _):
        for query, found in FOUND.items():
            assert names(await index.search(query))[:1] == [found], query


async def test_what_is_nowhere_is_not_found(shared: Path, tmp_path: Path) -> None:
    async with searching(library(shared), tmp_path / "cache") as (index, _):
        for query in ("zebra", "协上", "鯨", "", "  ", "!?"):
            assert names(await index.search(query)) == []


async def test_a_hit_has_its_lines_and_a_link_to_them(shared: Path, tmp_path: Path) -> None:
    async with searching(library(shared), tmp_path / "cache") as (index, peer):
        (hit,) = (await index.search("burns")).hits
        assert (hit.line, hit.first_line, hit.last_line) == (3, 1, 3)
        assert hit.snippet == "A lamp burns oil. Nobody subscribes to it."
        assert hit.link == f"{hit.resource.uri}?lines=1-3"
        assert "burns" in (await read(peer, hit.link))[0]["text"]
        (hit,) = (await index.search("whales")).hits
        assert (hit.line, hit.snippet, hit.link) == (3, "from olives\nand whales", "memo://oil")
        assert hit.source == "library"


async def test_filters_limit_what_is_found(shared: Path, tmp_path: Path) -> None:
    async with searching(library(shared), tmp_path / "cache") as (index, _):
        assert set(names(await index.search("oil"))) == {"oil", "lamps.md"}
        assert names(await index.search("oil", source="library")) == ["oil"]
        assert names(await index.search("oil", source="shared")) == ["lamps.md"]
        assert names(await index.search("oil", source="file")) == ["lamps.md"]
        assert names(await index.search("oil", source="nowhere")) == []
        assert names(await index.search("server", mime_type="text/x-python")) == ["server.py"]
        assert names(await index.search("server", mime_type="image/*")) == []
        assert names(await index.search("oil", path="deep/")) == ["lamps.md"]
        assert names(await index.search("oil", path="memo://")) == ["oil"]
        assert len((await index.search("oil", limit=1)).hits) == 1
        with pytest.raises(ValueError, match="limit must be between 1 and 100"):
            await index.search("oil", limit=0)


async def test_the_template_is_read_as_a_page_and_as_json(shared: Path, tmp_path: Path) -> None:
    async with searching(library(shared), tmp_path / "cache") as (_, peer):
        assert TEMPLATE in [each["uriTemplate"] for each in await listed(peer, "resourceTemplates")]
        page, data = await read(peer, "search://%E5%8D%8F%E8%AE%AE?limit=3&mime_type=text%2Fmarkdown")
        assert page["mimeType"] == "text/markdown"
        assert "context.md](<file://" in page["text"]
        assert data["mimeType"] == "application/json"
        found = json.loads(data["text"])
        assert found["complete"] is True
        assert found["hits"][0]["resource"]["name"] == "context.md"
        assert found["hits"][0]["line"] == 3
        for wrong in ("1000", "0", "0000000055", "00000000100000", "1" * 5000, "²"):
            refused = await error(peer, "resources/read", uri=f"search://tea?limit={wrong}")
            assert "limit must be a number from 1 to 100" in refused["message"]
        assert "write the query" in (await error(peer, "resources/read", uri="search://"))["message"]


@pytest.mark.parametrize(
    "uri", ["search://Oil%20and%20whales", "search://oil?limit=2", "search://a:b@oil", "search://oil/whales"]
)
async def test_any_words_can_be_in_the_uri(shared: Path, tmp_path: Path, uri: str) -> None:
    async with searching(library(shared), tmp_path / "cache") as (_, peer):
        assert "oil" in (await read(peer, uri))[1]["text"]


async def test_the_tool_returns_a_page_links_and_json(shared: Path, tmp_path: Path) -> None:
    async with searching(library(shared), tmp_path / "cache") as (_, peer):
        (tool,) = [tool for tool in await listed(peer, "tools") if tool["name"] == "search"]
        assert (tool["name"], tool["annotations"]["readOnlyHint"]) == ("search", True)
        found = await call(peer, "search", query="burns", limit=1, budget=500)
        assert [block["type"] for block in found["content"]] == ["text", "resource_link"]
        assert found["content"][1]["uri"].endswith("lamps.md?lines=1-3")
        assert found["structuredContent"]["hits"][0]["snippet"].startswith("A lamp")
        for wrong in ({"query": " "}, {"query": "x", "limit": 0}, {"query": "x", "colour": "red"}, {}):
            assert (await call(peer, "search", **wrong))["isError"] is True


async def test_completion_suggests_names_sources_and_types(shared: Path, tmp_path: Path) -> None:
    async with searching(library(shared), tmp_path / "cache") as (_, peer):
        assert (await complete(peer, TEMPLATE, "query", "subsc"))["values"][0] == "subscriptions.md"
        assert (await complete(peer, TEMPLATE, "query", "abuot"))["values"] == ["About oil"]
        assert (await complete(peer, TEMPLATE, "source", "lib"))["values"][0] == "library"
        assert (await complete(peer, TEMPLATE, "mime_type", "text/m"))["values"] == ["text/markdown"]
        assert (await complete(peer, TEMPLATE, "limit", "1"))["values"] == ["10", "100"]


async def test_large_binary_and_excluded_resources(tmp_path: Path) -> None:
    shared = write(tmp_path / "shared", small_md="whale", large_md="whale " * 1000, secret_log="whale")
    app = Server("s")
    app.add_provider(str(shared))
    options = {"max_file_size": 1000, "exclude": ("*.log",)}
    async with searching(app, tmp_path / "cache", **options) as (index, _):
        assert names(await index.search("whale")) == ["small.md"]
        assert names(await index.search("large")) == ["large.md"]
        assert names(await index.search("secret")) == []


async def test_beyond_the_total_size_only_names_are_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shared = write(tmp_path / "shared", **{f"n{number}_md": "whale " * 100 for number in range(5)})
    app = Server("s")
    app.add_provider(str(shared))
    async with searching(app, tmp_path / "cache", max_total_size=1300) as (index, _):
        assert len((await index.search("whale")).hits) == 2
        assert names(await index.search("n4")) == ["n4.md"]
    assert "its limit; the rest is found by name only" in caplog.text


async def test_priority_and_recency_decide_between_equals(tmp_path: Path) -> None:
    from carrel.wire.base import Annotations

    app = Server("s")
    for name, annotations in (
        ("b-old", Annotations(last_modified="2020-01-01T00:00:00Z")),
        ("c-new", Annotations(last_modified="2999-01-01T00:00:00Z")),
        ("d-important", Annotations(priority=1.0)),
        ("a-unimportant", Annotations(priority=0.0)),
    ):
        app.resources.add(f"x://{name}", "the same text about whales", name="note", annotations=annotations)
    async with searching(app, tmp_path / "cache") as (index, _):
        hits = (await index.search("whales")).hits
        order = [hit.resource.uri.removeprefix("x://") for hit in hits]
        assert order.index("d-important") < order.index("a-unimportant")
        assert order.index("c-new") < order.index("b-old")


async def test_a_resource_that_asks_its_client_or_fails_is_found_by_name(tmp_path: Path) -> None:
    app = Server("s")

    @app.resource("x://asks")
    async def asks(context: Context) -> str:
        return str(await context.elicit("whale?"))

    @app.resource("x://fails")
    async def fails() -> str:
        raise RuntimeError("whale")

    async with searching(app, tmp_path / "cache") as (index, _):
        assert names(await index.search("asks")) == ["asks"]
        assert names(await index.search("fails")) == ["fails"]
        assert names(await index.search("whale")) == []


async def test_a_resource_with_many_passages_does_not_hide_the_others(tmp_path: Path) -> None:
    app = Server("crowded")
    app.resources.add("memo://stuffed", "samovar " * 200_000)
    app.resources.add("memo://lines", "samovar samovar\n\n" * 100_000)
    app.resources.add("memo://short", "Fill the samovar with water, and light the coals below it.")
    async with searching(app, tmp_path / "cache") as (index, _):
        assert set(names(await index.search("samovar"))) == {"stuffed", "lines", "short"}


async def test_several_sources_of_one_kind_and_a_mounted_server_are_in_one_index(tmp_path: Path) -> None:
    inner = Server("inner")
    inner.resources.add("in://whale", "a whale inside")
    app = Server("outer")
    app.add_provider(inner, namespace="far")
    for number in range(3):
        app.add_provider(str(write(tmp_path / f"f{number}", whale_md=f"whale number {number}")))
    async with searching(app, tmp_path / "cache") as (index, peer):
        hits = (await index.search("whale")).hits
        assert len(hits) == 4
        for hit in hits:
            assert "whale" in (await read(peer, hit.link))[0]["text"]


def test_the_search_is_added_once_and_before_the_start() -> None:
    app = App("s")
    app.add_search()
    with pytest.raises(ConfigError, match="There is a tool search already"):
        app.add_search()
    other = App("s")

    @other.tool
    def search(query: str) -> str:
        return query

    with pytest.raises(ConfigError, match="There is a tool search already"):
        other.add_search()


def test_without_the_engine_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tantivy", None)
    with pytest.raises(ConfigError, match=r"pip install 'carrel\[search\]'"):
        App("s").add_search()


async def test_resource_tools_leave_searching_to_the_search(shared: Path, tmp_path: Path) -> None:
    app = library(shared)
    app.add_resource_tools(search=False)
    async with searching(app, tmp_path / "cache") as (_, peer):
        names = {tool["name"] for tool in await listed(peer, "tools")}
        assert names == {"list_resources", "read_resource", "search", "context"}


async def test_passages_have_their_whole_texts_with_lines_and_headings(shared: Path, tmp_path: Path) -> None:
    async with searching(library(shared), tmp_path / "cache") as (index, _):
        found = await index.passages("burns", limit=5)
        assert found.complete
        passage = found.passages[0]
        hit = (await index.search("burns", limit=1)).hits[0]
        assert (passage.resource, passage.source, passage.link) == (hit.resource, hit.source, hit.link)
        assert (passage.first_line, passage.last_line) == (hit.first_line, hit.last_line)
        assert passage.text.splitlines() == (shared / "deep" / "lamps.md").read_text().splitlines()
        assert passage.heading == "Lamps"
        assert 0 < passage.score <= 1
        with pytest.raises(ValueError, match="limit must be between 1 and 100"):
            await index.passages("burns", limit=0)


async def test_a_whole_chinese_sentence_finds_the_file_that_its_first_word_names(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "糖尿病.txt").write_text("糖尿病的治疗包括饮食、运动和药物。\n")
    (folder / "tea.md").write_text("# Tea\n\nGreen tea.\n")
    app = Server("notes")
    app.add_provider(str(folder))
    async with searching(app, tmp_path / "cache") as (index, _):
        assert names(await index.search("糖尿病怎么治疗")) == ["糖尿病.txt"]
