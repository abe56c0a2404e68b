"""Embeddings by models in local folders, which the tests train."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from carrel import Server
from carrel.cli.config.read import read_configuration
from carrel.cli.options import add_sharing_options, as_arguments
from carrel.cli.source_flags import SourceFlags
from carrel.errors import ConfigError
from carrel.search.embedder import Unavailable
from carrel.search.local_models import LocalEmbedder
from carrel.search.options import SearchOptions
from carrel.transports import memory
from search.indexed import names, searching, write
from support.local_models import write_sentences, write_static

TEXTS = {
    "garage_md": "# Garage\n\nThe car is repaired there.\n",
    "clinic_md": "# Clinic\n\nThe doctor sees patients.\n",
    "market_md": "# Market\n\nPeople acquire vegetables.\n",
}
MODELS = {"model2vec": write_static, "onnx": write_sentences, "fastembed": write_sentences}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    make: Callable[[Path], Path] = MODELS[request.param]
    return f"{request.param}:{make(tmp_path / 'model')}"


def shared(tmp_path: Path) -> Server:
    app = Server("s")
    app.add_provider(str(write(tmp_path / "shared", **TEXTS)))
    return app


async def test_texts_are_found_by_their_meaning_with_a_local_model(tmp_path: Path, model: str) -> None:
    async with searching(shared(tmp_path), tmp_path / "cache", embeddings=model) as (index, _):
        await index.embedded()
        for query, name in (("automobile", "garage.md"), ("surgeon", "clinic.md"), ("carrots", "market.md")):
            assert names(await index.search(query))[0] == name
    async with searching(shared(tmp_path), tmp_path / "other") as (index, _):
        assert names(await index.search("automobile")) == []


async def test_unchanged_texts_are_not_embedded_again_and_another_model_embeds_all(
    tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[str] = []
    embed = LocalEmbedder.embed

    async def recorded(self: LocalEmbedder, texts: list[str], *, query: bool = False) -> object:
        embedded.extend(texts)
        return await embed(self, texts, query=query)

    monkeypatch.setattr(LocalEmbedder, "embed", recorded)

    async def run() -> list[str]:
        embedded.clear()
        app = Server("s")
        app.add_provider(str(tmp_path / "shared"))
        async with searching(app, tmp_path / "cache", embeddings=model) as (index, _):
            await index.embedded()
        return list(embedded)

    write(tmp_path / "shared", **TEXTS)
    assert len(await run()) == 3
    assert await run() == []
    (tmp_path / "shared" / "clinic.md").write_text("# Clinic\n\nThe physician has gone.\n")
    assert await run() == ["Clinic\n# Clinic\n\nThe physician has gone.\n"]
    settings = tmp_path / "model" / "tokenizer.json"
    settings.write_text(json.dumps(json.loads(settings.read_text())))  # other bytes: it may be another model
    assert len(await run()) == 3


async def test_the_folder_names_pooling_prompts_and_length(tmp_path: Path) -> None:
    folder = write_sentences(tmp_path / "model")
    plain = LocalEmbedder(f"onnx:{folder}")
    (one,) = await plain.embed(["car car doctor"])
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    first = LocalEmbedder(f"onnx:{folder}")
    assert not np.allclose(one, (await first.embed(["car car doctor"]))[0])
    assert np.allclose(*await first.embed(["car", "doctor"]))  # both texts begin with [CLS]
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": false}')
    (folder / "config_sentence_transformers.json").write_text('{"prompts": {"query": "garage "}}')
    prompted = LocalEmbedder(f"onnx:{folder}")
    (query,), (text,) = await prompted.embed(["car"], query=True), await prompted.embed(["garage car"])
    assert np.allclose(query, text)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 3}')
    short = LocalEmbedder(f"onnx:{folder}")
    assert np.allclose(*await short.embed(["car", "car doctor"]))
    assert len({each.identity() for each in (plain, short)}) == 2


async def test_texts_of_different_length_in_a_batch_do_not_change_each_other(tmp_path: Path) -> None:
    embedder = LocalEmbedder(f"onnx:{write_sentences(tmp_path)}")
    texts = ["car " * (number % 5 + 1) + "doctor" for number in range(40)]
    together = await embedder.embed(texts)
    for text, vector in zip(texts[:5], together, strict=False):
        assert np.allclose(vector, (await embedder.embed([text]))[0])


async def test_a_model_in_a_subfolder_and_a_file_are_models(tmp_path: Path) -> None:
    folder = write_sentences(tmp_path)
    (folder / "onnx").mkdir()
    shutil.move(folder / "model.onnx", folder / "onnx" / "model.onnx")
    for place in (folder, folder / "onnx" / "model.onnx"):
        assert len(await LocalEmbedder(f"onnx:{place}").embed(["car"])) == 1


@pytest.mark.parametrize("kind", MODELS)
def test_a_folder_without_a_model_is_an_error(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ConfigError, match="There is no model"):
        Server("s").add_search(SearchOptions(embeddings=f"{kind}:{tmp_path}"))


def test_a_model_without_a_tokenizer_is_an_error(tmp_path: Path) -> None:
    (write_sentences(tmp_path) / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        LocalEmbedder(f"onnx:{tmp_path}")


@pytest.mark.parametrize(
    ("kind", "module", "package"),
    [("model2vec", "model2vec", "model2vec"), ("onnx", "onnxruntime", "onnx"), ("fastembed", "tokenizers", "onnx")],
)
def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, module: str, package: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(ConfigError, match=rf"the package {module} is missing: pip install 'carrel\[{package}\]'"):
        LocalEmbedder(f"{kind}:{tmp_path}")


@pytest.mark.parametrize(("kind", "file"), [("model2vec", "model.safetensors"), ("onnx", "model.onnx")])
async def test_a_damaged_model_leaves_the_search_by_words(
    tmp_path: Path, kind: str, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = MODELS[kind](tmp_path / "model")
    (folder / file).write_bytes(b"no model")
    with pytest.raises(Unavailable, match="fails"):
        await LocalEmbedder(f"{kind}:{folder}").embed(["car"])
    app = shared(tmp_path)
    index = app.add_search(SearchOptions(folder=str(tmp_path / "cache"), embeddings=f"{kind}:{folder}"))
    with caplog.at_level(logging.WARNING, "carrel.search"):
        async with memory.connect(app):
            await index.ready()
            assert names(await index.search("car")) == ["garage.md"]
    assert "searches use words only" in caplog.text


def test_the_command_line_and_a_file_name_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "shared", **TEXTS)
    write_static(tmp_path / "here" / "model")
    (tmp_path / "here" / "carrel.toml").write_text('[search]\nenabled = true\nembeddings = "model2vec:model"\n')
    reader = argparse.ArgumentParser()
    add_sharing_options(reader)
    options = reader.parse_args(["--search", "--embeddings", "model2vec:model"])
    assert as_arguments(options, [], SourceFlags([], {})) == ["--search", f"--embeddings=model2vec:{tmp_path}/model"]
    read = read_configuration(argparse.Namespace(config="here/carrel.toml"), targeted=True)
    assert read.settings.search.embeddings == f"model2vec:{tmp_path}/here/model"
    url = read_configuration(reader.parse_args(["--embeddings", "model2vec:here/model"]), targeted=True)
    assert url.settings.search.embeddings == f"model2vec:{tmp_path}/here/model"
