"""Damaged documents: a text or a documented failure, in a process that serves the next one. Seeds are fixed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import get_args

import pytest

from carrel.sources.documents.kinds import KINDS
from carrel.sources.documents.messages import Failure, WorkerRequest
from carrel.sources.documents.process import Process
from carrel.sources.process import Crashed, ProcessTimeout
from fuzz.run import SEEDS, TARGETS
from support.documents import DOCUMENTS, changed_archive, photo

pytestmark = pytest.mark.slow

BY_FORMAT = {kind.format: kind for kind in KINDS.values()}
INNER = {
    "docx": "word/document.xml",
    "xlsx": "xl/worksheets/sheet1.xml",
    "pptx": "ppt/slides/slide1.xml",
    "odt": "content.xml",
    "ods": "content.xml",
    "odp": "content.xml",
    "epub": "OEBPS/book.opf",
}
ROUNDS = 4


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    process = Process(seconds=60, memory=1024**3)
    yield process
    process.stop()


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return data with some bytes changed, removed, doubled or moved."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        at, size = chance.randrange(len(changed) + 1), chance.choice((1, 2, 8, 64))
        piece = changed[at : at + size]
        match chance.randrange(4):
            case 0:
                changed[at : at + size] = chance.randbytes(len(piece))
            case 1:
                del changed[at : at + size]
            case 2:
                changed[at:at] = piece * chance.randint(1, 50)
            case 3:
                other = chance.randrange(len(changed) + 1)
                changed[at : at + size] = changed[other : other + size]
    return bytes(changed)


@pytest.mark.parametrize("format", [*DOCUMENTS, "image"])
def test_damaged_documents_have_a_documented_end(process: Process, format: str) -> None:
    chance = random.Random(format)
    whole = photo() if format == "image" else DOCUMENTS[format]()
    kind = BY_FORMAT[format]
    for number in range(ROUNDS):
        if format in INNER and number % 3:
            data = changed_archive(whole, INNER[format], lambda part: mutated(part, chance))
        else:
            data = mutated(whole, chance)
        message = WorkerRequest(f"{format} {number}", kind.module, format, kind.unit, data, 0, 100_000, True)
        try:
            found = process.ask(message)
        except (Crashed, ProcessTimeout):  # which are documented, too: the server goes on
            continue
        assert found.failure in (None, *get_args(Failure))
        assert (found.failure is None) == bool(found.text)
    good = WorkerRequest(f"{format} good", kind.module, format, kind.unit, whole, 1, 100_000, False)
    assert process.ask(good).failure is None


def test_the_seeds_of_the_fuzzer_are_what_they_should_be() -> None:
    formats = [list(KINDS.values())[seed[0]].format for seed in SEEDS["documents"]]
    assert formats == ["html", "ipynb", "eml", "pdf"]
    target = TARGETS["documents"]()
    for seed in SEEDS["documents"]:
        target(seed)
