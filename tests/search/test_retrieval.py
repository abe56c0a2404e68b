"""Recall of the benchmark of retrieval, in small: questions about the code of Python's standard library."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

import pytest
from benchmarks.retrieval.__main__ import carrel, passages
from benchmarks.retrieval.measure import BUDGETS, mean, score
from benchmarks.retrieval.questions import load

#: Points for the differences of another version's library.
OTHER_VERSION = 0 if sys.version_info[:2] == (3, 11) else 6


#: Every which question is asked, and recall within 2,000 and 8,000 tokens, in percent, with Python 3.11's library, less
#: the 2 points by which it may fall.
@pytest.mark.parametrize(
    ("every", "small", "large"), [(2, 75, 80), pytest.param(1, 75, 81, marks=pytest.mark.exhaustive)]
)
async def test_passages_that_answer_questions_are_found(tmp_path: Path, every: int, small: int, large: int) -> None:
    library = Path(sysconfig.get_paths()["stdlib"])
    questions = load("code")[::every]
    for file in {needed.file for question in questions for needed in question.needed}:
        source, target = library / file.removeprefix("code/"), tmp_path / file
        if source.is_file():  # not all versions of Python have it
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    scores = []
    async with carrel(tmp_path, "code") as index:
        ask = passages(index, tmp_path)
        for question in questions:
            needed = question.lines(tmp_path)
            if needed:
                found = await ask(question.question, BUDGETS[1])
                scores.append(score(found, found, needed))
    assert len(scores) > 150 // every
    result = mean(scores)
    assert result.small * 100 >= small - OTHER_VERSION, result
    assert result.large * 100 >= large - OTHER_VERSION, result
