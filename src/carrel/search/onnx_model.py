"""ONNX model with its tokenizer, in a folder as Hugging Face, sentence-transformers and fastembed keep it.

It runs in this process, by onnxruntime. Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from carrel.errors import ConfigError
from carrel.extras import explain_missing, find_missing
from carrel.search.vectors import numbers

__all__ = ["OnnxModel", "check_extra", "checksum_of", "model_files", "read_json"]

#: Names of the model in its folder, the first one that exists.
NAMES = (
    *("model.onnx", "onnx/model.onnx", "model_optimized.onnx"),
    *("onnx/model_quantized.onnx", "model_quantized.onnx"),
)
TOKENIZER = "tokenizer.json"
#: Files with settings of a model; the first two have the number of tokens that it reads.
SETTINGS = (
    *("sentence_bert_config.json", "tokenizer_config.json"),
    *("1_Pooling/config.json", "config_sentence_transformers.json"),
)
#: Tokens of a text at most, and texts that are computed at a time.
MAX_TOKENS, BATCH = 512, 8


class OnnxModel:
    """Model that turns texts, or pairs of texts, into arrays. ``path`` is its folder, or the file in it.

    Raises:
        ConfigError: a file is missing.
    """

    def __init__(self, path: Path) -> None:
        import onnxruntime  # type: ignore[import-untyped]
        from tokenizers import Tokenizer

        self._numpy = numbers()
        file, tokenizer = model_files(path)[:2]
        self.folder = tokenizer.parent
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = max(1, (os.cpu_count() or 1) // 2)
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._max_tokens())
        self._inputs = {each.name for each in self._session.get_inputs()}

    def _max_tokens(self) -> int:
        stated = (
            read_json(self.folder / SETTINGS[0]).get("max_seq_length"),
            (self._tokenizer.truncation or {}).get("max_length"),
            read_json(self.folder / SETTINGS[1]).get("model_max_length"),
        )
        most = next((each for each in stated if isinstance(each, int | float) and each > 0), MAX_TOKENS)
        return int(min(most, MAX_TOKENS))

    def run(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> list[tuple[Any, Any]]:
        """Return of each text, or pair of texts, the first output and the mask of its tokens."""
        encodings = self._tokenizer.encode_batch(list(texts))
        order = sorted(range(len(texts)), key=lambda at: len(encodings[at].ids))  # little padding
        found: list[tuple[Any, Any]] = [(None, None)] * len(texts)
        for begin in range(0, len(order), BATCH):
            part = order[begin : begin + BATCH]
            width = max(len(encodings[at].ids) for at in part)
            arrays = self._numpy.zeros((3, len(part), width), dtype="int64")
            for row, at in enumerate(part):
                each = encodings[at]
                arrays[:, row, : len(each.ids)] = each.ids, each.attention_mask, each.type_ids
            names = ("input_ids", "attention_mask", "token_type_ids")
            given = {name: array for name, array in zip(names, arrays, strict=True) if name in self._inputs}
            output = self._session.run(None, given)[0]
            for row, at in enumerate(part):
                found[at] = output[row], arrays[1, row]
        return found


def model_files(path: Path) -> list[Path]:
    """Return the files of the model in a folder, or of a file: the model, its tokenizer, and others that it has.

    Raises:
        ConfigError: there is no model, or no tokenizer beside it.
    """
    files = [path] if path.is_file() else [path / name for name in NAMES]
    file = next((each for each in files if each.is_file()), None)
    if file is None:
        raise ConfigError(f"There is no model in {path}: it must have one of the files {', '.join(NAMES)}")
    folder = file.parent.parent if file.parent.name == "onnx" else file.parent
    if not (folder / TOKENIZER).is_file():
        raise ConfigError(f"There is no {TOKENIZER} in {folder}, the folder of the model {file.name}")
    others = [file.with_name(f"{file.name}_data"), *(folder / name for name in SETTINGS)]
    return [file, folder / TOKENIZER, *(each for each in others if each.is_file())]


def checksum_of(files: Sequence[Path]) -> str:
    """Return the checksum of some files. Blocks."""
    found = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            found.update(hashlib.file_digest(file, "sha256").digest())
    return found.hexdigest()


def check_extra(extra: str) -> None:
    """Check that the packages of an extra are installed.

    Raises:
        ConfigError: one is missing.
    """
    missing = find_missing(extra)
    if missing is not None:
        raise ConfigError(f"For a local model, {explain_missing(missing, extra)}")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one if there is none."""
    try:
        found = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return found if isinstance(found, dict) else {}
