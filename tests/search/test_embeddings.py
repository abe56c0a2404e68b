"""Ranking by meaning: through a real HTTP endpoint with vectors of hashed words, and by functions in Python."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from carrel import Server
from carrel.errors import ConfigError
from carrel.protocol.principal import View
from carrel.search import embeddings
from carrel.search import vectors as stored
from carrel.search.embedder import EmbeddingsEndpoint as Client
from carrel.search.embedder import EmbeddingsFunction, Unavailable
from carrel.search.engine import Damaged
from carrel.search.options import SearchOptions
from carrel.search.vectors import Vectors
from carrel.transports import memory
from search.indexed import names, searching, write
from support.embeddings_endpoint import EmbeddingsEndpoint, vector_of
from support.memory_client import read

TEXTS = {
    "garage_md": "# Garage\n\nThe car is repaired there.\n",
    "clinic_md": "# Clinic\n\nThe doctor sees patients.\n",
    "market_md": "# Market\n\nPeople acquire vegetables.\n",
}


@pytest.fixture
async def endpoint() -> AsyncIterator[EmbeddingsEndpoint]:
    async with EmbeddingsEndpoint().serve() as served:
        yield served


def options(endpoint: EmbeddingsEndpoint) -> dict[str, Any]:
    return {"embeddings": endpoint.url, "embeddings_model": "words", "embeddings_key": endpoint.key}


def shared(tmp_path: Path, **texts: str) -> Server:
    app = Server("s")
    app.add_provider(str(write(tmp_path / "shared", **(texts or TEXTS))))
    return app


async def test_texts_without_a_word_of_the_query_are_found_by_their_meaning(
    tmp_path: Path, endpoint: EmbeddingsEndpoint
) -> None:
    async with searching(shared(tmp_path), tmp_path / "cache", **options(endpoint)) as (index, peer):
        await index.embedded()
        for query, name in (("automobile", "garage.md"), ("surgeon", "clinic.md"), ("buy", "market.md")):
            hit = (await index.search(query)).hits[0]
            assert hit.resource.name == name
            assert (hit.line, hit.first_line) == (1, 1)
            assert "#" in (hit.snippet or "")
        assert names(await index.search("zeppelin")) == []
        assert "garage.md" in (await read(peer, "search://vehicle"))[1]["text"]
        words = (await index.search("car")).hits[0]
        assert (words.resource.name, words.line) == ("garage.md", 3)
    async with searching(shared(tmp_path), tmp_path / "other") as (index, _):
        assert names(await index.search("automobile")) == []


async def test_what_is_embedded_is_not_sent_again(tmp_path: Path, endpoint: EmbeddingsEndpoint) -> None:
    folder = write(tmp_path / "shared", **TEXTS)

    async def run() -> list[str]:
        endpoint.texts.clear()
        app = Server("s")
        app.add_provider(str(folder))
        async with searching(app, tmp_path / "cache", **options(endpoint)) as (index, _):
            await index.embedded()
            sent = list(endpoint.texts)
            assert names(await index.search("vehicle"))[0] in ("garage.md", "moved.md")
        return sent

    assert len(await run()) == 3
    assert await run() == []
    (folder / "garage.md").rename(folder / "moved.md")
    assert await run() == []
    (folder / "clinic.md").write_text("# Clinic\n\nThe physician has gone.\n")
    assert await run() == ["Clinic\n# Clinic\n\nThe physician has gone.\n"]
    (manifest,) = (tmp_path / "cache").glob("*/manifest.sqlite")
    manifest.unlink()  # the index is made anew, and the vectors stay
    assert await run() == []


async def test_many_passages_are_sent_in_batches_and_those_that_are_refused_have_none(
    tmp_path: Path, endpoint: EmbeddingsEndpoint
) -> None:
    endpoint.refused = "number7x"
    texts = {f"n{number}_txt": f"number{number}x of the car" for number in range(100)}
    async with searching(shared(tmp_path, **texts), tmp_path / "cache", **options(endpoint)) as (index, _):
        await index.embedded()
        assert len(endpoint.texts) == 99
        assert max(endpoint.batches) == embeddings.BATCH
        assert len(endpoint.batches) < 50
        assert len((await index.search("vehicle", limit=100)).hits) == 99
        assert names(await index.search("number7x")) == ["n7.txt"]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_failures_are_tried_again(tmp_path: Path, endpoint: EmbeddingsEndpoint, status: int) -> None:
    endpoint.failures = [status]
    async with searching(shared(tmp_path), tmp_path / "cache", **options(endpoint)) as (index, _):
        await index.embedded()
        assert names(await index.search("vehicle")) == ["garage.md"]


async def test_without_the_endpoint_words_are_found_and_it_is_said_once(
    tmp_path: Path, endpoint: EmbeddingsEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.down = True
    async with searching(shared(tmp_path), tmp_path / "cache", **options(endpoint)) as (index, _):
        for query in ("car", "car", "garage"):
            assert names(await index.search(query)) == ["garage.md"]
        assert names(await index.search("vehicle")) == []
    said = [record.getMessage() for record in caplog.records if "embeddings" in record.getMessage()]
    assert said == [f"embeddings are unavailable, so searches use words only: {endpoint.url}/embeddings answered 503"]


async def test_a_query_that_the_endpoint_refuses_keeps_no_other_from_its_meaning(
    tmp_path: Path, endpoint: EmbeddingsEndpoint
) -> None:
    endpoint.refused = "garage garage"
    async with searching(shared(tmp_path), tmp_path / "cache", **options(endpoint)) as (index, _):
        await index.embedded()
        assert names(await index.search("garage garage")) == ["garage.md"]
        assert names(await index.search("vehicle")) == ["garage.md"]


async def test_a_wrong_key_is_said_without_it(
    tmp_path: Path, endpoint: EmbeddingsEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    given = options(endpoint) | {"embeddings_key": "wrong-key"}
    async with searching(shared(tmp_path), tmp_path / "cache", **given) as (index, _):
        assert names(await index.search("garage")) == ["garage.md"]
    assert "answered 401" in caplog.text
    assert "wrong-key" not in caplog.text


class Hiding(View):
    key = "hiding"
    hides = True

    def allows(self, verb: str, target: str) -> bool:
        return "garage" not in target


class Gate:
    def view(self, principal: object) -> View:
        return Hiding()


async def test_what_a_caller_may_not_read_is_not_found_by_its_meaning(
    tmp_path: Path, endpoint: EmbeddingsEndpoint
) -> None:
    app = Server("s", gate=Gate())
    texts = {**TEXTS, **{f"garage{number}_md": "The car is repaired." for number in range(200)}, "shop_md": "autos\n"}
    app.add_provider(str(write(tmp_path / "shared", **texts)))
    async with searching(app, tmp_path / "cache", **options(endpoint)) as (index, peer):
        await index.embedded()
        found = json.loads((await read(peer, "search://vehicle?limit=100"))[1]["text"])
        assert [hit["resource"]["name"] for hit in found["hits"]] == ["shop.md"]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_a_function_in_python_embeds(tmp_path: Path, kind: str) -> None:
    async def later(texts: list[str]) -> list[list[float]]:
        return [vector_of(text) for text in texts]

    def now(texts: list[str]) -> list[list[float]]:
        return [vector_of(text) for text in texts]

    app = shared(tmp_path)
    index = app.add_search(SearchOptions(folder=str(tmp_path / "cache")), embed=later if kind == "async" else now)
    async with memory.connect(app):
        await index.embedded()
        assert names(await index.search("automobile")) == ["garage.md"]


@pytest.mark.parametrize("function", [lambda texts: 1 / 0, lambda texts: [], lambda texts: None])
async def test_a_function_that_fails_is_unavailable(function: Any) -> None:
    with pytest.raises(Unavailable, match="the function for embeddings"):
        await EmbeddingsFunction(function).embed(["text"])


def body_with(vector: str, count: int = 1) -> bytes:
    """Return a response with a vector several times, of the same index."""
    return f'{{"data": [{",".join([f"""{{"embedding": {vector}, "index": 0}}"""] * count)}]}}'.encode()


@pytest.mark.parametrize(
    "body",
    [
        *(b"{}", b"[", b'{"data": []}', b'{"data": null}', body_with("[1]", 2), body_with("[1]", 100_000)),
        *(body_with(one) for one in ('["x"]', "[NaN]", "[[1]]", "7", f"[{'0,' * 300_000}0]", "[" * 100_000)),
    ],
    ids=range(12),
)
async def test_an_answer_that_is_none_is_unavailable(body: bytes) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_post("/embeddings", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        client = Client(f"http://127.0.0.1:{runner.addresses[0][1]}/embeddings?api-version=1", "m")
        with pytest.raises(Unavailable, match=r"/embeddings (answered with|did not answer|did not return)"):
            await client.embed(["text"])
        await client.close()
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("url", ["localhost:1", "file:///etc/passwd", "http://", "http://user:pw@host/v1"])
def test_a_url_that_is_none_is_an_error(url: str) -> None:
    with pytest.raises(ConfigError, match="must look like http"):
        Server("s").add_search(SearchOptions(embeddings=url, embeddings_model="m"))


def test_a_url_needs_a_model() -> None:
    with pytest.raises(ConfigError, match="embeddings_model"):
        SearchOptions(embeddings="http://localhost/v1")


def test_without_numpy_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    with pytest.raises(ConfigError, match=r"pip install 'carrel\[embeddings\]'"):
        Server("s").add_search(SearchOptions(embeddings="http://localhost/v1", embeddings_model="m"))


# Vectors on the disk


OPENED: list[Vectors] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def opened(folder: Path, model: str = "m", *, write: bool = True, fresh: bool = False) -> Vectors:
    OPENED.append(Vectors(str(folder), model, write=write, fresh=fresh))
    return OPENED[-1]


def filled(folder: Path) -> Vectors:
    vectors = opened(folder, fresh=True)
    vectors.put(1, [(1, 2, "one"), (3, 4, "two")])
    vectors.put(2, [(1, 1, "two")])
    vectors.add([(key, [1.0, 0.0] if text == "one" else [0.6, 0.8]) for key, text in vectors.waiting(9).items()])
    vectors.commit()
    return vectors


def test_passages_are_found_by_their_vectors_the_most_alike_first(tmp_path: Path) -> None:
    vectors = filled(tmp_path)
    found = vectors.nearest([2.0, 0.0])(10, 0)
    assert [(match.number, match.first) for match in found] == [(1, 1), (1, 3), (2, 1)]
    assert [round(match.score, 3) for match in found] == [1.0, 0.6, 0.6]
    assert [match.first for match in vectors.nearest([2.0, 0.0])(1, 1)] == [3, 1]
    assert vectors.nearest([-1.0, -1.0])(10, 0) == []
    assert vectors.nearest([1.0])(10, 0) == []
    reader = opened(tmp_path, write=False)
    assert len(reader.nearest([2.0, 0.0])(10, 0)) == 3


def test_rows_of_texts_that_are_gone_are_used_again(tmp_path: Path) -> None:
    vectors = filled(tmp_path)
    vectors.put(1, [(1, 2, "three")])
    vectors.tidy()
    vectors.add([(key, [0.0, 1.0]) for key in vectors.waiting(9)])
    vectors.commit()
    assert (tmp_path / "vectors.f32").stat().st_size == 2 * 2 * 4
    assert [match.number for match in vectors.nearest([0.0, 1.0])(10, 0)] == [1, 2]


@pytest.mark.parametrize("vector", [[1.0], [1.0, 2.0, 3.0], ["x", "y"], [{}, 1.0]])
def test_a_vector_that_does_not_fit_is_refused(tmp_path: Path, vector: Any) -> None:
    vectors = filled(tmp_path)
    vectors.put(3, [(1, 1, "three")])
    with pytest.raises(ValueError, match=r"numbers|vectors|float"):
        vectors.add([(key, vector) for key in vectors.waiting(9)])


@pytest.mark.parametrize("vector", [None, [0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_a_text_can_be_without_a_direction(tmp_path: Path, vector: Any) -> None:
    vectors = filled(tmp_path)
    vectors.put(3, [(1, 1, "three")])
    vectors.add([(key, vector) for key in vectors.waiting(9)])
    assert vectors.count() == 0
    assert len(vectors.nearest([1.0, 1.0])(10, 0)) == 3


def test_damaged_vectors_and_those_of_another_model_or_format_are_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path).close()
    with pytest.raises(Damaged, match="another model"):
        opened(tmp_path, "n")
    monkeypatch.setattr(stored, "FORMAT", 1)
    filled(tmp_path).close()
    monkeypatch.undo()
    with pytest.raises(Damaged, match="another format"):
        opened(tmp_path)
    filled(tmp_path).close()
    (tmp_path / "vectors.f32").write_bytes(b"short")
    with pytest.raises(Damaged, match="missing"):
        opened(tmp_path)
    filled(tmp_path).close()
    (tmp_path / "vectors.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(Damaged):
        opened(tmp_path)
    assert opened(tmp_path, fresh=True).count() == 0
