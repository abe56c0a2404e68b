"""BM25 of LlamaIndex and LangChain with their default chunks, in an environment that is made for them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .rivals import MOST, Found

__all__ = ["PEERS", "Answers", "answers_of"]

#: Peers by their names in the report, and in the program.
PEERS = {"LlamaIndex, BM25": "llamaindex", "LangChain, BM25": "langchain"}
PACKAGES = ("llama-index-retrievers-bm25", "langchain-community", "langchain-text-splitters", "rank-bm25")
PROGRAM = Path(__file__).with_name("peer_program.py")


class Answers(NamedTuple):
    """Passages that a peer finds for each question, the seconds of each, and the seconds of a core to index."""

    found: list[list[Found]]
    seconds: list[float]
    index: float


def environment(folder: Path) -> Path:
    """Return the interpreter of the environment with the peers, which is made if it is not there."""
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(f"installing {', '.join(PACKAGES)}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
        (folder / "complete").touch()
    return python


def answers_of(folder: Path, peer: str, files: Sequence[tuple[str, str]], questions: Sequence[str]) -> Answers:
    """Return the answers of a peer to questions over files, in a process of its own. ``folder`` is its environment."""
    given = json.dumps({"files": files, "questions": questions, "most": MOST})
    made = subprocess.run(
        [environment(folder), PROGRAM, PEERS[peer]], input=given.encode(), stdout=subprocess.PIPE, check=True
    )
    output = json.loads(made.stdout)
    texts = dict(files)
    found = [[_found(texts, *each) for each in answer["found"]] for answer in output["answers"]]
    return Answers(found, [answer["seconds"] for answer in output["answers"]], output["index"])


def _found(texts: dict[str, str], file: str, start: int, text: str) -> Found:
    first = texts[file].count("\n", 0, max(start, 0)) + 1
    return Found(file, first, first + text.count("\n"), text)
