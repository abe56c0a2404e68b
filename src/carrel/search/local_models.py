"""Embeddings by a model in a local folder: static vectors of model2vec, or a sentence model in ONNX.

https://github.com/MinishLab/model2vec, https://onnxruntime.ai
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from carrel.errors import ConfigError
from carrel.search.embedder import Unavailable
from carrel.search.onnx_model import OnnxModel, check_extra, checksum_of, model_files, read_json

__all__ = ["LocalEmbedder"]

#: Files of a model of model2vec.
STATIC = ("model.safetensors", "tokenizer.json", "config.json")


class Sentences(Protocol):
    """Model of sentences."""

    def embed(self, texts: list[str], *, query: bool) -> Sequence[Any]:
        """Return a vector for each text; some models embed queries in another way than passages."""
        ...


class StaticSentences:
    """Model of model2vec: the vector of a text is the mean of its tokens' vectors."""

    def __init__(self, path: Path) -> None:
        from model2vec import StaticModel

        self._model = StaticModel.from_pretrained(path)

    def embed(self, texts: list[str], *, query: bool) -> Sequence[Any]:
        """Return a vector for each text."""
        return list(self._model.encode(texts, use_multiprocessing=False))


class OnnxSentences:
    """Model in ONNX, with the pooling and the prompts that its folder names, else the mean of all tokens."""

    def __init__(self, path: Path) -> None:
        self._model = OnnxModel(path)
        folder = self._model.folder
        self._first = read_json(folder / "1_Pooling" / "config.json").get("pooling_mode_cls_token") is True
        prompts = read_json(folder / "config_sentence_transformers.json").get("prompts") or {}
        self._query = str(prompts.get("query", ""))
        self._passage = str(prompts.get("document", prompts.get("passage", "")))

    def embed(self, texts: list[str], *, query: bool) -> Sequence[Any]:
        """Return a vector for each text."""
        prompt = self._query if query else self._passage
        return [self._pooled(*each) for each in self._model.run([prompt + text for text in texts])]

    def _pooled(self, output: Any, mask: Any) -> Any:
        if output.ndim == 1:  # one vector for the text
            return output
        return output[0] if self._first else output[mask.astype(bool)].mean(axis=0)


class LocalEmbedder:
    """Model at a setting such as ``model2vec:PATH``.

    Raises:
        ConfigError: there is no model, or a package is missing.
    """

    def __init__(self, setting: str) -> None:
        kind, _, path = setting.partition(":")
        self._path = Path(path).expanduser()
        self._load: Callable[[Path], Sentences]
        if kind == "model2vec":
            check_extra("model2vec")
            self._load, self._files = StaticSentences, static_files(self._path)
        else:
            check_extra("onnx")
            self._load, self._files = OnnxSentences, model_files(self._path)
        self._lock = threading.Lock()
        self._model: Sentences | None = None
        self._passages = asyncio.Lock()

    def identity(self) -> str:
        """Return the checksum of the model's files. Blocks. Load the model too, for which a query would wait."""
        with suppress(Exception):  # embed reports it
            self._loaded()
        return checksum_of(self._files)

    def _loaded(self) -> Sentences:
        with self._lock:
            self._model = self._model or self._load(self._path)
            return self._model

    async def embed(self, texts: list[str], *, query: bool = False) -> Sequence[Any]:
        """Return a vector for each text. Passages are embedded one batch at a time, and queries beside them."""
        if query:
            return await asyncio.to_thread(self._embed, texts, query)
        async with self._passages:
            return await asyncio.to_thread(self._embed, texts, query)

    def _embed(self, texts: list[str], query: bool) -> Sequence[Any]:
        try:
            return self._loaded().embed(texts, query=query)
        except Exception as error:  # the packages have no common class of errors
            raise Unavailable(f"the model {self._path} fails: {type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Do nothing."""


def static_files(path: Path) -> list[Path]:
    """Return the files of a model of model2vec.

    Raises:
        ConfigError: one is missing.
    """
    files = [path / name for name in STATIC]
    for file in files:
        if not file.is_file():
            raise ConfigError(f"There is no model of model2vec in {path}: the file {file.name} is missing")
    return files
