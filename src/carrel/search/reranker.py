"""Reranker: a cross-encoder in a local folder that reads the query and a passage together.

The first passages of a search get its order. It is much slower than the search, so that it has a number of passages
and a time at most.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from carrel.errors import ConfigError
from carrel.log import Log
from carrel.search.onnx_model import BATCH, OnnxModel, check_extra, model_files

if TYPE_CHECKING:
    from carrel.search.ranking import Ranked

__all__ = ["RERANKERS", "Reranker"]

log = Log("carrel.search")

#: Kinds of rerankers: ``onnx:PATH``.
RERANKERS = ("onnx", "fastembed")
#: Characters of a query and of a passage that the model reads.
MAX_QUERY, MAX_PASSAGE = 1000, 4000


class Reranker:
    """Cross-encoder at a setting such as ``onnx:PATH``, which is loaded by the first query.

    ``most`` is the number of passages that it reads for a query, and ``seconds`` the time after which it begins no
    other batch of them.

    Raises:
        ConfigError: there is no model, a package is missing, or the setting is of another kind.
    """

    def __init__(self, setting: str, most: int, seconds: float) -> None:
        kind, _, path = setting.partition(":")
        if kind not in RERANKERS:
            raise ConfigError(f"A reranker is a model in a local folder, onnx:PATH, not {setting!r}")
        check_extra("onnx")
        self.most = most
        self._seconds = seconds
        self._path = Path(path).expanduser()
        model_files(self._path)
        self._lock = threading.Lock()
        self._model: OnnxModel | None = None
        self._warned = False

    async def rerank(self, query: str, found: Sequence[tuple[Ranked, str]]) -> list[tuple[Ranked, str]]:
        """Return passages in the order of the model, with the scores of their new places.

        Passages that are not read, as there are too many or they take too long, stay behind. If the model fails, the
        order stays, and a warning is logged once.
        """
        first = [text for _, text in found[: self.most]]
        try:
            scores = await asyncio.to_thread(self._scores, query[:MAX_QUERY], first)
        except Exception as error:  # onnxruntime and tokenizers have no common class of errors
            if not self._warned:
                self._warned = True
                log.warning("the reranker %s fails, so searches are not reranked: %s", self._path, error)
            return list(found)
        order = sorted(range(len(scores)), key=lambda at: -scores[at])
        ordered = [found[at] for at in order]
        places = zip(ordered, found, strict=False)
        return [*((each._replace(score=at.score), text) for (each, text), (at, _) in places), *found[len(scores) :]]

    def _scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return the scores of the texts that the time is enough for."""
        with self._lock:
            self._model = self._model or OnnxModel(self._path)
        end = monotonic() + self._seconds
        scores: list[float] = []
        for begin in range(0, len(texts), BATCH):
            if begin and monotonic() > end:
                break
            part = [(query, text[:MAX_PASSAGE]) for text in texts[begin : begin + BATCH]]
            # Of two outputs, the second one is for relevant passages.
            scores += [float(output.reshape(-1)[-1]) for output, _ in self._model.run(part)]
        return scores
