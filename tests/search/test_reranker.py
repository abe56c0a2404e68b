"""Reranking by a cross-encoder in a local folder, which the tests make."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from carrel import Client, Server
from carrel.errors import ConfigError
from carrel.search import reranker as module
from carrel.search.options import SearchOptions
from carrel.search.reranker import Reranker
from search.indexed import names, searching, write
from support.local_models import write_reranker

#: By its words, the first text is the best for "garage car"; the model prefers texts of vehicles.
TEXTS = {
    "words_md": "garage garage, of the garage\n",
    "meant_md": "garage: automobile vehicle mechanic engine\n",
    "other_md": "clinic doctor garage patients hospital\n",
}


async def found(tmp_path: Path, query: str = "garage", **options: object) -> list[str]:
    app = Server("s")
    app.add_provider(str(write(tmp_path / "shared", **TEXTS)))
    async with searching(app, tmp_path / "cache", **options) as (index, _):
        hits = (await index.search(query)).hits
        passages = (await index.passages(query)).passages
        assert [each.resource.name for each in passages] == [hit.resource.name for hit in hits]
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert len((await index.search(query, limit=1)).hits) == 1
    return [hit.resource.name for hit in hits]


async def test_the_first_passages_get_the_order_of_the_model(tmp_path: Path) -> None:
    plain = await found(tmp_path)
    assert plain[0] == "words.md"
    model = f"onnx:{write_reranker(tmp_path / 'model')}"
    reranked = await found(tmp_path, query="garage automobile", reranker=model)
    assert reranked == ["meant.md", "words.md", "other.md"]
    assert (await found(tmp_path, reranker=model))[-1] == "other.md"


async def test_no_more_passages_are_read_than_the_options_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Sequence[str]] = []
    scores = Reranker._scores

    def recorded(self: Reranker, query: str, texts: Sequence[str]) -> list[float]:
        read.append(texts)
        return scores(self, query, texts)

    monkeypatch.setattr(Reranker, "_scores", recorded)
    plain = await found(tmp_path)
    model = f"onnx:{write_reranker(tmp_path / 'model')}"
    assert await found(tmp_path, reranker=model, reranked=1) == plain
    assert {len(texts) for texts in read} == {1}


async def test_the_tool_reads_passages_and_reranks_them_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Sequence[str]] = []
    scores = Reranker._scores

    def recorded(self: Reranker, query: str, texts: Sequence[str]) -> list[float]:
        read.append(texts)
        return scores(self, query, texts)

    monkeypatch.setattr(Reranker, "_scores", recorded)
    app = Server("s")
    app.add_provider(str(write(tmp_path / "shared", **TEXTS)))
    model = f"onnx:{write_reranker(tmp_path / 'model')}"
    index = app.add_search(SearchOptions(folder=str(tmp_path / "cache"), reranker=model))
    async with Client(app) as client:
        await index.ready()
        result = await client.call_tool("search", {"query": "garage automobile", "limit": 2})
        assert len(read) == 1
        found = [hit["resource"]["name"] for hit in result.structured_content["hits"]]  # type: ignore[index]
        assert found == names(await index.search("garage automobile", limit=2)) == ["meant.md", "words.md"]
        assert "clinic" in result.content[0].text  # type: ignore[union-attr]


async def test_after_the_time_the_other_passages_keep_their_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    reranker = Reranker(f"onnx:{write_reranker(tmp_path / 'model')}", 30, 1e-9)
    texts = ["garage", "automobile vehicle", "car car car"]
    assert len(reranker._scores("car", texts)) == 2
    reranker = Reranker(f"onnx:{tmp_path / 'model'}", 30, 1e9)
    scores = reranker._scores("car", texts)
    assert scores[0] < scores[1] < scores[2]


async def test_a_damaged_model_leaves_the_order_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = await found(tmp_path)
    folder = write_reranker(tmp_path / "model")
    (folder / "model.onnx").write_bytes(b"no model")
    with caplog.at_level(logging.WARNING, "carrel.search"):
        assert await found(tmp_path, reranker=f"onnx:{folder}") == plain
    assert caplog.text.count("the reranker") == 1


async def test_a_resource_that_is_gone_is_no_hit_of_the_model(tmp_path: Path) -> None:
    model = f"onnx:{write_reranker(tmp_path / 'model')}"
    app = Server("s")
    folder = write(tmp_path / "shared", **TEXTS)
    app.add_provider(str(folder))
    async with searching(app, tmp_path / "cache", reranker=model) as (index, _):
        (folder / "meant.md").unlink()
        await index.settled()
        assert "meant.md" not in names(await index.search("garage automobile"))


@pytest.mark.parametrize("setting", ["http://localhost/v1", "model2vec:here", "onnx:/nowhere"])
def test_a_setting_without_a_model_is_an_error(setting: str) -> None:
    with pytest.raises(ConfigError, match=r"reranker is a model|no model in"):
        Server("s").add_search(SearchOptions(reranker=setting))


@pytest.mark.parametrize("options", [{"reranked": 0}, {"rerank_seconds": 0}])
def test_numbers_are_above_zero(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="more than 0"):
        SearchOptions(**options)
