"""Small models in local folders that the tests train: vectors of words from the words beside them.

Words that occur beside the same words get similar vectors, so that ``automobile`` is near ``car``.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from model2vec import StaticModel
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

#: Words that are used in the same sentences, and the sentences.
SAME = (("car", "automobile", "vehicle"), ("doctor", "surgeon", "physician"), ("vegetables", "carrots", "potatoes"))
SENTENCES = (
    ("the {} is repaired in the garage", "a mechanic repairs the {} with a new engine"),
    ("the {} sees patients in the clinic", "a patient visits the {} at the hospital"),
    ("people acquire {} at the market", "farmers grow {} in the field"),
)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
DIMENSIONS = 12


def trained() -> tuple[list[str], Any]:
    """Return words, and a vector for each: the main directions of how often words occur in a sentence together."""
    texts = [
        sentence.format(word).split()
        for words, sentences in zip(SAME, SENTENCES, strict=True)
        for word, sentence in product(words, sentences)
    ]
    words = [*SPECIAL, *sorted({word for text in texts for word in text})]
    place = {word: at for at, word in enumerate(words)}
    together = np.zeros((len(words), len(words)))
    for text in texts:
        for one, other in product(text, text):
            if one != other:
                together[place[one], place[other]] += 1
    expected = together.sum(1, keepdims=True) * together.sum(0, keepdims=True) / together.sum()
    ratio = np.divide(together, expected, out=np.zeros_like(together), where=expected > 0)
    left, sizes, _ = np.linalg.svd(np.log(np.maximum(ratio, 1.0)))  # positive pointwise mutual information
    return words, (left[:, :DIMENSIONS] * np.sqrt(sizes[:DIMENSIONS])).astype("float32")


def tokenizer(words: list[str]) -> Tokenizer:
    """Return the tokenizer that splits texts into words."""
    made = Tokenizer(WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = Lowercase(), Whitespace()
    return made


def write_static(folder: Path) -> Path:
    """Write a model of model2vec, and return its folder."""
    words, vectors = trained()
    StaticModel(vectors, tokenizer(words), config={"normalize": True}, normalize=True).save_pretrained(folder)
    return folder


def write_sentences(folder: Path) -> Path:
    """Write an ONNX model that returns the vector of each token, and return its folder."""
    words, vectors = trained()
    made = tokenizer(words)
    made.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    nodes = [helper.make_node("Gather", ["vectors", "input_ids"], ["last_hidden_state"])]
    save(folder, made, nodes, ["input_ids"], ("last_hidden_state", ["texts", "tokens", DIMENSIONS]), vectors=vectors)
    return folder


def write_reranker(folder: Path) -> Path:
    """Write an ONNX cross-encoder: the product of the sums of the vectors of the query and of the passage."""
    words, vectors = trained()
    vectors = vectors / (np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-6)
    made = tokenizer(words)
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    node = helper.make_node
    nodes = [
        node("Gather", ["vectors", "input_ids"], ["each"]),
        node("Mul", ["attention_mask", "token_type_ids"], ["second"]),
        node("Sub", ["attention_mask", "second"], ["first"]),
        node("Cast", ["first"], ["of_query"], to=TensorProto.FLOAT),
        node("Cast", ["second"], ["of_passage"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["of_query", "last"], ["of_query_each"]),
        node("Unsqueeze", ["of_passage", "last"], ["of_passage_each"]),
        node("Mul", ["each", "of_query_each"], ["query_each"]),
        node("Mul", ["each", "of_passage_each"], ["passage_each"]),
        node("ReduceSum", ["query_each", "tokens"], ["query"], keepdims=0),
        node("ReduceSum", ["passage_each", "tokens"], ["passage"], keepdims=0),
        node("Mul", ["query", "passage"], ["products"]),
        node("ReduceSum", ["products", "tokens"], ["logits"], keepdims=1),
    ]
    axes = {"last": np.array([2]), "tokens": np.array([1])}
    inputs = ["input_ids", "attention_mask", "token_type_ids"]
    save(folder, made, nodes, inputs, ("logits", ["texts", 1]), vectors=vectors, **axes)
    return folder


def save(
    folder: Path, made: Tokenizer, nodes: list[Any], inputs: list[str], output: tuple[str, list[Any]], **arrays: Any
) -> None:
    """Write the model and its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, str(folder / "model.onnx"))
